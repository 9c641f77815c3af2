//! Values by layer: defaults, file, environment, flags.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::declarations::{self, Declarations};
use super::error::{Error, ErrorKind};
use super::nearest::nearest;
use super::setting::{SETTINGS, Setting, find};
use super::value::ValueType;

/// The layer that a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The default; no other layer sets it.
    Default,
    /// A file.
    File(PathBuf),
    /// A variable of the environment.
    Environment(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// Variables of the command line that are not settings.
const OTHER_VARIABLES: [&str; 4] = [
    "STEADFAST_CONFIG",
    "STEADFAST_CONTEXT",
    "STEADFAST_URL",
    "STEADFAST_KEY",
];

/// The prefix of every variable.
const PREFIX: &str = "STEADFAST_";

/// All values, each with its layer.
///
/// ```
/// use steadfast::config::Layers;
///
/// # fn main() -> Result<(), steadfast::config::Error> {
/// let layers = Layers::new()
///     .environment([("STEADFAST_HTTP__PORT".to_owned(), "8080".to_owned())])?
///     .flag("log.level=debug")?;
/// let shown = layers.shown();
/// let port = shown.iter().find(|(key, ..)| *key == "http.port").unwrap();
/// assert_eq!((port.1.as_str(), port.2.as_str()), ("8080", "STEADFAST_HTTP__PORT"));
///
/// let wrong = layers.flag("log.levle=debug").unwrap_err();
/// assert!(wrong.to_string().ends_with("did you mean 'log.level'?"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Layers {
    values: BTreeMap<&'static str, (Value, Layer)>,
    pub(super) declared: Declarations,
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `shown` leaves out secrets.
        f.debug_list().entries(self.shown()).finish()
    }
}

impl Layers {
    /// The defaults.
    pub fn new() -> Self {
        let mut layers = Self::default();
        for setting in SETTINGS
            .iter()
            .filter(|setting| !setting.default.is_empty())
        {
            let text = format!("value = {}", setting.default);
            let mut table: Table = text.parse().expect("a test has read every default");
            let value = table.remove("value").expect("it was just written");
            layers.values.insert(setting.key, (value, Layer::Default));
        }
        layers
    }

    /// Adds a file as the next layer.
    pub fn file(mut self, file: &Path) -> Result<Self, Error> {
        let place = file.display().to_string();
        let unreadable = |why: String| {
            let file = place.clone();
            Error::new(ErrorKind::File { file, why })
        };
        let text = fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map(|before| before.matches('\n').count() + 1);
            let line = line
                .map(|line| format!("line {line}: "))
                .unwrap_or_default();
            unreadable(format!("{line}{}", error.message()))
        })?;
        self.declared = Declarations::take(&mut table, &place)?;
        let layer = Layer::File(file.to_owned());
        self.lay(table, "", &layer)?;
        Ok(self)
    }

    /// Adds environment variables as the next layer.
    pub fn environment(
        mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        for (name, text) in variables {
            let Some(rest) = name.strip_prefix(PREFIX) else {
                continue;
            };
            if OTHER_VARIABLES.contains(&name.as_str()) {
                continue;
            }
            let key = rest.replace("__", ".").to_lowercase();
            self.set(&key, &text, Layer::Environment(name))?;
        }
        Ok(self)
    }

    /// Adds a flag, `key=value`, as the next layer.
    pub fn flag(mut self, text: &str) -> Result<Self, Error> {
        let Some((key, value)) = text.split_once('=') else {
            let why = "write it as key=value";
            return Err(Error::value(text, Layer::Flag, why));
        };
        self.set(key.trim(), value, Layer::Flag)?;
        Ok(self)
    }

    /// Sets one value in a layer above the current ones.
    pub fn set(&mut self, key: &str, text: &str, layer: Layer) -> Result<(), Error> {
        let setting = known(key, &layer)?;
        let value = setting.form.read(text);
        let value = value.map_err(|why| Error::value(key, &layer, why))?;
        self.values.insert(setting.key, (value, layer));
        Ok(())
    }

    /// Every setting with its value as text, and its layer.
    pub fn shown(&self) -> Vec<(&'static str, String, String)> {
        let shown = |setting: &Setting| {
            let found = self.values.get(setting.key);
            let (value, layer) = match found {
                Some((_, layer)) if setting.form == ValueType::Secret => {
                    ("(secret)".to_owned(), layer)
                }
                Some((value, layer)) => (value.to_string(), layer),
                None => (String::new(), &Layer::Default),
            };
            (setting.key, value, layer.to_string())
        };
        SETTINGS.iter().map(shown).collect()
    }

    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key).map(|(value, _)| value)
    }

    pub(super) fn layer(&self, key: &str) -> &Layer {
        self.values
            .get(key)
            .map_or(&Layer::Default, |(_, layer)| layer)
    }

    /// Adds a table of a file, with its nested tables.
    fn lay(&mut self, table: Table, prefix: &str, layer: &Layer) -> Result<(), Error> {
        for (name, value) in table {
            let key = match prefix {
                "" => name,
                prefix => format!("{prefix}.{name}"),
            };
            match value {
                Value::Table(inner) if find(&key).is_none() => {
                    let is_table = |known: &Setting| known.key.starts_with(&format!("{key}."));
                    if !SETTINGS.iter().any(is_table) {
                        return Err(unknown(&key, layer));
                    }
                    self.lay(inner, &key, layer)?;
                }
                value => {
                    let setting = known(&key, layer)?;
                    let checked = setting.form.check(&value);
                    checked.map_err(|why| Error::value(&key, layer, why))?;
                    self.values.insert(setting.key, (value, layer.clone()));
                }
            }
        }
        Ok(())
    }
}

