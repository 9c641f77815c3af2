//! Values by layer: defaults, file, environment, flags.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};

use super::declarations::{self, Declarations};
use super::error::{Error, ErrorKind};
use super::file::{ConfigFile, FileErrors};
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
const OTHER_VARIABLES: [&str; 5] = [
    "STEADFAST_CONFIG",
    "STEADFAST_CONTEXT",
    "STEADFAST_URL",
    "STEADFAST_KEY",
    "STEADFAST_KEY_FILE",
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
    values: BTreeMap<&'static str, LayerValue>,
    pub(super) declared: Declarations,
    /// All errors so far, in the order of the layers.
    errors: Vec<Error>,
    /// Settings with an error.
    refused: BTreeSet<String>,
}

/// A value and its origin.
#[derive(Clone)]
struct LayerValue {
    value: Value,
    layer: Layer,
    /// Its origin in error messages: file and line, variable or flag.
    place: String,
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
            let value = LayerValue {
                value: table.remove("value").expect("it was just written"),
                layer: Layer::Default,
                place: Layer::Default.to_string(),
            };
            layers.values.insert(setting.key, value);
        }
        layers
    }

    /// Adds a file as the next layer.
    pub fn file(mut self, file: &Path) -> Result<Self, Error> {
        self.add_file(file);
        self.checked()
    }

    /// Adds environment variables as the next layer. Empty ones count as unset.
    pub fn environment(
        mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        self.add_environment(variables);
        self.checked()
    }

    /// Adds a flag, `key=value`, as the next layer.
    pub fn flag(mut self, text: &str) -> Result<Self, Error> {
        self.add_flag(text);
        self.checked()
    }

    /// The layers, or everything that is wrong with them.
    pub fn checked(self) -> Result<Self, Error> {
        match Error::combined(self.errors.clone()) {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// As [`Layers::file`], but [`Config::new`](super::Config::new) reports its errors, with
    /// those of the other layers.
    pub fn add_file(&mut self, file: &Path) {
        let file = match ConfigFile::read(file) {
            Ok(file) => file,
            Err(error) => return self.errors.push(error),
        };
        self.declared = Declarations::default();
        match file.tables() {
            Ok(table) => {
                let mut errors = FileErrors::default();
                self.lay(table, "", &file, &mut errors);
                self.errors.extend(errors.into_sorted());
            }
            Err(errors) => self.errors.extend(errors),
        }
    }

    /// As [`Layers::environment`], but [`Config::new`](super::Config::new) reports its errors.
    pub fn add_environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (name, text) in variables {
            let Some(rest) = name.strip_prefix(PREFIX) else {
                continue;
            };
            if text.is_empty() || OTHER_VARIABLES.contains(&name.as_str()) {
                continue;
            }
            let key = rest.replace("__", ".").to_lowercase();
            let place = name.clone();
            self.add_text(&key, &text, Layer::Environment(name), place);
        }
    }

    /// As [`Layers::flag`], but [`Config::new`](super::Config::new) reports its errors.
    pub fn add_flag(&mut self, text: &str) {
        let Some((key, value)) = text.split_once('=') else {
            let why = "write it as key=value";
            return self.errors.push(Error::value(text, "--set", why));
        };
        let key = key.trim();
        // What cannot be a secret is repeated.
        let is_public = find(key).is_some_and(|setting| setting.form != ValueType::Secret);
        let place = if is_public {
            format!("--set {key}={value}")
        } else {
            format!("--set {key}=..")
        };
        self.add_text(key, value, Layer::Flag, place);
    }

    /// Sets one value from a text.
    fn add_text(&mut self, key: &str, text: &str, layer: Layer, place: String) {
        let read = known(key, &layer, &place).and_then(|setting| {
            let value = setting.form.read(text);
            let value = value.map_err(|why| Error::value(key, &place, why))?;
            Ok((setting.key, value))
        });
        match read {
            Ok((key, value)) => self.insert(key, value, layer, place),
            Err(error) => {
                self.refused.insert(key.to_owned());
                self.errors.push(error);
            }
        }
    }

    fn insert(&mut self, key: &'static str, value: Value, layer: Layer, place: String) {
        let value = LayerValue {
            value,
            layer,
            place,
        };
        self.values.insert(key, value);
    }

    /// Every setting with its value as text, and its layer.
    pub fn shown(&self) -> Vec<(&'static str, String, String)> {
        let shown = |setting: &Setting| {
            let found = self.values.get(setting.key);
            let (value, layer) = match found {
                Some(found) if setting.form == ValueType::Secret => {
                    ("(secret)".to_owned(), &found.layer)
                }
                Some(found) => (found.value.to_string(), &found.layer),
                None => (String::new(), &Layer::Default),
            };
            (setting.key, value, layer.to_string())
        };
        SETTINGS.iter().map(shown).collect()
    }

    /// All errors so far.
    pub(super) fn errors(&self) -> &[Error] {
        &self.errors
    }

    /// Whether a value of this setting was refused.
    pub(super) fn is_refused(&self, key: &str) -> bool {
        self.refused.contains(key)
    }

    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key).map(|found| &found.value)
    }

    /// The origin of a setting or list that a layer sets, beside the defaults.
    pub(super) fn place_of_own(&self, key: &str) -> Option<&str> {
        let value = self.values.get(key);
        let value = value.filter(|found| found.layer != Layer::Default);
        let place = value.map(|found| found.place.as_str());
        place.or_else(|| self.declared.place(key))
    }

    /// The origin of a value, for an error message.
    pub(super) fn place(&self, key: &str) -> &str {
        self.values
            .get(key)
            .map_or("default", |found| found.place.as_str())
    }

    /// Adds a table of a file, with its nested tables.
    fn lay(
        &mut self,
        table: DeTable<'_>,
        prefix: &str,
        file: &ConfigFile,
        errors: &mut FileErrors,
    ) {
        for (name, value) in table {
            let span = name.span();
            let key = match prefix {
                "" => name.into_inner().into_owned(),
                prefix => format!("{prefix}.{}", name.into_inner()),
            };
            if prefix.is_empty() && declarations::is_list(&key) {
                self.declared.add(&key, value, file, errors);
                continue;
            }
            let is_table = |known: &Setting| known.key.starts_with(&format!("{key}."));
            if value.get_ref().is_table() && SETTINGS.iter().any(is_table) {
                if let DeValue::Table(inner) = value.into_inner() {
                    self.lay(inner, &key, file, errors);
                }
                continue;
            }
            let layer = Layer::File(file.path.clone());
            let place = file.place(&span);
            match of_file(&key, value, &layer, &place) {
                Ok((key, value)) => self.insert(key, value, layer, place),
                Err(error) => {
                    self.refused.insert(key);
                    errors.push(&span, error);
                }
            }
        }
    }
}

