//! The permit of a server to make outbound calls.
//!
//! It is checked before a request is sent, and again after a new connection is
//! established: connecting takes time, and nothing has been sent until then.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tower::{BoxError, Layer, Service};

/// Yields the tenure in which calls may be made now; none if they may not.
#[derive(Clone)]
pub struct CallPermit {
    tenure: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
    /// Whether calls carry the tenure as their epoch, instead of their partition's.
    pub(crate) is_epoch: bool,
    refusal: &'static str,
}

impl CallPermit {
    /// A permit while the region owns the jobs; the tenure is its epoch.
    pub fn region(epoch: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self {
            tenure: Arc::new(epoch),
            is_epoch: true,
            refusal: "another region runs this job by now",
        }
    }

    /// A permit while the node of a cluster holds its lease; the tenure identifies the lease.
    pub fn node(tenure: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self {
            tenure: Arc::new(tenure),
            is_epoch: false,
            refusal: "another node may run this job by now",
        }
    }

    /// The tenure of calls that may be made now.
    pub(crate) fn tenure(&self) -> Result<u64, &'static str> {
        (self.tenure)().ok_or(self.refusal)
    }
}

impl fmt::Debug for CallPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permit").field(&self.tenure()).finish()
    }
}

impl<S> Layer<S> for CallPermit {
    type Service = PermitService<S>;

    fn layer(&self, inner: S) -> PermitService<S> {
        PermitService {
            inner,
            permit: self.clone(),
        }
    }
}

/// Returns a new connection only if the permit is still valid.
#[derive(Clone)]
pub struct PermitService<S> {
    inner: S,
    permit: CallPermit,
}

impl<S, R> Service<R> for PermitService<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let connecting = self.inner.call(request);
        let permit = self.permit.clone();
        let before = permit.tenure();
        Box::pin(async move {
            let connection = connecting.await?;
            // A permit that was lost and regained is a different one.
            if permit.tenure()? == before? {
                Ok(connection)
            } else {
                Err("another one may have run this job in between".into())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::client_pool::Options;
    use super::*;
    use crate::SecretKey;

    /// A connector that changes the epoch while it connects.
    #[derive(Clone)]
    struct Slow(Arc<AtomicU64>, u64);

    impl Service<()> for Slow {
        type Response = &'static str;
        type Error = BoxError;
        type Future = BoxFuture<'static, Result<&'static str, BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            let (epoch, next) = (Arc::clone(&self.0), self.1);
            Box::pin(async move {
                epoch.store(next, Ordering::Relaxed);
                Ok("connected")
            })
        }
    }

    /// A permit with the stored epoch; 0 is none.
    fn permit(epoch: &Arc<AtomicU64>) -> CallPermit {
        let seen = Arc::clone(epoch);
        CallPermit::region(move || {
            let epoch = seen.load(Ordering::Relaxed);
            (epoch > 0).then_some(epoch)
        })
    }

    #[tokio::test]
    async fn a_permit_that_ends_while_connecting_keeps_the_request_here() {
        // The tenure continues; it ends; it ends and a new one begins.
        for (next, is_sent) in [(3, true), (0, false), (5, false)] {
            let epoch = Arc::new(AtomicU64::new(3));
            let permit = permit(&epoch);
            assert_eq!(permit.tenure(), Ok(3));
            let mut service = permit.layer(Slow(epoch, next));
            assert_eq!(service.call(()).await.is_ok(), is_sent, "{next}");
        }
    }

    #[test]
    fn a_call_is_made_in_its_own_tenure_only() {
        let epoch = Arc::new(AtomicU64::new(3));
        let mut options = Options::new(SecretKey::new("a key of this test"));
        assert_eq!(options.check(0), Ok(()), "no other node runs jobs");
        options.permit = Some(permit(&epoch));
        assert_eq!(options.check(3), Ok(()));
        epoch.store(5, Ordering::Relaxed);
        assert!(options.check(3).is_err(), "it was away in between");
        epoch.store(0, Ordering::Relaxed);
        assert!(options.check(3).is_err());
    }
}
