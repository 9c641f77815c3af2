//! No file names a folder of one machine.

use anyhow::Result;

use super::tree::Tree;

/// In pieces, so that this file does not find itself.
const FOLDERS: [&str; 3] = [
    concat!("/", "work", "/"),
    concat!("/", "root", "/"),
    concat!("/", "home", "/"),
];

/// The lines that name such a folder.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(text) = tree.text(file)? else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            if FOLDERS.iter().any(|folder| names(line, folder)) {
                findings.push(format!(
                    "{}:{}: {}",
                    file.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    Ok(findings)
}

/// Whether a path that begins with this folder is in the line.
fn names(line: &str, folder: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "/._-~}>*".contains(c);
    line.match_indices(folder)
        .any(|(at, _)| !line[..at].ends_with(inside))
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted;
    use super::*;

    #[test]
    fn only_paths_from_the_root_are_found() {
        let [first, second, third] = FOLDERS;
        let text = format!(
            "cd {first}x\nPATH=/usr/bin:{second}bin\n(\"{third}me\")\nhttps://example.org{third}page\n./a{first}b\n$HOME/x /workshop/\n"
        );
        let (_folder, tree) = planted(&[("notes.md", &text)]);
        let findings = check(&tree).unwrap();
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[1].starts_with("notes.md:2: PATH="));
    }

    #[test]
    fn files_that_are_no_text_are_skipped() {
        let (folder, tree) = planted(&[("data.bin", "")]);
        let bytes = [b"\xff ", FOLDERS[0].as_bytes()].concat();
        std::fs::write(folder.path().join("data.bin"), bytes).unwrap();
        assert!(check(&tree).unwrap().is_empty());
    }
}
