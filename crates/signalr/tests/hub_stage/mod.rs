//! A hub behind real sockets.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod peers;
mod room;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use room::Room;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_net::access::{
    AccessControl, ClientTokenOptions, Key, KeyRing, Secret, client_token,
};
use steadfast_net::egress::{ConnectOptions, EgressPolicy};
use steadfast_net::http::{
    self, BodyBudget, Cors, KnownHosts, MetricRegistry, Middleware, TrustedProxies,
};
use steadfast_net::listen::{Certificate, Listener, ListenerOptions};
use steadfast_realtime::{HubOptions, Realtime, ServiceMode};
use steadfast_signalr::{UpstreamRule, Upstreams};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Counts too.
pub(crate) const SECOND: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGH";

pub(crate) const SECRET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH";

/// A path of its own that the hub `room` has.
pub(crate) const ROOM_PATH: &str = "/rooms/room";

/// Keys with one right each.
pub(crate) const GRANTED: [(&str, &str); 5] = [
    ("read", "read realtime/room"),
    ("send", "send realtime/room"),
    ("listen", "listen realtime/room"),
    ("manage", "manage realtime/room"),
    ("other", "manage realtime/other"),
];

/// The secret of one of these keys.
pub(crate) fn granted(name: &str) -> String {
    format!("{name:0<44}")
}

/// A server with the hubs `room`, which needs a token, and `open`, which does not.
pub(crate) struct Stage {
    pub(crate) realtime: Realtime,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<SystemClock>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Stage {
    pub(crate) fn start() -> Self {
        Self::start_in(ServiceMode::Default, Vec::new())
    }

    /// In one of the modes of hubs that are not hosted here.
    pub(crate) fn start_in(mode: ServiceMode, rules: Vec<UpstreamRule>) -> Self {
        Self::start_all(mode, rules, None)
    }

    /// Behind a certificate.
    pub(crate) fn start_encrypted(certificate: &Arc<Certificate>) -> Self {
        Self::start_all(ServiceMode::Default, Vec::new(), Some(certificate))
    }

    fn start_all(
        mode: ServiceMode,
        rules: Vec<UpstreamRule>,
        certificate: Option<&Arc<Certificate>>,
    ) -> Self {
        let clock = Arc::new(SystemClock::new());
        let realtime = Realtime::new("here");
        let own = Arc::new(OnceLock::new());
        let room = Room {
            realtime: Arc::clone(&own),
        };
        realtime
            .host("room", room, HubOptions::default())
            .expect("a hub");
        let open = HubOptions {
            is_open: true,
            is_stateful: false,
            ..HubOptions::default()
        };
        realtime.host("open", Room::default(), open).expect("a hub");
        let _ = own.set(realtime.clone());
        let mut ring = KeyRing::new();
        ring.add(Key {
            name: "signalr".to_owned(),
            grants: vec!["manage realtime".parse().expect("a right")],
            primary: Secret::new(SECRET),
            secondary: Some(Secret::new(SECOND)),
        });
        for (name, right) in GRANTED {
            ring.add(Key {
                name: name.to_owned(),
                grants: vec![right.parse().expect("a right")],
                primary: Secret::new(granted(name)),
                secondary: None,
            });
        }
        let access = Arc::new(AccessControl::new(
            ring,
            Arc::clone(&clock) as Arc<dyn Clock>,
        ));
        let mut options = ConnectOptions::default();
        options.guard.policy = EgressPolicy::with_private();
        let upstreams = Upstreams::new(rules, options, Arc::clone(&access));
        realtime.set_mode(mode, Arc::new(upstreams.expect("rules")));
        let context = steadfast_signalr::Context {
            realtime: realtime.clone(),
            access,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
        };
        let paths = [("/open", "open"), (ROOM_PATH, "room")];
        let paths = paths.map(|(path, hub)| (path.to_owned(), hub.to_owned()));
        let frame = Middleware {
            bodies: BodyBudget::new(),
            cors: Arc::new(Cors::new(["*".to_owned()])),
            hosts: Arc::new(KnownHosts::Any),
            proxies: Arc::new(TrustedProxies::default()),
            metrics: Arc::new(MetricRegistry::new(Arc::clone(&clock) as Arc<dyn Clock>)),
        };
        let routes = frame.wrap(steadfast_signalr::routes(&Arc::new(context), &paths));
        let mut stage = Self {
            realtime,
            address: ([127, 0, 0, 1], 0).into(),
            clock,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        stage.listen(routes, certificate);
        stage
    }

    fn listen(&mut self, routes: Router, certificate: Option<&Arc<Certificate>>) {
        let listener = Listener::bind(ListenerOptions {
            address: self.address,
            tls: certificate.map(|own| own.server(&["http/1.1"])),
            connections: 3000,
        });
        let listener = listener.expect("a port");
        self.address = listener.address();
        let stop = self.stop.clone();
        let serving = listener.run(
            self.stop.clone(),
            self.tasks.clone(),
            move |stream, peer| http::serve(stream, peer, routes.clone(), stop.clone()),
        );
        self.tasks.spawn(serving);
    }

    /// A token of the user `alice` for a hub.
    pub(crate) fn token(&self, hub: &str) -> String {
        self.token_with(hub, &[], Duration::from_secs(600))
    }

    pub(crate) fn token_with(
        &self,
        hub: &str,
        claims: &[(&str, &str)],
        lifetime: Duration,
    ) -> String {
        let own = claims.iter();
        let wish = ClientTokenOptions {
            hub: hub.to_owned(),
            user: if claims.iter().any(|(name, _)| *name == "asrs.s.uid") {
                None
            } else {
                Some("alice".to_owned())
            },
            claims: own
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            lifetime,
        };
        client_token(&wish, "localhost", SECRET, self.clock.now())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
