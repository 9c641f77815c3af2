//! Where the server is, and how it is convinced.

use azure_core_amqp::AmqpTransport;
use serde_json::Value;

/// What the server said when it was started, and how to talk to it.
#[derive(Clone)]
pub(crate) struct Server {
    said: Value,
    channel: Channel,
}

/// How a client talks to the server.
#[derive(Clone, Copy)]
pub(crate) enum Channel {
    Plain,
    Tls,
    WebSocket,
}

impl Server {
    pub(crate) fn of(said: &str) -> Self {
        let said = serde_json::from_str(said).expect("the server speaks JSON");
        let channel = Channel::Plain;
        Self { said, channel }
    }

    /// The same server over another channel.
    pub(crate) fn over(&self, channel: Channel) -> Self {
        let said = self.said.clone();
        Self { said, channel }
    }

    /// Where AMQP is spoken. By WebSocket, only host and port of it count.
    pub(crate) fn address(&self) -> String {
        match self.channel {
            Channel::Plain => format!("amqp://127.0.0.1:{}", self.said["amqp"]),
            Channel::Tls => format!("amqps://localhost:{}", self.said["amqps"]),
            Channel::WebSocket => format!("amqps://localhost:{}", self.said["https"]),
        }
    }

    pub(crate) fn transport(&self) -> AmqpTransport {
        match self.channel {
            Channel::Plain | Channel::Tls => AmqpTransport::Tcp,
            Channel::WebSocket => AmqpTransport::WebSocket,
        }
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
