//! A bank: accounts, and transfers that lock two of them.
#![allow(dead_code, reason = "each test uses a part of it")]

use serde::{Deserialize, Serialize};
use steadfast::durable::{
    Context, EntityId, EntityOperation, FailureDetails, NewInstance, Task, entity,
};

pub(crate) const ACCOUNTS: u64 = 100;
pub(crate) const TRANSFERS: u64 = 1000;
pub(crate) const MONEY: i64 = 1000;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) balance: i64,
    /// The transfer that has locked it.
    inside: Option<String>,
    pub(crate) touched: u64,
    pub(crate) violations: u64,
}

#[entity(crate = "steadfast::durable")]
impl Account {
    fn fund(&mut self, money: i64) {
        self.balance = money;
    }

    fn enter(&mut self, transfer: String) -> i64 {
        self.violations += u64::from(self.inside.is_some());
        self.inside = Some(transfer);
        self.balance
    }

    fn leave(&mut self, amount: i64) {
        self.balance += amount;
        self.inside = None;
    }

    /// Called without a lock: never runs between `enter` and `leave`.
    fn touch(&mut self) {
        self.violations += u64::from(self.inside.is_some());
        self.touched += 1;
    }
}

pub(crate) async fn transfer(
    cx: Context,
    (from, to, amount): (String, String, i64),
) -> Result<bool, FailureDetails> {
    let (from, to) = (Account::at(&from)?, Account::at(&to)?);
    let section = cx.lock([from.id(), to.id()]).await?;
    let me = cx.instance();
    let balance = from.enter(&cx, me.clone()).await?;
    to.enter(&cx, me).await?;
    let amount = amount.min(balance);
    from.leave(&cx, -amount).await?;
    to.leave(&cx, amount).await?;
    drop(section);
    Ok(amount > 0)
}

/// All transfers, in both directions between the same accounts, and concurrent signals
/// to one of them from a caller without a lock.
pub(crate) fn the_transfers() -> Vec<(NewInstance, EntityOperation)> {
    let mut random = fastrand::Rng::with_seed(11);
    let one = |number: u64| {
        let from = random.u64(..ACCOUNTS);
        let to = (from + random.u64(1..ACCOUNTS)) % ACCOUNTS;
        let task = Task::new(
            "transfer",
            &(from.to_string(), to.to_string(), random.i64(1..300)),
        );
        let new = NewInstance {
            instance: format!("t{number}"),
            execution: Some(format!("e{number}")),
            task: task.unwrap(),
            ..NewInstance::default()
        };
        let entity = format!("@account@{from}");
        (new, operation(&entity, "touch", "null", 1000 + number))
    };
    (0..TRANSFERS).map(one).collect()
}

/// A request with an id that stays the same when it is sent again.
pub(crate) fn operation(entity: &str, name: &str, input: &str, number: u64) -> EntityOperation {
    EntityOperation {
        request: format!("00000000-0000-4000-8000-{number:012x}"),
        name: name.into(),
        input: Some(input.into()),
        target: EntityId::parse(entity).unwrap().to_string(),
        ..EntityOperation::default()
    }
}
