//! Encryption of job secrets at rest.
//!
//! A secret is stored as `{"$sealed": ".."}`: AES-256-GCM under a key of the configuration,
//! with a nonce of its own. Its place, which is the job, the member and the target origin,
//! is associated data: a stored value that is copied elsewhere cannot be decrypted. It is
//! decrypted only when a request is made with it. Values of earlier versions have no
//! place; they can be decrypted, and get a place when their job is written.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use steadfast_jobs::JobId;

/// Members that hold secrets, at any depth of an action.
pub(crate) const SECRETS: [&str; 5] = ["password", "pfx", "secret", "sasToken", "sasKey"];

const MARK: &str = "$sealed";
/// Associated data of values without a place.
const UNPLACED: &str = "steadfast job secret 1";
/// The prefix of associated data with a place.
const PLACED: &str = "steadfast secret 2";
/// The prefix of a value with a place; `.` does not occur in base64.
const PLACED_MARK: &str = "2.";

/// The key that encrypts secrets.
#[derive(Clone)]
pub struct SecretKey {
    key: LessSafeKey,
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey")
    }
}

impl SecretKey {
    /// Derives the key from a long random text.
    pub fn new(text: &str) -> Self {
        let bytes = digest(&SHA256, text.as_bytes());
        let key = UnboundKey::new(&AES_256_GCM, bytes.as_ref());
        let key = key.expect("a SHA-256 digest is as long as the key");
        Self {
            key: LessSafeKey::new(key),
        }
    }

    /// Encrypts a secret for a place, where alone it can be decrypted.
    pub(crate) fn seal(&self, secret: &str, place: &str) -> Value {
        let sealed = self.encrypt(secret, &placed(place));
        json!({MARK: format!("{PLACED_MARK}{sealed}")})
    }

    /// Decrypts a stored value; `None` if it was sealed with another key, or for another
    /// place.
    pub(crate) fn open(&self, sealed: &Value, place: &str) -> Option<String> {
        let text = sealed.get(MARK)?.as_str()?;
        match text.strip_prefix(PLACED_MARK) {
            Some(text) => self.decrypt(text, &placed(place)),
            None => self.decrypt(text, UNPLACED),
        }
    }

    /// A stored value that stays at a place: it gets that place if it has none.
    pub(crate) fn keep(&self, sealed: &Value, place: &str) -> Value {
        let text = sealed.get(MARK).and_then(Value::as_str).unwrap_or_default();
        let unplaced = Some(text).filter(|text| !text.starts_with(PLACED_MARK));
        let secret = unplaced.and_then(|text| self.decrypt(text, UNPLACED));
        secret.map_or_else(|| sealed.clone(), |secret| self.seal(&secret, place))
    }

    fn encrypt(&self, secret: &str, associated: &str) -> String {
        let mut nonce = [0; NONCE_LEN];
        let random = SystemRandom::new().fill(&mut nonce);
        random.expect("the system gives random numbers");
        let mut bytes = secret.as_bytes().to_vec();
        let sealed = self.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(associated),
            &mut bytes,
        );
        sealed.expect("secrets are far shorter than what the cipher takes");
        let mut out = nonce.to_vec();
        out.extend_from_slice(&bytes);
        STANDARD.encode(out)
    }

    fn decrypt(&self, text: &str, associated: &str) -> Option<String> {
        let bytes = STANDARD.decode(text).ok()?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let open = self
            .key
            .open_in_place(nonce, Aad::from(associated), &mut rest);
        String::from_utf8(open.ok()?.to_vec()).ok()
    }
}

fn placed(place: &str) -> String {
    format!("{PLACED}\0{place}")
}

/// The owner of an action's secrets: a job and a target origin.
#[derive(Clone, Debug)]
pub(crate) struct SecretOwner {
    owner: String,
}

impl SecretOwner {
    /// The owner of secrets that are sent to the scheme, host and port of a URL.
    pub(crate) fn origin(job: &JobId, url: &reqwest::Url) -> Self {
        Self::new(job, &[&url.origin().ascii_serialization()])
    }

