//! Connection strings for clients in all languages.
//!
//! `dev`, the landing page, `steadfast context show --strings` and the policies of event
//! hubs print these strings. They are made of the host by which a client reaches the
//! server, the open ports, and keys. A port with TLS gets the form with TLS.

use std::sync::Arc;

use axum::http::Uri;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::access::{
    ACCOUNT, Demand, EntityScope, Grant, HUBS, Key, KeyRing, ROOT, Right, ServiceArea,
};

/// The name of a service and its connection string.
pub type ConnectionString = (&'static str, String);

/// A port and the service it offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicePort {
    /// `http`, `amqp`, `amqps`, `blob`, `realtime` or `durable`.
    pub name: String,
    pub scheme: String,
    pub port: u16,
}

/// How clients reach a server.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// URL of the HTTP interface, without a trailing slash.
    url: String,
    host: String,
    listeners: Vec<ServicePort>,
}

/// The keys of a client. In development blobs and hubs have the emulators' keys.
#[derive(Clone, Debug)]
pub struct ClientKeys {
    own: Arc<Key>,
    account: Option<Arc<Key>>,
    hubs: Option<Arc<Key>>,
    /// Whether gRPC needs no key, as in development.
    is_open: bool,
}

impl ServicePort {
    /// Parses the address of a port, such as `amqps://10.0.0.7:5671`.
    pub fn new(name: &str, url: &str) -> Option<Self> {
        let url: Uri = url.parse().ok()?;
        Some(Self {
            name: name.to_owned(),
            scheme: url.scheme_str()?.to_owned(),
            port: url.port_u16()?,
        })
    }
}

impl Endpoint {
    /// A server by the address of its HTTP interface. `None` if clients cannot reach that
    /// address, such as `http://0.0.0.0:7070`.
    pub fn new(url: &str, listeners: Vec<ServicePort>) -> Option<Self> {
        let url: Uri = url.parse().ok()?;
        let host = match url.host()? {
            "" | "0.0.0.0" | "[::]" => return None,
            // The SDKs expect the emulators, which have no TLS, at this name.
            "127.0.0.1" | "[::1]" => "localhost",
            host => host,
        };
        let port = port_beside(url.port_u16(), None);
        let path = url.path().trim_end_matches('/');
        Some(Self {
            url: format!("{}://{host}{port}{path}", url.scheme_str()?),
            host: host.to_owned(),
            listeners,
        })
    }

    /// A server by the addresses on which it listens.
    pub fn of_addresses(addresses: &[(String, String)]) -> Option<Self> {
        let (_, http) = addresses.iter().find(|(name, _)| name == "http")?;
        let listeners = addresses.iter();
        let listeners = listeners.filter_map(|(name, url)| ServicePort::new(name, url));
        Self::new(http, listeners.collect())
    }

    /// All connection strings for which the keys have a right.
    pub fn strings(&self, keys: &ClientKeys) -> Vec<ConnectionString> {
        let own = &*keys.own;
        let rest = format!("Authorization: Bearer {}", own.primary.reveal());
        let mut all = vec![("rest", rest)];
        if may(own, ANY, ServiceArea::Jobs) {
            all.push(("jobs", self.url.clone()));
        }
        all.extend(self.event_strings(own));
        all.extend(self.durable_strings(own, keys.is_open));
        all.extend(self.blob_string(keys.account.as_deref()));
        all.extend(self.hub_string(keys.hubs.as_deref()));
        all
    }

    /// The connection string of event hubs for a key or a policy. With TLS, if there is a
    /// port for it.
    pub fn events(&self, name: &str, secret: &str, hub: Option<&str>) -> Option<String> {
        let listener = self.find("amqps").or_else(|| self.find("amqp"))?;
        Some(self.events_at(listener, name, secret, hub))
    }

    fn find(&self, name: &str) -> Option<&ServicePort> {
        self.listeners.iter().find(|own| own.name == name)
    }

