//! The root folder of backups taken over the network.
//!
//! A key of the server is not an account of its machine: a backup requested over REST must
//! lie below `backup.root`. Commands on the machine itself may name any folder that their
//! user can access.

use std::fs;
use std::path::{Component, Path, PathBuf};

use steadfast_core::error::Code;
use steadfast_net::http::Problem;
use steadfast_storage::private;

/// The backup folder is not below the backup root.
const OUTSIDE: Code = Code("STF-7006");

/// Resolves a backup name to a folder below the backup root.
pub(super) fn place(root: &Path, data: &Path, name: &Path) -> Result<PathBuf, Problem> {
    let shown = root.display();
    let inside = if name.is_absolute() {
        // The root may be a symbolic link. A backup reports the resolved path, which is
        // accepted as a name too.
        let roots = [std::path::absolute(root), fs::canonicalize(root)];
        let mut roots = roots.iter().flatten();
        let inside = roots.find_map(|root| name.strip_prefix(root).ok());
        inside.ok_or_else(|| outside(&root_words(&shown)))?
    } else {
        name
    };
    private::create_dir_all(root)
        .map_err(|error| outside(&format!("the folder {shown} cannot be made: {error}")))?;
    let mut found = fs::canonicalize(root)
        .map_err(|error| outside(&format!("the folder {shown} cannot be read: {error}")))?;
    for part in inside.components() {
        match part {
            Component::CurDir => continue,
            Component::Normal(part) => found.push(part),
            _ => return Err(outside(&root_words(&shown))),
        }
        if fs::symlink_metadata(&found).is_ok_and(|found| found.is_symlink()) {
            let words = format!("{} is a link: it may lead elsewhere", found.display());
            return Err(outside(&words));
        }
    }
    let data = fs::canonicalize(data).unwrap_or_else(|_| data.to_owned());
    if found.starts_with(&data) {
        Err(outside("it is in the data folder of the server"))
    } else {
        Ok(found)
    }
}

fn root_words(root: &impl std::fmt::Display) -> String {
    format!("backups by command over the network are below {root} (backup.root); name them so")
}

fn outside(why: &str) -> Problem {
    Problem::new(OUTSIDE, format!("a backup may not lie there: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_below_the_root_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        let (root, data) = (top.join("backups"), top.join("data"));
        fs::create_dir_all(data.join("log")).unwrap();
        let place = |root: &Path, name: &str| place(root, &data, Path::new(name));
        for good in ["", ".", "a", "a/b", "./a", root.join("a").to_str().unwrap()] {
            assert!(place(&root, good).unwrap().starts_with(&root), "{good}");
        }
        std::os::unix::fs::symlink(&data, root.join("link")).unwrap();
        let inside = root.join("../data");
        let bad = ["..", "a/../..", "/", "/etc", "link", "link/log"];
        for bad in bad.into_iter().chain(inside.to_str()) {
            let refused = place(&root, bad).unwrap_err();
            assert_eq!(refused.code().0, "STF-7006", "{bad}");
        }
        // A root that holds the data folder, or lies in it.
        assert!(place(&top, "data/log").is_err() && place(&top, "other").is_ok());
        assert!(place(&data, "backups").is_err());
    }

    #[test]
    fn what_a_backup_answers_is_taken_also_below_a_linked_root() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        let (real, root, data) = (top.join("private"), top.join("backups"), top.join("data"));
        fs::create_dir_all(real.join("a")).unwrap();
        fs::create_dir_all(&data).unwrap();
        std::os::unix::fs::symlink(&real, &root).unwrap();
        let answered = place(&root, &data, Path::new("a")).unwrap();
        assert_eq!(answered, real.join("a"));
        for name in [answered.clone(), root.join("a")] {
            assert_eq!(place(&root, &data, &name).unwrap(), answered);
        }
        for bad in [real.join("../data"), data.clone(), top.join("privately")] {
            assert!(place(&root, &data, &bad).is_err(), "{}", bad.display());
        }
    }
}
