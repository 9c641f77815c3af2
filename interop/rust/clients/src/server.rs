//! Where the server is, and how it is convinced.

use serde_json::Value;

/// What the server said when it was started.
pub(crate) struct Server {
    said: Value,
}

impl Server {
    pub(crate) fn of(said: &str) -> Self {
        let said = serde_json::from_str(said).expect("the server speaks JSON");
        Self { said }
    }

    /// Where AMQP is spoken, not encrypted.
    pub(crate) fn amqp(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.said["amqp"])
    }

    /// The connection string, as the server prints it.
    pub(crate) fn connection_string(&self) -> String {
        self.connection_string_with(self.text("key"))
    }

    pub(crate) fn connection_string_with(&self, key: &str) -> String {
        let name = self.text("key_name");
        format!("Endpoint=sb://localhost;SharedAccessKeyName={name};SharedAccessKey={key}")
    }

    fn text(&self, name: &str) -> &str {
        self.said[name].as_str().expect("the server says it")
    }
}
