//! Where the server is, and how it is convinced.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use sha2::Sha256;

/// What the server said when it was started.
pub(crate) struct Server {
    said: Value,
}

impl Server {
    pub(crate) fn of(said: &str) -> Self {
        let said = serde_json::from_str(said).expect("the server speaks JSON");
        Self { said }
    }

    /// Where AMQP is spoken.
    pub(crate) fn amqp(&self) -> String {
        if self.is_encrypted() {
            format!("amqps://localhost:{}", self.said["amqps"])
        } else {
            format!("amqp://127.0.0.1:{}", self.said["amqp"])
        }
    }

    fn is_encrypted(&self) -> bool {
        self.said["certificate"].is_string()
    }

    /// A web token that the server's key has signed.
    pub(crate) fn web_token(&self) -> String {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let audience = "https://eventhubs.azure.net";
        let claims = serde_json::json!({"exp": now() + 3600, "aud": audience}).to_string();
        let header = text(br#"{"alg":"HS256","typ":"JWT"}"#);
        let signed = format!("{header}.{}", text(claims.as_bytes()));
        let signature = sign(self.text("key").as_bytes(), &signed);
        format!("{signed}.{}", text(&signature))
    }

    /// The address of a container, with a signature that permits everything in it.
    pub(crate) fn container(&self, name: &str) -> String {
        let (account, version, end) = (self.text("account"), "2022-11-02", "2099-01-01T00:00:00Z");
        let parts = [
            "racwdl",
            "",
            end,
            &format!("/blob/{account}/{name}"),
            "",
            "",
            "",
            version,
            "c",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
        ];
        let key = STANDARD.decode(self.text("account_key")).expect("base64");
        let signature = STANDARD.encode(sign(&key, &parts.join("\n")));
        let blobs = if self.is_encrypted() {
            format!("https://localhost:{}", self.said["blob"])
        } else {
            format!("http://127.0.0.1:{}", self.said["blob"])
        };
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        format!(
            "{blobs}/{account}/{name}?sv={version}&sr=c&sp=racwdl&se={}&sig={}",
            encode(end),
            encode(&signature)
        )
    }

    fn text(&self, name: &str) -> &str {
        self.said[name].as_str().expect("the server says it")
    }
}

fn sign(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length will do");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("it is later than 1970").as_secs()
}
