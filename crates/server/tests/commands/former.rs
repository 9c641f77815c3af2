//! Former names of commands, which scripts may use.

use super::{all_commands, children, help_of};
use crate::running::{Start, run, said, steadfast};

/// Each former name, and what it is called now.
const NAMES: &[(&str, &str)] = &[
    ("orchestration", "workflow"),
    ("collection", "job collection"),
    ("event send", "eventhub send"),
    ("event tail", "eventhub tail"),
    ("group", "eventhub group"),
    ("parked", "eventhub dead-letter"),
    ("client list", "hub client list"),
    ("client show", "hub client show"),
    ("client close", "hub client close"),
    ("client send", "hub send"),
    ("client token", "hub token"),
    ("appserver", "hub server"),
    ("lock", "entity lock"),
    ("region", "cluster region"),
    ("backup", "store backup"),
    ("backup verify", "store backup verify"),
    ("restore", "store restore"),
    ("migrate", "store migrate"),
    ("inspect", "store inspect"),
];

fn words(path: &str) -> Vec<String> {
    path.split(' ').map(str::to_owned).collect()
}

/// What follows the first line: arguments and options, without the name in the usage.
fn body(help: &str) -> Vec<&str> {
    let is_named = |line: &&str| !line.starts_with("Usage:") && !line.contains("steadfast ");
    help.lines().skip(1).filter(is_named).collect()
}

#[test]
fn a_former_name_takes_the_same_arguments() {
    for (former, now) in NAMES {
        let (former_help, help) = (help_of(&words(former), 100), help_of(&words(now), 100));
        let own = body(&help);
        let missing: Vec<_> = body(&former_help)
            .into_iter()
            .filter(|line| !own.contains(line))
            .collect();
        assert_eq!(missing, Vec::<&str>::new(), "{former} as {now}");
        for verb in children(&help) {
            let path = [words(former), vec![verb.clone()]].concat();
            assert!(!help_of(&path, 100).is_empty(), "{former} {verb}");
        }
    }
}

#[test]
fn help_shows_no_former_name() {
    let shown: Vec<_> = all_commands().iter().map(|path| path.join(" ")).collect();
    for (former, now) in NAMES {
        assert!(!shown.iter().any(|path| path == former), "{former}");
        assert!(shown.iter().any(|path| path == now), "{now}");
    }
}

#[test]
fn former_names_do_what_they_did() {
    let server = Start::new("dev").ready();
    let commands: &[&[&str]] = &[
        &["eventhub", "create", "houses"],
        &["event", "send", "houses", "one"],
        &["event", "tail", "houses", "--from", "start", "--wait", "0"],
        &["group", "list", "houses"],
        &["parked", "list", "houses"],
        &["orchestration", "start", "greet", "--id", "a"],
        &["orchestration", "list", "--top", "5"],
        &["lock", "list"],
        &["collection", "create", "nightly"],
        &["collection", "list"],
        &["job", "preview", "--every", "day", "--top", "2"],
        &["inspect", "collections"],
        &["eventhub", "update", "houses", "--retention", "forever"],
        &["status", "--json"],
    ];
    for command in commands {
        let (code, _, errors) = said(&server.run(command));
        assert_eq!(code, 0, "{command:?}: {errors}");
    }
}

#[test]
fn completions_offer_nothing_that_help_hides() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        // Longer than what a process of the harness keeps.
        let mut command = steadfast(folder.path());
        let (code, script, errors) = said(&command.args(["completions", shell]).output().unwrap());
        assert_eq!(code, 0, "{errors}");
        for shown in ["dead-letter", "key-file", "orchestration"] {
            assert!(script.contains(shown), "{shell} does not offer {shown}");
        }
        for hidden in [
            "parked",
            "appserver",
            "storage-child",
            "access-key",
            "--json",
        ] {
            assert!(!script.contains(hidden), "{shell} offers {hidden}");
        }
    }
}

#[test]
fn a_key_on_the_command_line_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["status", "--access-key", "secret-text"][..],
        &[
            "context",
            "add",
            "a",
            "--url",
            "http://a:1",
            "--key",
            "secret-text",
        ],
    ] {
        let (code, _, errors) = said(&run(folder.path(), arguments));
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains("--key-file"), "{errors}");
        assert!(!errors.contains("secret-text"), "{errors}");
    }
}
