//! The collections of a replica, by name.
//!
//! Creating and removing are part of a transaction like any other change: others
//! see them after the commit, and an abort undoes them. Until then a collection
//! can be used by the transaction that creates it, and only by that.

use std::sync::Arc;

use crate::collection::{Collection, CollectionStage, Shape};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::{CollectionBinding, Handle};
use crate::lock::mode::LockStrength;
use crate::options::{OperationOptions, WaitDeadline};
use crate::registry;
use crate::replica_inner::ReplicaInner;
use crate::source::RowSource;
use crate::transaction::Tx;

/// The collections of one scope.
#[derive(Clone)]
pub struct State {
    inner: Arc<ReplicaInner>,
    scope: String,
}

impl State {
    pub(crate) fn new(home: &Arc<ReplicaInner>, scope: &str) -> Self {
        Self {
            inner: Arc::clone(home),
            scope: scope.to_owned(),
        }
    }

    /// The collection of this name; created and committed if there is none.
    pub async fn get_or_add<H: Handle>(&self, name: &str) -> Result<H> {
        if let Some(found) = self.try_get(name).await? {
            return Ok(found);
        }
        let mut tx = Tx::begin(&self.inner);
        let handle = self.get_or_add_in(&mut tx, name).await?;
        tx.commit().await?;
        Ok(handle)
    }

    /// The collection of this name; created with the transaction if there is none.
    pub async fn get_or_add_in<H: Handle>(&self, tx: &mut Tx, name: &str) -> Result<H> {
        let name = registry::normal(name)?;
        self.check(tx, &name)?;
        if let Some(found) = self.visible(tx, &name) {
            return self.open(found).await;
        }
        tx.check_write()?;
        self.check_supported::<H>()?;
        self.lock(tx, &name).await?;
        // Another transaction may have created it during the wait.
        if let Some(found) = self.visible(tx, &name) {
            return self.open(found).await;
        }
        let what = H::description();
        let table = self.inner.registry.next_table();
        let life = CollectionStage::Creating(tx.id());
        let made = Collection::new(table, &self.scope, &name, what, life, 0);
        if H::description().shape == Shape::ConcurrentQueue {
            made.items.load([]);
        }
        let made = Arc::new(made);
        tx.writes.created.push(Arc::clone(&made));
        self.open(made).await
    }

    /// The committed collection of this name.
    pub async fn try_get<H: Handle>(&self, name: &str) -> Result<Option<H>> {
        self.inner.check_open()?;
        let name = registry::normal(name)?;
        let found = match &self.inner.source {
            RowSource::Primary(_) => self.inner.registry.find(&self.scope, &name),
            RowSource::Secondary(..) => {
                let state = self.inner.source.pin(0).await?;
                let found = registry::look_up(&state, &self.scope, &name).await?;
                found.map(Arc::new)
            }
        };
        match found {
            Some(found) => self.open(found).await.map(Some),
            None => Ok(None),
        }
    }

    /// Removes a collection and all it holds, with the transaction. Waits for every
    /// transaction that has used it.
    pub async fn remove(&self, tx: &mut Tx, name: &str) -> Result<()> {
        let name = registry::normal(name)?;
        self.check(tx, &name)?;
        tx.check_write()?;
        self.lock(tx, &name).await?;
        let Some(found) = self.visible(tx, &name) else {
            return Err(Error::new(ErrorKind::NotFound { collection: name }));
        };
        let mut patience = WaitDeadline::new(OperationOptions::default().timeout);
        tx.enter(&found, LockStrength::Exclusive, &mut patience)
            .await?;
        tx.writes.removed.push(found);
        Ok(())
    }

    /// Committed names, in order.
    pub fn list(&self) -> Vec<String> {
        let all = self.inner.registry.list(&self.scope);
        all.iter().map(|found| found.name.clone()).collect()
    }

    /// What the transaction sees under a name.
    fn visible(&self, tx: &Tx, name: &str) -> Option<Arc<Collection>> {
        let is_it = |c: &&Arc<Collection>| c.scope == self.scope && c.name == name;
        let is_gone = |c: &Arc<Collection>| tx.writes.removed.iter().any(|r| Arc::ptr_eq(r, c));
        let created = tx.writes.created.iter().rev().find(is_it);
        let created = created.filter(|made| !is_gone(made)).cloned();
        created.or_else(|| {
            let known = self.inner.registry.find(&self.scope, name);
            known.filter(|known| !is_gone(known))
        })
    }

    async fn lock(&self, tx: &mut Tx, name: &str) -> Result<()> {
        let key = registry::key(&self.scope, name);
        let mut patience = WaitDeadline::new(OperationOptions::default().timeout);
        tx.lock_name(&key, LockStrength::Exclusive, &mut patience)
            .await
    }

    async fn open<H: Handle>(&self, collection: Arc<Collection>) -> Result<H> {
        let asked = H::description();
        if collection.what != asked {
            return Err(Error::new(ErrorKind::TypeMismatch {
                collection: collection.name.clone(),
                found: collection.what.to_string(),
                asked: asked.to_string(),
            }));
        }
        self.check_supported::<H>()?;
        let part = CollectionBinding {
            inner: Arc::clone(&self.inner),
            collection,
        };
        H::check_stored(&part).await?;
        Ok(H::attach(part))
    }

    fn check(&self, tx: &Tx, name: &str) -> Result<()> {
        tx.check()?;
        if Arc::ptr_eq(&self.inner, &tx.inner) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ForeignTransaction {
            transaction: tx.id(),
            collection: name.to_owned(),
        }))
    }

    fn check_supported<H: Handle>(&self) -> Result<()> {
        let shape = H::description().shape;
        if self.inner.is_volatile && shape == Shape::ConcurrentQueue {
            let what = "a concurrent queue in a volatile service".to_owned();
            return Err(Error::new(ErrorKind::Unsupported { what }));
        }
        Ok(())
    }
}