    fn event_strings(&self, key: &Key) -> Vec<ConnectionString> {
        if !may(key, &[Right::Send, Right::Listen], ServiceArea::Events) {
            return Vec::new();
        }
        let (name, secret) = (&*key.name, key.primary.reveal());
        let hub = only_entity(key, ServiceArea::Events);
        let events = self.events(name, secret, hub);
        let mut all: Vec<_> = events.map(|text| ("events", text)).into_iter().collect();
        if let (Some(_), Some(plain)) = (self.find("amqps"), self.find("amqp")) {
            all.push(("amqp", self.events_at(plain, name, secret, hub)));
        }
        all
    }

    fn events_at(&self, port: &ServicePort, name: &str, secret: &str, hub: Option<&str>) -> String {
        let (usual, end) = match &*port.scheme {
            "amqps" => (5671, ""),
            _ => (5672, ";UseDevelopmentEmulator=true"),
        };
        // The default port must be left out: some SDKs include a port that is named here in
        // the names of their checkpoints, and others do not.
        let port = port_beside(Some(port.port), Some(usual));
        let hub = hub.map_or(String::new(), |hub| format!(";EntityPath={hub}"));
        let host = &self.host;
        format!(
            "Endpoint=sb://{host}{port};SharedAccessKeyName={name};\
             SharedAccessKey={secret}{hub}{end}"
        )
    }

    fn durable_strings(&self, key: &Key, is_open: bool) -> Vec<ConnectionString> {
        let listener = self.find("durable");
        let listener = listener.filter(|_| is_open || may(key, ANY, ServiceArea::Durable));
        let Some(ServicePort { scheme, port, .. }) = listener else {
            return Vec::new();
        };
        let proof = if is_open {
            "Authentication=None".to_owned()
        } else {
            format!("AccessKey={}", key.primary.reveal())
        };
        let hub = only_entity(key, ServiceArea::Durable).unwrap_or("default");
        let host = &self.host;
        let durable = format!("Endpoint={scheme}://{host}:{port};TaskHub={hub};{proof}");
        vec![("durable", durable), ("grpc", format!("{host}:{port}"))]
    }

    fn blob_string(&self, account: Option<&Key>) -> Option<ConnectionString> {
        let ServicePort { scheme, port, .. } = self.find("blob")?;
        let is_account = |key: &&Key| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
            let is_named = key.name.chars().all(is_name);
            is_named && STANDARD.decode(key.primary.reveal()).is_ok()
        };
        let account = account.filter(is_account);
        let key = account.filter(|key| may(key, LOOK, ServiceArea::Events))?;
        let (name, secret) = (&key.name, key.primary.reveal());
        // The SDKs expect the account in the path of an IP address, and before a host name.
        let host = match &*self.host {
            "localhost" => "127.0.0.1",
            host => host,
        };
        let text = format!(
            "DefaultEndpointsProtocol={scheme};AccountName={name};AccountKey={secret};\
             BlobEndpoint={scheme}://{host}:{port}/{name};"
        );
        Some(("blob", text))
    }

    fn hub_string(&self, key: Option<&Key>) -> Option<ConnectionString> {
        let ServicePort { scheme, port, .. } = self.find("realtime")?;
        let key = key.filter(|key| may(key, ANY, ServiceArea::Realtime))?;
        let (host, secret) = (&self.host, key.primary.reveal());
        let text =
            format!("Endpoint={scheme}://{host};Port={port};AccessKey={secret};Version=1.0;");
        Some(("realtime", text))
    }
}

impl ClientKeys {
    /// One key for all services, as in `serve`.
    pub fn of(key: Key) -> Self {
        let key = Arc::new(key);
        Self {
            account: Some(Arc::clone(&key)),
            hubs: Some(Arc::clone(&key)),
            own: key,
            is_open: false,
        }
    }

    /// The same at a development server, where gRPC needs no key.
    #[must_use]
    pub fn open(self) -> Self {
        Self {
            is_open: true,
            ..self
        }
    }

    /// The well-known keys of development that are on the ring.
    pub fn known(ring: &KeyRing) -> Option<Self> {
        Some(Self {
            own: Arc::clone(ring.get(ROOT)?),
            account: ring.get(ACCOUNT).cloned(),
            hubs: ring.get(HUBS).cloned(),
            is_open: true,
        })
    }
}

