//! The functions that the workers of a run execute.

use steadfast_durable::native::{Context, Functions};
use steadfast_durable::{EntityId, FailureDetails};

/// A counter, a transfer between two counters, and five activities in a row.
pub(super) fn functions() -> Functions {
    Functions::new()
        .entity("counter", |context| {
            Box::pin(async move {
                let mut value: i64 = context.state()?;
                if context.operation() == "add" {
                    value += context.input::<i64>()?;
                    context.set_state(&value)?;
                }
                Ok(Some(value.to_string()))
            })
        })
        .activity("step", |_, n: u64| async move { Ok(n + 1) })
        .orchestration("sequence", sequence)
        .orchestration("fan", fan)
        .orchestration("transfer", transfer)
}

async fn sequence(cx: Context, n: u64) -> Result<u64, FailureDetails> {
    let mut n = n;
    for _ in 0..5 {
        n = cx.activity("step", &n).await?;
    }
    Ok(n)
}

async fn fan(cx: Context, width: u64) -> Result<u64, FailureDetails> {
    let all = (0..width).map(|n| cx.activity::<_, u64>("step", &n));
    let done: Result<Vec<u64>, FailureDetails> = futures_util::future::join_all(all)
        .await
        .into_iter()
        .collect();
    Ok(done?.iter().sum())
}

async fn transfer(
    cx: Context,
    (from, to, amount): (u64, u64, i64),
) -> Result<bool, FailureDetails> {
    let from = EntityId::new("counter", &from.to_string())?;
    let to = EntityId::new("counter", &to.to_string())?;
    let section = cx.lock([&from, &to]).await?;
    let take = cx.call::<_, i64>(&from, "add", &-amount);
    let give = cx.call::<_, i64>(&to, "add", &amount);
    let (taken, given) = futures_util::future::join(take, give).await;
    taken?;
    given?;
    drop(section);
    Ok(true)
}
