//! A node whose jobs call nothing outside.
//!
//! Jobs whose targets are in the node run; a job that calls the outside fails with a
//! message that names the feature.

use std::sync::Arc;

use async_trait::async_trait;
use steadfast_core::clock::Clock;
use steadfast_jobs::{Deliverer, DeliveryRequest, Outcome};
use steadfast_net::access::Secret;
use steadfast_net::egress::ConnectOptions;
use steadfast_storage::NodeLease;

use super::error::Result;
use crate::config::Config;

/// How calls of jobs are made: not at all.
#[derive(Clone)]
pub(super) struct CallOptions;

/// Fails every call.
struct RefusedDelivery;

pub(super) fn call_options(_: &Config, _: &Secret, _: &ConnectOptions) -> CallOptions {
    CallOptions
}

pub(super) fn node_deliverer(
    _: CallOptions,
    _: Option<NodeLease>,
    _: &Arc<dyn Clock>,
) -> Result<Arc<dyn Deliverer>> {
    Ok(Arc::new(RefusedDelivery))
}

#[async_trait]
impl Deliverer for RefusedDelivery {
    fn lane(&self, _: &DeliveryRequest) -> String {
        String::new()
    }

    async fn deliver(&self, _: &DeliveryRequest, _: u64) -> Outcome {
        Outcome {
            is_success: false,
            message: "this program was built without the feature 'scheduler', which makes calls"
                .to_owned(),
        }
    }
}
