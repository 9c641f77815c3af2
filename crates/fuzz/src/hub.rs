//! A hub whose methods do a little of everything.

use futures_util::{Stream, stream};
use steadfast_macros::hub;
use steadfast_realtime::{Binary, Context, HubError, HubResult, Upload};

pub(crate) struct FuzzHub;

#[hub(crate = "steadfast_realtime")]
impl FuzzHub {
    async fn add(&self, one: i64, other: i64) -> i64 {
        one.wrapping_add(other)
    }

    fn nothing(&self) {}

    async fn fail(&self) -> HubResult<()> {
        Err(HubError::new("as you wish"))
    }

    async fn echo_text(&self, text: String) -> String {
        text
    }

    async fn echo_bytes(&self, bytes: Binary) -> Binary {
        bytes
    }

    async fn enter(&self, context: &Context, group: String) -> HubResult<()> {
        Ok(context.join(&group).await?)
    }

    async fn tell_all(&self, context: &Context, text: String) -> HubResult<()> {
        Ok(context.clients().all().send("told", &(text,)).await?)
    }

    async fn ask(&self, context: &Context) -> HubResult<String> {
        let answer: String = context.client().ask("name", &()).await?;
        Ok(answer)
    }

    fn count(&self, to: u32) -> impl Stream<Item = u32> {
        stream::iter(0..to.min(10))
    }

    async fn total(&self, mut numbers: Upload<i64>) -> HubResult<i64> {
        let mut total = 0i64;
        while let Some(number) = numbers.next().await {
            total = total.wrapping_add(number?);
        }
        Ok(total)
    }

    async fn go(&self, context: &Context) {
        context.abort();
    }
}
