//! A hub that does whatever real clients can ask for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream;
use steadfast_macros::hub;
use steadfast_realtime::{Binary, Context, HubError, HubResult, Realtime, Upload};

/// Everything that real clients are asked to do.
#[derive(Default)]
pub(crate) struct Room {
    pub(crate) realtime: Arc<OnceLock<Realtime>>,
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
        let lobby = self
            .realtime
            .get()
            .and_then(|own| own.connections("room").ok());
        let client = lobby.and_then(|own| own.client(context.connection_id()));
        if let Some(client) = client {
            client.close(Some("ended"), may_return);
        }
    }
}
