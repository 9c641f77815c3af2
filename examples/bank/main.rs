#![expect(clippy::print_stdout, reason = "an example talks to its reader")]
use std::error::Error;
use steadfast::Node;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let node = Node::builder().data("data").start().await?;
    let bank = node.singleton("bank").await?;
    let runs = bank.dictionary::<String, u64>("runs").await?;
    let accounts = bank.dictionary::<String, i64>("accounts").await?;
    let transfer = bank.transact(async |mut tx| {
        let run = runs.add_or_update(&mut tx, "n", || 1, |n| n + 1).await?;
        let alice = *accounts.get_or_add(&mut tx, "alice", || 100).await? - 10;
        let bob = *accounts.get_or_add(&mut tx, "bob", || 0).await? + 10;
        accounts.set(&mut tx, "alice", alice).await?;
        accounts.set(&mut tx, "bob", bob).await?;
        let text = format!("run {}: alice has {alice}, bob has {bob}", *run);
        tx.commit(text).await
    });
    println!("{}", transfer.await?); // all of it is on the disk
    Ok(())
}