/// A value of a file, checked.
fn of_file(
    key: &str,
    value: Spanned<DeValue<'_>>,
    layer: &Layer,
    place: &str,
) -> Result<(&'static str, Value), Error> {
    let setting = known(key, layer, place)?;
    let wrong = |why: String| Error::value(key, place, why);
    let value = Value::deserialize(ValueDeserializer::from(value));
    let value = value.map_err(|error| wrong(error.message().to_owned()))?;
    setting.form.check(&value).map_err(wrong)?;
    Ok((setting.key, value))
}

fn known(key: &str, layer: &Layer, place: &str) -> Result<&'static Setting, Error> {
    if declarations::is_list(key) {
        let why = format!("it is a list of tables, for a configuration file: [[{key}]]");
        return Err(Error::value(key, place, why));
    }
    find(key).ok_or_else(|| unknown(key, layer, place))
}

fn unknown(key: &str, layer: &Layer, place: &str) -> Error {
    let keys = SETTINGS.iter().map(|setting| setting.key);
    let tables = SETTINGS
        .iter()
        .filter_map(|setting| setting.key.split_once('.'));
    let known = keys
        .chain(tables.map(|(table, _)| table))
        .chain(declarations::lists());
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
        place: place.to_owned(),
        nearest,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let layer = |key: &str| layers.values[key].layer.clone();
        assert_eq!(layer("http.port"), Layer::Flag);
        assert_eq!(layer("log.level"), Layer::Default);
        assert!(matches!(layer("http.connections"), Layer::File(_)));
        assert!(
            layers
                .place("http.connections")
                .ends_with("steadfast.toml:4")
        );
    }

    #[test]
    fn a_list_of_tables_is_for_files_only() {
        let error = Layers::new().flag("key=[\"a\"]").unwrap_err().to_string();
        assert!(
            error.ends_with("for a configuration file: [[key]]"),
            "{error}"
        );
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
    fn the_errors_of_all_layers_come_together_with_their_places() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steadfast.toml");
        let text = "nam = 'a'\n[http]\nport = 'x'\n[[key]]\nname = 'a'\nrigths = []\n";
        fs::write(&path, text).unwrap();
        let mut layers = Layers::new();
        layers.add_file(&path);
        layers.add_environment(variable("STEADFAST_LOG__FORMAT", "xml"));
        layers.add_flag("http.port=70700");
        layers.add_flag("cluster.kye=hush-hush");
        let error = layers.checked().unwrap_err().to_string();
        let lines: Vec<_> = error.lines().collect();
        let expected = [
            ("STF-7001: there is no setting 'nam'", "steadfast.toml:1)"),
            ("STF-7002: 'http.port'", "steadfast.toml:3)"),
            (
                "STF-7001: there is no setting 'key.rigths'",
                "steadfast.toml:6)",
            ),
            ("STF-7002: 'log.format'", "(STEADFAST_LOG__FORMAT)"),
            ("STF-7002: 'http.port'", "(--set http.port=70700)"),
            (
                "STF-7001: there is no setting 'cluster.kye'",
                "(--set cluster.kye=..)",
            ),
        ];
        assert_eq!(lines.len(), expected.len(), "{error}");
        for (line, (start, place)) in lines.iter().zip(expected) {
            assert!(line.starts_with(start) && line.contains(place), "{line}");
        }
    }

    #[test]
    fn every_line_that_is_no_toml_is_named() {
        let (_folder, found) = file("a = \n[http]\nport = 1\nconnections = x y z\n");
        let error = found.unwrap_err().to_string();
        let lines: Vec<_> = error.lines().collect();
        assert_eq!(lines.len(), 2, "{error}");
        assert!(lines[0].contains("line 1: "), "{error}");
        assert!(lines[1].contains("line 4: "), "{error}");
    }

    #[test]
    fn empty_variables_count_as_unset() {
        let (_folder, layers) = file("[http]\nport = 1\n");
        let variables = ["STEADFAST_HTTP__PORT", "STEADFAST_NONSENSE"];
        let variables = variables.map(|name| (name.to_owned(), String::new()));
        let layers = layers.unwrap().environment(variables).unwrap();
        assert_eq!(layers.value("http.port"), Some(&Value::Integer(1)));
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
