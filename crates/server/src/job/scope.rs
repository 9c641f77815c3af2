//! Where jobs and their collections are.

use anyhow::Result;
use clap::Args;

use crate::server_client::segment;

/// The version of the interface.
pub(super) const VERSION: &str = "api-version=2016-03-01";

/// The scope of a job collection.
#[derive(Args)]
pub(crate) struct CollectionScope {
    /// The subscription, which may be any name
    #[arg(long, global = true, default_value = "main")]
    subscription: String,
    /// The resource group
    #[arg(long, global = true, default_value = "default")]
    group: String,
}

/// A job.
#[derive(Args)]
pub(crate) struct JobName {
    /// Name of the collection
    pub(super) collection: String,
    /// Name of the job
    pub(super) name: String,
}

impl CollectionScope {
    /// The path of the subscription.
    pub(super) fn subscription(&self) -> Result<String> {
        let subscription = segment(&self.subscription)?;
        Ok(format!("/subscriptions/{subscription}"))
    }

    /// The path of all collections of the group.
    pub(super) fn collections(&self) -> Result<String> {
        let (subscription, group) = (self.subscription()?, segment(&self.group)?);
        Ok(format!(
            "{subscription}/resourceGroups/{group}/providers/Microsoft.Scheduler/jobCollections"
        ))
    }

    /// The path of a collection.
    pub(super) fn collection(&self, name: &str) -> Result<String> {
        Ok(format!("{}/{}", self.collections()?, segment(name)?))
    }

    /// The path of a job.
    pub(super) fn job(&self, job: &JobName) -> Result<String> {
        let collection = self.collection(&job.collection)?;
        Ok(format!("{collection}/jobs/{}", segment(&job.name)?))
    }
}
