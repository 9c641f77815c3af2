#![expect(clippy::print_stdout, reason = "an example talks to its reader")]
use std::error::Error;
use steadfast::Node;
use steadfast::collections::{Dictionary, Scheme, SlotKey};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let node = Node::builder().data("data").start().await?;
    let service = node.service("bank", Scheme::Singleton).await?;
    let slot = service.slot(SlotKey::Only).await?;
    let runs: Dictionary<String, u64> = slot.state().get_or_add("runs").await?;
    let bank: Dictionary<String, i64> = slot.state().get_or_add("bank").await?;
    let transfer = slot.run(|tx| {
        let (runs, bank) = (runs.clone(), bank.clone());
        Box::pin(async move {
            let run = runs.add_or_update(tx, "n".into(), || 1, |n| n + 1).await?;
            let alice = *bank.get_or_add(tx, "alice".into(), || 100).await? - 10;
            let bob = *bank.get_or_add(tx, "bob".into(), || 0).await? + 10;
            bank.set(tx, "alice".into(), alice).await?;
            bank.set(tx, "bob".into(), bob).await?;
            Ok(format!("run {}: alice has {alice}, bob has {bob}", *run))
        })
    });
    println!("{}", transfer.await?); // all of it is on the disk
    Ok(())
}
