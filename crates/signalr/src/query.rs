//! The query of a request: ours, and the application's.

use percent_encoding::percent_decode_str;

/// Parameters in their order, decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct QueryString {
    pairs: Vec<(String, String)>,
    /// The application's parameters, undecoded.
    rest: String,
}

/// Parameters that the application does not see.
const OWN: [&str; 4] = [
    "id",
    "access_token",
    "negotiateVersion",
    "useStatefulReconnect",
];

impl QueryString {
    pub(super) fn read(text: Option<&str>) -> Self {
        let mut query = Self::default();
        for part in text.unwrap_or_default().split('&') {
            if part.is_empty() {
                continue;
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (decode(name), decode(value));
            if !OWN.iter().any(|own| own.eq_ignore_ascii_case(&name)) {
                query
                    .rest
                    .push(if query.rest.is_empty() { '?' } else { '&' });
                query.rest.push_str(part);
            }
            query.pairs.push((name, value));
        }
        query
    }

    /// The first parameter of that name, in any case.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut pairs = self.pairs.iter();
        let found = pairs.find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// All parameters of that name, in any case.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        let pairs = self.pairs.iter();
        let found = pairs.filter(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone()).collect()
    }

    /// The application's parameters, with a leading `?`.
    pub(super) fn rest(&self) -> &str {
        &self.rest
    }
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_sees_its_own_parameters_as_they_came() {
        let query = QueryString::read(Some("hub=chat&id=s%20e&a=%C3%A4&access_token=x&b"));
        assert_eq!(query.get("ID"), Some("s e"));
        assert_eq!(query.get("a"), Some("ä"));
        assert_eq!(query.rest(), "?hub=chat&a=%C3%A4&b");
        assert_eq!(QueryString::read(None).rest(), "");
    }
}