fn known(key: &str, layer: &Layer) -> Result<&'static Setting, Error> {
    find(key).ok_or_else(|| unknown(key, layer))
}

fn unknown(key: &str, layer: &Layer) -> Error {
    let keys = SETTINGS.iter().map(|setting| setting.key);
    let tables = SETTINGS
        .iter()
        .filter_map(|setting| setting.key.split_once('.'));
    let known = keys
        .chain(tables.map(|(table, _)| table))
        .chain(declarations::lists());
    debug_assert!(!declarations::is_list(key), "declarations are taken before");
    let nearest = nearest(key, known).map(|name| match layer {
        Layer::Environment(_) => format!("{PREFIX}{}", name.replace('.', "__").to_uppercase()),
        _ => name,
    });
    let key = match layer {
        Layer::Environment(name) => name.clone(),
        _ => key.to_owned(),
    };
    Error::new(ErrorKind::Unknown {
        key,
        place: layer.to_string(),
        nearest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, Result<Layers, Error>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steadfast.toml");
        fs::write(&path, text).unwrap();
        (folder, Layers::new().file(&path))
    }

    fn variable(name: &str, value: &str) -> [(String, String); 1] {
        [(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn each_layer_wins_over_those_below_and_is_named() {
        let (_folder, layers) = file("data = '/a'\n[http]\nport = 1\nconnections = 5\n");
        let layers = layers.unwrap();
        let layers = layers
            .environment(variable("STEADFAST_HTTP__PORT", "2"))
            .unwrap();
        assert_eq!(layers.value("http.port"), Some(&Value::Integer(2)));
        let layers = layers.flag("http.port=3").unwrap();
        assert_eq!(layers.value("http.port"), Some(&Value::Integer(3)));
        assert_eq!(layers.layer("http.port"), &Layer::Flag);
        assert_eq!(layers.layer("log.level"), &Layer::Default);
        assert!(matches!(layers.layer("http.connections"), Layer::File(_)));
    }

    #[test]
    fn unknown_keys_are_refused_with_the_nearest_name_in_every_layer() {
        let (_folder, found) = file("[http]\nprot = 1\n");
        let error = found.unwrap_err().to_string();
        assert!(
            error.contains("'http.prot'") && error.contains("did you mean 'http.port'?"),
            "{error}"
        );
        let (_folder, found) = file("[htpp]\nport = 1\n");
        assert!(
            found
                .unwrap_err()
                .to_string()
                .contains("did you mean 'http'?")
        );
        let error = Layers::new().environment(variable("STEADFAST_HTTP__PROT", "2"));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("did you mean 'STEADFAST_HTTP__PORT'?"),
            "{error}"
        );
        assert!(
            Layers::new()
                .flag("nonsense=1")
                .unwrap_err()
                .to_string()
                .contains("STF-7001")
        );
        let (_folder, found) = file("[[key]]\nnam = 'a'\n");
        assert!(
            found
                .unwrap_err()
                .to_string()
                .contains("did you mean 'name'?")
        );
    }

    #[test]
    fn bad_values_are_refused_with_place_and_form() {
        let (_folder, found) = file("[http]\nport = 'x'\n");
        let error = found.unwrap_err().to_string();
        assert!(
            error.starts_with("STF-7002: 'http.port'") && error.contains("steadfast.toml"),
            "{error}"
        );
        let (_folder, found) = file("[http]\nport = 1\nport = 2\n");
        let error = found.unwrap_err().to_string();
        assert!(
            error.starts_with("STF-7003") && error.contains("line 3"),
            "{error}"
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        let layers = Layers::new()
            .flag("postgres.url=postgres://u:hush@h/d")
            .unwrap();
        let shown = format!("{:?} {layers:?}", layers.shown());
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn the_template_is_a_valid_file_with_and_without_comments() {
        let template = super::super::setting::template();
        let (_folder, layers) = file(&template);
        layers.unwrap();
        let uncommented: Vec<_> = template
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.starts_with("[[") || rest.contains(" = ") => rest,
                _ => line,
            })
            .collect();
        let (_folder, layers) = file(&uncommented.join("\n"));
        assert_eq!(layers.unwrap().declared.event_hubs.len(), 1);
    }
}
