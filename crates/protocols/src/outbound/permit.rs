//! Whether this server may call anybody right now.
//!
//! It is asked before a request is sent, and again when a new connection is there:
//! connecting takes time, and nothing has been sent by then.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tower::{BoxError, Layer, Service};

/// Says in which epoch calls may be made right now; none when they may not.
#[derive(Clone)]
pub struct Permit(pub Arc<dyn Fn() -> Option<u64> + Send + Sync>);

impl Permit {
    /// The epoch of calls that may be made now.
    pub(crate) fn epoch(&self) -> Result<u64, &'static str> {
        (self.0)().ok_or("another region runs this job by now")
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permit").field(&self.epoch()).finish()
    }
}

impl<S> Layer<S> for Permit {
    type Service = Permitted<S>;

    fn layer(&self, inner: S) -> Permitted<S> {
        Permitted {
            inner,
            permit: self.clone(),
        }
    }
}

/// Gives a new connection away only if there is a permit then.
#[derive(Clone)]
pub struct Permitted<S> {
    inner: S,
    permit: Permit,
}

impl<S, R> Service<R> for Permitted<S>
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
        Box::pin(async move {
            let connection = connecting.await?;
            permit.epoch()?;
            Ok(connection)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Connects, and loses the permit meanwhile.
    #[derive(Clone)]
    struct Slow(Arc<AtomicBool>);

    impl Service<()> for Slow {
        type Response = &'static str;
        type Error = BoxError;
        type Future = BoxFuture<'static, Result<&'static str, BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            let may = Arc::clone(&self.0);
            Box::pin(async move {
                may.store(false, Ordering::Relaxed);
                Ok("connected")
            })
        }
    }

    #[tokio::test]
    async fn a_permit_that_ends_while_connecting_keeps_the_request_here() {
        let may = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&may);
        let permit = Permit(Arc::new(move || seen.load(Ordering::Relaxed).then_some(3)));
        assert_eq!(permit.epoch(), Ok(3));
        let mut service = permit.layer(Slow(may));
        assert!(service.call(()).await.is_err());
        assert!(permit.epoch().is_err());
    }
}
