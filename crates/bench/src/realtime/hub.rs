//! The hub that is measured.

use std::time::Duration;

use steadfast_realtime::{Context, HubResult};

/// Its name, in the process of the service and in app servers.
pub(super) const OWN: &str = "load";
pub(super) const FAR: &str = "far";

/// The secret of the only key.
pub(super) const SECRET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH";

/// The broadcast text: a mark, in a text as long as a short message.
pub(super) const TEXT: &str = "a client |!| has said something that everybody wants to know";

/// Echoes, and broadcasts to all clients.
#[derive(Default)]
pub(super) struct EchoHub;

#[steadfast_macros::hub(crate = "steadfast_realtime")]
impl EchoHub {
    async fn echo(&self, text: String) -> String {
        text
    }

    async fn flood(&self, context: &Context, count: u32) -> HubResult<()> {
        for _ in 0..count {
            context.clients().all().send("told", &(TEXT,)).await?;
        }
        Ok(())
    }

    /// Returns the number.
    async fn note(&self, number: u64) -> u64 {
        number
    }

    async fn enter(&self, context: &Context, group: String) -> HubResult<()> {
        Ok(context.join(&group).await?)
    }

    /// Broadcasts to all clients but the caller.
    async fn shout(&self, context: &Context, number: u64) -> HubResult<()> {
        let others = context.clients().all_except([context.connection_id()]);
        Ok(others.send("tick", &(number,)).await?)
    }

    /// Calls another client for its name.
    async fn ask(&self, context: &Context, connection: String) -> HubResult<String> {
        Ok(context
            .clients()
            .connection(connection)
            .ask("name", &())
            .await?)
    }

    async fn wait(&self, milliseconds: u64) -> u64 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        milliseconds
    }

    /// The id of the process that executes the call.
    async fn process(&self) -> u32 {
        std::process::id()
    }
}