const ANY: &[Right] = &[Right::Read, Right::Send, Right::Listen, Right::Manage];
const LOOK: &[Right] = &[Right::Read, Right::Listen];

/// Whether a key has one of these rights on any entity of the area.
fn may(key: &Key, rights: &[Right], area: ServiceArea) -> bool {
    Demand::new(rights, area, EntityScope::AnyEntity).is_met_by(&key.grants)
}

/// The only entity of an area on which a key has rights.
fn only_entity(key: &Key, area: ServiceArea) -> Option<&str> {
    let mut own = key.grants.iter().filter(|grant| grant.is_in(area));
    let entity = own.next()?.entity()?;
    let is_same = |grant: &Grant| {
        let other = grant.entity();
        other.is_some_and(|other| other.eq_ignore_ascii_case(entity))
    };
    own.all(is_same).then_some(entity)
}

/// The suffix of a host with a port; empty for the default port.
fn port_beside(port: Option<u16>, usual: Option<u16>) -> String {
    let port = port.filter(|port| Some(*port) != usual);
    port.map_or(String::new(), |port| format!(":{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Secret, development_ring};

    const SECRET: &str = "c2VjcmV0IG9mIGEga2V5";

    fn listeners(is_encrypted: bool, amqp: &[(&str, u16)]) -> Vec<ServicePort> {
        let scheme = if is_encrypted { "https" } else { "http" };
        let http = [
            ("http", 7070),
            ("durable", 4001),
            ("blob", 10000),
            ("realtime", 8888),
        ];
        let http = http.map(|(name, port)| (name, scheme, port));
        let amqp = amqp.iter().map(|(name, port)| (*name, *name, *port));
        let listener = |(name, scheme, port): (&str, &str, u16)| ServicePort {
            name: name.to_owned(),
            scheme: scheme.to_owned(),
            port,
        };
        http.into_iter().chain(amqp).map(listener).collect()
    }

    fn key(grants: &[&str]) -> ClientKeys {
        ClientKeys::of(Key {
            name: "worker".to_owned(),
            grants: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
            primary: Secret::new(SECRET),
            secondary: Some(Secret::new("former")),
        })
    }

    fn names(strings: &[ConnectionString]) -> Vec<&str> {
        strings.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn development_has_the_strings_of_the_emulators() {
        let known = ClientKeys::known(&development_ring()).unwrap();
        let strings = |url| {
            let endpoint = Endpoint::new(url, listeners(false, &[("amqp", 5672)]));
            endpoint.unwrap().strings(&known)
        };
        let expected = [
            ("rest", "Authorization: Bearer SAS_KEY_VALUE".to_owned()),
            ("jobs", "http://localhost:7070".to_owned()),
            (
                "events",
                "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;\
                 SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"
                    .to_owned(),
            ),
            (
                "durable",
                "Endpoint=http://localhost:4001;TaskHub=default;Authentication=None".to_owned(),
            ),
            ("grpc", "localhost:4001".to_owned()),
            (
                "blob",
                "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02x\
                 NOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;\
                 BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;"
                    .to_owned(),
            ),
            (
                "realtime",
                "Endpoint=http://localhost;Port=8888;\
                 AccessKey=ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH;Version=1.0;"
                    .to_owned(),
            ),
        ];
        assert_eq!(strings("http://127.0.0.1:7070"), expected);
        // By any name of the machine itself.
        assert_eq!(strings("http://localhost:7070/"), expected);
    }

    #[test]
    fn an_encrypted_server_has_encrypted_strings_for_one_key() {
        let ports = listeners(true, &[("amqp", 5672), ("amqps", 9000)]);
        let endpoint = Endpoint::new("https://hub.example", ports).unwrap();
        let expected = [
            ("rest", format!("Authorization: Bearer {SECRET}")),
            ("jobs", "https://hub.example".to_owned()),
            (
                "events",
                format!(
                    "Endpoint=sb://hub.example:9000;SharedAccessKeyName=worker;\
                     SharedAccessKey={SECRET}"
                ),
            ),
            (
                "amqp",
                format!(
                    "Endpoint=sb://hub.example;SharedAccessKeyName=worker;\
                     SharedAccessKey={SECRET};UseDevelopmentEmulator=true"
                ),
            ),
            (
                "durable",
                format!("Endpoint=https://hub.example:4001;TaskHub=default;AccessKey={SECRET}"),
            ),
            ("grpc", "hub.example:4001".to_owned()),
            (
                "blob",
                format!(
                    "DefaultEndpointsProtocol=https;AccountName=worker;AccountKey={SECRET};\
                     BlobEndpoint=https://hub.example:10000/worker;"
                ),
            ),
            (
                "realtime",
                format!("Endpoint=https://hub.example;Port=8888;AccessKey={SECRET};Version=1.0;"),
            ),
        ];
        assert_eq!(endpoint.strings(&key(&["manage *"])), expected);
    }

    #[test]
    fn a_key_has_strings_for_what_it_opens() {
        let ports = listeners(false, &[("amqp", 5672)]);
        let endpoint = Endpoint::new("http://10.0.0.7:7070", ports).unwrap();
        let strings = endpoint.strings(&key(&["send events/houses", "listen durable/orders"]));
        assert_eq!(names(&strings), ["rest", "events", "durable", "grpc"]);
        assert!(strings[1].1.contains(";EntityPath=houses;"), "{strings:?}");
        assert!(strings[2].1.contains(";TaskHub=orders;"), "{strings:?}");
        let two = endpoint.strings(&key(&["send events/a", "listen events/b"]));
        assert_eq!(names(&two), ["rest", "events", "blob"]);
        assert!(!two[1].1.contains("EntityPath"), "{two:?}");
        let jobs = endpoint.strings(&key(&["read jobs"]));
        assert_eq!(names(&jobs), ["rest", "jobs"]);
        // In development gRPC needs no key.
        let open = endpoint.strings(&key(&["read jobs"]).open());
        assert_eq!(names(&open), ["rest", "jobs", "durable", "grpc"]);
    }

    #[test]
    fn a_key_whose_secret_is_not_base64_is_no_account() {
        let endpoint = Endpoint::new("http://a:7070", listeners(false, &[])).unwrap();
        let named = |name: &str, secret: &str| {
            let keys = ClientKeys::of(Key {
                name: name.to_owned(),
                grants: vec![Grant::everything()],
                primary: Secret::new(secret),
                secondary: None,
            });
            let strings = endpoint.strings(&keys);
            strings.iter().any(|(name, _)| *name == "blob")
        };
        assert!(named("worker", SECRET));
        assert!(!named("worker", "a secret of the root"));
        assert!(!named("two words", SECRET));
    }

    #[test]
    fn an_endpoint_is_where_clients_can_go() {
        let at = |name: &str, url: &str| (name.to_owned(), url.to_owned());
        let events = |host: &str, amqp: (String, String)| {
            let addresses = [at("http", &format!("http://{host}:1")), amqp];
            Endpoint::of_addresses(&addresses)?.events("a", "k", Some("houses"))
        };
        let key = "SharedAccessKeyName=a;SharedAccessKey=k;EntityPath=houses";
        assert_eq!(
            events("[::1]", at("amqp", "amqp://[::1]:5672")).unwrap(),
            format!("Endpoint=sb://localhost;{key};UseDevelopmentEmulator=true")
        );
        assert_eq!(
            events("10.0.0.7", at("amqps", "amqps://10.0.0.7:9000")).unwrap(),
            format!("Endpoint=sb://10.0.0.7:9000;{key}")
        );
        assert_eq!(events("0.0.0.0", at("amqp", "amqp://0.0.0.0:5672")), None);
        assert_eq!(events("[::]", at("amqp", "amqp://[::]:5672")), None);
        assert_eq!(events("127.0.0.1", at("blob", "http://127.0.0.1:1")), None);
        assert!(Endpoint::of_addresses(&[at("amqp", "amqp://a:1")]).is_none());
        assert!(Endpoint::new("no address", Vec::new()).is_none());
    }
}
