//! A schema that takes another's place.
//!
//! What is restored is built in a schema of its own, where no node looks for it,
//! and takes the place of the old one in one transaction, after it was compared.
//! Until then nothing of the old one is touched. What an interrupted restore left
//! is thrown away by the next one.

use std::time::Duration;

use steadfast_storage::{Error, ErrorKind as StorageKind, Result};
use tokio_postgres::GenericClient;

use crate::error::ErrorKind;
use crate::options::Options;
use crate::schema::MIGRATION_LOCK;
use crate::servers::Servers;
use crate::session::{Session, within};
use crate::statement_error::StatementError;

/// Time-outs of a look at a schema, and of dropping one.
const LOOK: Duration = Duration::from_secs(30);
const DROP: Duration = Duration::from_secs(300);

const EXISTS: &str = "select to_regclass('sf_partition') is not null";
const STANDS: &str = "select (select count(*) from sf_partition), (select count(*) from sf_cas
      where not starts_with(key, 'shard/')),
    (select min(node) from sf_node where expires > clock_timestamp())";

/// The status of a schema.
struct SchemaStatus {
    partitions: i64,
    records: i64,
    /// A node that uses it.
    node: Option<i32>,
}

/// A schema that is being built to take another's place.
pub struct SchemaReplacement {
    servers: Servers,
    building: String,
    is_forced: bool,
}

impl SchemaReplacement {
    /// Begins a replacement. The old schema must be missing or empty, unless this is
    /// forced, and no node may use it.
    pub async fn begin(options: &Options, is_forced: bool) -> Result<Self> {
        let replacement = Self {
            servers: Servers::new(options.clone())?,
            building: Self::options(options).schema,
            is_forced,
        };
        let session = replacement.connect().await?;
        let building = &replacement.building;
        let remove = format!("drop schema if exists {building} cascade");
        let work = async {
            replacement.check(&session.client).await?;
            Ok(session.client.batch_execute(&remove).await?)
        };
        let done = within(DROP, work).await;
        done.map_err(|fault| fault.into_error("make room for a restore"))?;
        Ok(replacement)
    }

    /// Where to build what takes the place of a schema.
    pub fn options(options: &Options) -> Options {
        Options {
            schema: format!("{}_restoring", options.schema),
            ..options.clone()
        }
    }

    /// Lets the new schema take the old one's place.
    pub async fn finish(self) -> Result<()> {
        let mut session = self.connect().await?;
        let done = within(DROP, self.swap(&mut session)).await;
        done.map_err(|fault| fault.into_error("put what was restored into its place"))
    }

    async fn swap(&self, session: &mut Session) -> std::result::Result<(), StatementError> {
        let (old, new) = (&self.servers.options.schema, &self.building);
        session.forget_warnings();
        let work = session.client.transaction().await?;
        work.execute("select pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK])
            .await?;
        self.check(&work).await?;
        work.batch_execute(&format!(
            "drop schema if exists {old} cascade; alter schema {new} rename to {old}"
        ))
        .await?;
        work.commit().await?;
        session.expect_no_warning()
    }

    async fn connect(&self) -> Result<Session> {
        let patience = self.servers.options.patience;
        self.servers.connect_strictly(patience).await
    }

    /// Refuses to take the place of what is in use, or is not empty.
    async fn check(&self, client: &impl GenericClient) -> std::result::Result<(), StatementError> {
        let Some(standing) = standing(client).await? else {
            return Ok(());
        };
        if let Some(node) = standing.node {
            return Err(Error::new(ErrorKind::DatabaseInUse { node: node as u32 }).into());
        }
        if self.is_forced || (standing.partitions, standing.records) == (0, 0) {
            return Ok(());
        }
        let (partitions, records) = (standing.partitions, standing.records);
        Err(Error::new(StorageKind::NotEmpty {
            place: format!("schema {} of the database", self.servers.options.schema),
            what: format!("{partitions} partitions and {records} cluster records"),
        })
        .into())
    }
}

/// Whether a database has the schema; creates nothing.
pub async fn has_schema(options: &Options) -> Result<bool> {
    let servers = Servers::new(options.clone())?;
    let session = servers.connect_strictly(options.patience).await?;
    let found = within(LOOK, standing(&session.client)).await;
    let found = found.map_err(|fault| fault.into_error("say what it holds"))?;
    Ok(found.is_some())
}

async fn standing(
    client: &impl GenericClient,
) -> std::result::Result<Option<SchemaStatus>, StatementError> {
    let exists: bool = client.query_one(EXISTS, &[]).await?.try_get(0)?;
    if !exists {
        return Ok(None);
    }
    let row = client.query_one(STANDS, &[]).await?;
    Ok(Some(SchemaStatus {
        partitions: row.try_get(0)?,
        records: row.try_get(1)?,
        node: row.try_get(2)?,
    }))
}
