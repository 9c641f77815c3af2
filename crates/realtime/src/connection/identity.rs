//! Identity of a client connection.

/// The identity of a client when it connects, which never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Its user, if it has one.
    pub user: Option<String>,
    /// Claims of its token; a name may occur more than once.
    pub claims: Vec<(String, String)>,
    /// Headers of the request that opened the connection.
    pub headers: Vec<(String, String)>,
    /// The query that the application added to the URL, with `?`.
    pub query: String,
}

impl ClientIdentity {
    /// Size of all texts in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let pairs = self.claims.iter().chain(&self.headers);
        let pairs = pairs.map(|(name, value)| name.len() + value.len() + 2 * size_of::<String>());
        let user = self.user.as_ref().map_or(0, String::len);
        pairs.sum::<usize>() + user + self.query.len()
    }

    /// The first claim of that name.
    pub fn claim(&self, name: &str) -> Option<&str> {
        let found = self.claims.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the token asks for tracing of its messages.
    pub(crate) fn is_diagnostic(&self) -> bool {
        let asked = self.claim("asrs.s.dc");
        asked.is_some_and(|own| own.eq_ignore_ascii_case("true"))
    }

    /// The first header of that name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}
