#![expect(clippy::print_stdout, reason = "an example talks to its reader")]
use std::{error::Error, path::Path, sync::Arc};
use steadfast::collections::{Dictionary, Options, Replica};
use steadfast::id::{Owner, Partition};
use steadfast::storage::{self, Store, local};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = local::Local::open(Path::new("data"), &local::Options::default())?;
    let (node, incarnation) = (1, 1);
    let options = storage::Options::new(Owner { node, incarnation });
    let store = Store::start(Arc::new(engine), options);
    let ledger = store.acquire(Partition::new(0, 0)).await?;
    let replica = Replica::primary(ledger, Options::default()).await?;
    let runs: Dictionary<String, u64> = replica.state().get_or_add("runs").await?;
    let bank: Dictionary<String, i64> = replica.state().get_or_add("bank").await?;
    let transfer = replica.run(|tx| {
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