    /// The owner of secrets of a queue or topic. The address of its account or namespace is
    /// configured, and may change.
    pub(crate) fn entity(job: &JobId, account: &str, entity: &str) -> Self {
        Self::new(job, &["entity", account, entity])
    }

    fn new(job: &JobId, origin: &[&str]) -> Self {
        let home = &job.collection;
        let names = [&home.subscription, &home.group, &home.name, &job.name];
        // Job names are case-insensitive.
        let names = names.map(|name| name.to_lowercase()).join("\0");
        Self {
            owner: format!("job\0{names}\0{}", origin.join("\0")),
        }
    }

    /// The place of a member.
    pub(crate) fn place(&self, member: &str) -> String {
        format!("{}\0{member}", self.owner)
    }
}

/// Whether a value is a sealed secret.
pub(crate) fn is_sealed(value: &Value) -> bool {
    value.get(MARK).is_some()
}

/// Removes all secrets from a document, at any depth.
pub(crate) fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !is_sealed(value));
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_jobs::CollectionId;

    const OLD: &str = "AAECAwQFBgcICQoLWAIzkScmdJP4iho8sb1fW1ruZMeJ/Q==";

    fn owner(name: &str, url: &str) -> SecretOwner {
        let collection = CollectionId::new("s", "g", "c").unwrap();
        let job = collection.job(name).unwrap();
        SecretOwner::origin(&job, &url.parse().unwrap())
    }

    #[test]
    fn a_secret_comes_back_with_its_key_only() {
        let (key, other) = (SecretKey::new("one"), SecretKey::new("two"));
        let sealed = key.seal("geheim", "p");
        assert!(is_sealed(&sealed) && !sealed.to_string().contains("geheim"));
        assert_ne!(sealed, key.seal("geheim", "p"), "each has its own nonce");
        assert_eq!(key.open(&sealed, "p").as_deref(), Some("geheim"));
        assert_eq!(other.open(&sealed, "p"), None);
        for bad in [
            json!(null),
            json!("x"),
            json!({MARK: "?"}),
            json!({MARK: "QUJD"}),
            json!({MARK: "2."}),
        ] {
            assert_eq!(key.open(&bad, "p"), None);
        }
    }

    #[test]
    fn a_secret_opens_only_in_its_job_its_member_and_for_its_origin() {
        let key = SecretKey::new("k");
        let own = owner("j", "https://h/a?b").place("password");
        let sealed = key.seal("geheim", &own);
        let same = owner("J", "https://h:443/other").place("password");
        assert_eq!(key.open(&sealed, &same).as_deref(), Some("geheim"));
        for other in [
            owner("other", "https://h/").place("password"),
            owner("j", "https://h/").place("secret"),
            owner("j", "http://h/").place("password"),
            owner("j", "https://h:444/").place("password"),
            owner("j", "https://h.test/").place("password"),
        ] {
            assert_eq!(key.open(&sealed, &other), None, "{other:?}");
        }
        // Without its prefix it does not pass as a value of an earlier version.
        let text = sealed[MARK].as_str().unwrap().trim_start_matches("2.");
        assert_eq!(key.open(&json!({MARK: text}), &own), None);
    }

    #[test]
    fn a_secret_of_an_earlier_version_opens_and_gets_its_place_when_kept() {
        let key = SecretKey::new("a key for tests");
        // Written by a version that sealed without a place.
        let old = json!({MARK: OLD});
        assert_eq!(key.open(&old, "anywhere").as_deref(), Some("geheim"));
        let kept = key.keep(&old, "here");
        assert_eq!(key.open(&kept, "here").as_deref(), Some("geheim"));
        assert_eq!(key.open(&kept, "there"), None);
        assert_eq!(key.keep(&kept, "there"), kept, "it stays where it is");
        let foreign = SecretKey::new("other").seal("x", "here");
        assert_eq!(key.keep(&foreign, "here"), foreign);
    }

    #[test]
    fn nothing_sealed_is_left_after_stripping() {
        let key = SecretKey::new("k");
        let mut value = json!({"a": [{"password": key.seal("x", "p"), "username": "u"}]});
        strip(&mut value);
        assert_eq!(value, json!({"a": [{"username": "u"}]}));
    }
}
