//! A hub behind real sockets.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use futures_util::Stream;
use futures_util::stream;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_macros::hub;
use steadfast_protocols::access::{Access, Key, Ring, Secret};
use steadfast_protocols::http::{self, Cors, Frame, Proxies, Registry};
use steadfast_protocols::listen::{Bind, Certificate, Listener};
use steadfast_protocols::outbound;
use steadfast_protocols::realtime::{self, TokenWish, UpstreamRule, Upstreams};
use steadfast_protocols::scheduler::SecretKey;
use steadfast_realtime::{
    Binary, Context, HubError, HubOptions, HubResult, Mode, Realtime, Upload,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Counts too.
pub(crate) const SECOND: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGH";

pub(crate) const SECRET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH";

/// Everything that real clients are asked to do.
#[derive(Default)]
pub(crate) struct Room {
    realtime: Arc<OnceLock<Realtime>>,
}

/// How often this connection was told that it is there.
#[derive(Default)]
struct Connected(AtomicUsize);

#[hub(crate = "steadfast_realtime")]
impl Room {
    async fn on_connected(&self, context: &Context) {
        context.set(Connected(AtomicUsize::new(1)));
    }

    async fn connected(&self, context: &Context) -> usize {
        let own = context.get::<Connected>();
        own.map_or(0, |own| own.0.load(Ordering::Relaxed))
    }

    async fn add(&self, one: i64, other: i64) -> i64 {
        one + other
    }

    fn nothing(&self) {}

    async fn who(&self, context: &Context) -> (String, String) {
        let user = context.user().unwrap_or_default().to_owned();
        (user, context.caller().query.clone())
    }

    async fn fail(&self, is_told: bool) -> HubResult<()> {
        if is_told {
            return Err(HubError::new("as you wish"));
        }
        Err(std::io::Error::other("secret").into())
    }

    async fn echo_text(&self, text: String) -> String {
        text
    }

    async fn echo_bytes(&self, bytes: Binary) -> Binary {
        bytes
    }

    async fn tell_me(&self, context: &Context, number: i64) -> HubResult<()> {
        Ok(context.client().send("told", &(number,)).await?)
    }

    async fn enter(&self, context: &Context, group: String) -> HubResult<()> {
        Ok(context.join(&group).await?)
    }

    async fn tell_others(&self, context: &Context, group: String, text: String) -> HubResult<()> {
        let except = [context.connection_id()];
        let group = context.clients().group_except(group, except);
        Ok(group.send("told", &(text,)).await?)
    }

    async fn tell_all(&self, context: &Context, text: String) -> HubResult<()> {
        Ok(context.clients().all().send("told", &(text,)).await?)
    }

    async fn ask(&self, context: &Context) -> HubResult<String> {
        let answer: String = context.client().ask("name", &()).await?;
        Ok(format!("it is {answer}"))
    }

    fn count(&self, to: u32, fails: bool) -> impl Stream<Item = HubResult<u32>> {
        let items = (0..to).map(Ok);
        let last = fails.then(|| Err(HubError::new("enough")));
        stream::iter(items.chain(last))
    }

    fn count_later(&self, to: u32) -> impl Stream<Item = u32> {
        stream::unfold(0, move |number| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            (number < to).then_some((number, number + 1))
        })
    }

    fn forever(&self) -> impl Stream<Item = u64> {
        stream::unfold(0, |number| async move {
            tokio::task::yield_now().await;
            Some((number, number + 1))
        })
    }

    async fn total(&self, factor: i64, mut numbers: Upload<i64>) -> HubResult<i64> {
        let mut total = 0;
        while let Some(number) = numbers.next().await {
            total += number?;
        }
        Ok(factor * total)
    }

    /// For clients that send no argument beside a stream.
    async fn sum(&self, context: &Context, mut numbers: Upload<i64>) -> HubResult<()> {
        let mut total = 0;
        while let Some(number) = numbers.next().await {
            total += number?;
        }
        Ok(context.client().send("told", &(total,)).await?)
    }

    async fn end_me(&self, context: &Context, may_return: bool) {
        let lobby = self.realtime.get().and_then(|own| own.lobby("room").ok());
        let client = lobby.and_then(|own| own.client(context.connection_id()));
        if let Some(client) = client {
            client.close(Some("ended"), may_return);
        }
    }
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
        Self::start_in(Mode::Default, Vec::new())
    }

    /// In one of the modes of hubs that are not hosted here.
    pub(crate) fn start_in(mode: Mode, rules: Vec<UpstreamRule>) -> Self {
        Self::start_all(mode, rules, None)
    }

    /// Behind a certificate.
    pub(crate) fn start_encrypted(certificate: &Arc<Certificate>) -> Self {
        Self::start_all(Mode::Default, Vec::new(), Some(certificate))
    }

    fn start_all(
        mode: Mode,
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
        let mut ring = Ring::new();
        ring.add(Key {
            name: "signalr".to_owned(),
            grants: vec!["manage realtime".parse().expect("a right")],
            primary: Secret::new(SECRET),
            secondary: Some(Secret::new(SECOND)),
        });
        let access = Arc::new(Access::new(ring, Arc::clone(&clock) as Arc<dyn Clock>));
        let key = SecretKey::new("a key for secrets of jobs");
        let upstreams = Upstreams::new(rules, outbound::Options::new(key), Arc::clone(&access));
        realtime.set_mode(mode, Arc::new(upstreams.expect("rules")));
        let context = realtime::Context {
            realtime: realtime.clone(),
            access,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
        };
        let paths = [("/open".to_owned(), "open".to_owned())];
        let frame = Frame {
            cors: Arc::new(Cors::new(["*".to_owned()])),
            proxies: Arc::new(Proxies::default()),
            metrics: Arc::new(Registry::new(Arc::clone(&clock) as Arc<dyn Clock>)),
        };
        let routes = frame.around(realtime::routes(&Arc::new(context), &paths));
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
        let listener = Listener::bind(Bind {
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
        let wish = TokenWish {
            hub: hub.to_owned(),
            user: match claims.iter().any(|(name, _)| *name == "asrs.s.uid") {
                true => None,
                false => Some("alice".to_owned()),
            },
            claims: own
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            lifetime,
        };
        realtime::token(&wish, "localhost", SECRET, self.clock.now())
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
