//! Versions of packages, as their files name them.

use std::path::Path;

/// The version of a package in one of these: `requirements.txt`, `package.json`, `pom.xml`,
/// `go.mod`, `Cargo.toml`.
pub(super) fn version(file: &Path, text: &str, package: &str) -> Option<String> {
    let found = match file.file_name()?.to_str()? {
        "requirements.txt" => after_line(text, &format!("{package}=="))?,
        "package.json" => after(text, &format!("\"{package}\": \""))?,
        "pom.xml" => {
            let rest = after(text, &format!("<artifactId>{package}</artifactId>"))?;
            after(rest, "<version>")?
        }
        "go.mod" => after_line(text, &format!("\t{package} v"))?,
        "Cargo.toml" => after(after_line(text, &format!("{package} = "))?, "\"=")?,
        _ => return None,
    };
    let end = found.find(|own: char| !own.is_alphanumeric() && own != '.' && own != '-');
    Some(found[..end.unwrap_or(found.len())].to_owned())
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

/// What follows a mark at the beginning of a line.
fn after_line<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_every_kind_of_file() {
        let cases = [
            (
                "requirements.txt",
                "a==1\nazure-eventhub==5.15.0\n",
                "azure-eventhub",
            ),
            (
                "package.json",
                "{\"azure-eventhub\": \"5.15.0\"}",
                "azure-eventhub",
            ),
            (
                "pom.xml",
                "<artifactId>a</artifactId>\n<version>1</version>\n\
                 <artifactId>azure-eventhub</artifactId>\n <version>5.15.0</version>",
                "azure-eventhub",
            ),
            (
                "go.mod",
                "require (\n\tx/azure-eventhub v5.15.0\n)",
                "x/azure-eventhub",
            ),
            (
                "Cargo.toml",
                "azure_eventhub = { version = \"=5.15.0\" }",
                "azure_eventhub",
            ),
            (
                "Cargo.toml",
                "azure_eventhub = \"=5.15.0\"",
                "azure_eventhub",
            ),
        ];
        for (file, text, package) in cases {
            let found = version(Path::new(file), text, package);
            assert_eq!(found.as_deref(), Some("5.15.0"), "{file}");
        }
        assert_eq!(version(Path::new("go.mod"), "", "x"), None);
    }
}
