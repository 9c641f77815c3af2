//! Sends the results of a worker to the server.
//!
//! A single result uses the standard method. Results that wait while calls are in flight
//! are batched into one call that only Steadfast servers support; after another server
//! refuses it once, results are sent one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use steadfast_core::limits;
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::completed_task::Result as Completed;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tonic::{Code, Status};

use super::channel::TaskHubService;

/// Calls in flight; further results wait and are batched.
const CALLS: usize = 4;
/// A call that takes longer does not count against `CALLS`.
const SLOW: Duration = Duration::from_millis(50);
/// The most waiting results, and the size of a batched call.
const WAITING: usize = 1024;
const CALL_BYTES: usize = 1024 * 1024;

type Outcome = Result<(), Status>;

/// Queues results. Clones share the queue.
#[derive(Clone)]
pub(super) struct ResultQueue {
    queue: mpsc::Sender<PendingResult>,
}

struct PendingResult {
    result: Completed,
    answer: oneshot::Sender<Outcome>,
}

impl ResultQueue {
    /// Starts the sender, which ends when all clones are dropped.
    pub(super) fn new(service: TaskHubService) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        let post = ResultSender {
            service,
            takes_one: AtomicBool::new(false),
        };
        tokio::spawn(send(waiting, Arc::new(post)));
        Self { queue }
    }

    /// Sends a result and returns the server's status.
    pub(super) async fn submit(&self, result: Completed) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let gone = || Status::unavailable("the worker ends");
        let waiting = PendingResult { result, answer };
        self.queue.send(waiting).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

async fn send(mut waiting: mpsc::Receiver<PendingResult>, post: Arc<ResultSender>) {
    let calls = Arc::new(Semaphore::new(CALLS));
    let mut next = None;
    loop {
        let Ok(call) = Arc::clone(&calls).acquire_owned().await else {
            return;
        };
        let first = match next.take() {
            Some(first) => Some(first),
            None => waiting.recv().await,
        };
        let Some(first) = first else {
            return;
        };
        let mut bytes = first.result.encoded_len();
        let mut together = vec![first];
        while together.len() < limits::RESULTS_AT_ONCE {
            let Ok(more) = waiting.try_recv() else {
                break;
            };
            bytes += more.result.encoded_len();
            if bytes > CALL_BYTES {
                next = Some(more);
                break;
            }
            together.push(more);
        }
        let post = Arc::clone(&post);
        tokio::spawn(async move {
            let (results, answers): (Vec<_>, Vec<_>) = together
                .into_iter()
                .map(|waiting| (waiting.result, waiting.answer))
                .unzip();
            let sent = post.send(results);
            tokio::pin!(sent);
            // A slow call does not delay other results.
            let early = tokio::time::timeout(SLOW, &mut sent).await;
            drop(call);
            let heard = match early {
                Ok(heard) => heard,
                Err(_) => sent.await,
            };
            for (answer, heard) in answers.into_iter().zip(heard) {
                // The worker may have stopped waiting.
                let _ = answer.send(heard);
            }
        });
    }
}

/// Sends results to the server.
struct ResultSender {
    service: TaskHubService,
    /// Whether the server does not support batched calls.
    takes_one: AtomicBool,
}

impl ResultSender {
    /// Sends results and returns the status of each.
    async fn send(&self, results: Vec<Completed>) -> Vec<Outcome> {
        if results.len() > 1 && !self.takes_one.load(Ordering::Relaxed) {
            let status = match self.together(&results).await {
                Ok(answers) => return answers,
                Err(status) => status,
            };
            match status.code() {
                Code::Unavailable | Code::DeadlineExceeded => {
                    return vec![Err(status); results.len()];
                }
                Code::Unimplemented => self.takes_one.store(true, Ordering::Relaxed),
                // One result may cause the error: retry each alone.
                _ => {}
            }
        }
        join_all(results.into_iter().map(|result| self.alone(result))).await
    }

    async fn together(&self, results: &[Completed]) -> Result<Vec<Outcome>, Status> {
        let task = |result: &Completed| wire::CompletedTask {
            result: Some(result.clone()),
        };
        let request = wire::CompleteTasksRequest {
            tasks: results.iter().map(task).collect(),
        };
        let answer = self.service.clone().complete_tasks(request).await?;
        let wire::CompleteTasksResponse { answers } = answer.into_inner();
        if answers.len() != results.len() {
            return Err(Status::internal("results and statuses differ in number"));
        }
        let answer = |answer: wire::CompletedTaskStatus| match Code::from(answer.code) {
            Code::Ok => Ok(()),
            code => Err(Status::new(code, answer.message)),
        };
        Ok(answers.into_iter().map(answer).collect())
    }

    async fn alone(&self, result: Completed) -> Outcome {
        let mut service = self.service.clone();
        let taken = match result {
            Completed::Orchestrator(turn) => service.complete_orchestrator_task(turn).await,
            Completed::Activity(activity) => service.complete_activity_task(activity).await,
            Completed::Entity(batch) => service.complete_entity_task(batch).await,
        };
        taken.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::{Path, Request, State};
    use axum::response::Response;
    use axum::routing::any;
    use parking_lot::Mutex;

    use super::super::channel::connect;
    use super::super::target::Target;
    use super::*;
    use steadfast_net::grpc::{refuse, unary};

    /// A server that accepts activities once its gate is opened.
    struct ResultServer {
        takes_many: bool,
        /// The number of results per call.
        calls: Mutex<Vec<usize>>,
        gate: Semaphore,
    }

    async fn handle(
        State(server): State<Arc<ResultServer>>,
        Path(method): Path<String>,
        request: Request,
    ) -> Response {
        // The gate stays open.
        drop(server.gate.acquire().await);
        let own = Arc::clone(&server);
        match method.as_str() {
            "CompleteActivityTask" => {
                unary(request, move |_: wire::ActivityResponse| {
                    own.calls.lock().push(1);
                    Box::pin(async { Ok(wire::CompleteTaskResponse {}) })
                })
                .await
            }
            "CompleteTasks" if server.takes_many => {
                unary(request, move |request: wire::CompleteTasksRequest| {
                    own.calls.lock().push(request.tasks.len());
                    let answers = request.tasks.iter().map(answered).collect();
                    Box::pin(async { Ok(wire::CompleteTasksResponse { answers }) })
                })
                .await
            }
            other => refuse(Status::unimplemented(other.to_owned())),
        }
    }

    /// Refuses a result that says "no".
    fn answered(task: &wire::CompletedTask) -> wire::CompletedTaskStatus {
        let is_no = matches!(&task.result, Some(Completed::Activity(activity))
            if activity.result.as_deref() == Some("no"));
        let code = if is_no { Code::NotFound } else { Code::Ok };
        wire::CompletedTaskStatus {
            code: code.into(),
            message: String::new(),
        }
    }

    /// Sends results to a server; returns the status of each and the sizes of the calls.
    async fn brought(takes_many: bool, results: &[&str]) -> (Vec<Code>, Vec<usize>) {
        let server = Arc::new(ResultServer {
            takes_many,
            calls: Mutex::default(),
            gate: Semaphore::new(0),
        });
        let routes = Router::new()
            .route("/TaskHubSidecarService/{method}", any(handle))
            .with_state(Arc::clone(&server));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let target = Target::parse(&format!("http://{address}")).unwrap();
        let own = ResultQueue::new(connect(target, None).unwrap());
        let results = results.iter().map(|result| {
            own.submit(Completed::Activity(wire::ActivityResponse {
                result: Some((*result).to_owned()),
                ..wire::ActivityResponse::default()
            }))
        });
        let open = async {
            // All results are queued when the first is answered.
            tokio::task::yield_now().await;
            server.gate.add_permits(Semaphore::MAX_PERMITS);
        };
        let (answers, ()) = tokio::join!(join_all(results), open);
        let codes = answers.into_iter().map(|answer| match answer {
            Ok(()) => Code::Ok,
            Err(status) => status.code(),
        });
        let calls = server.calls.lock().clone();
        (codes.collect(), calls)
    }

    #[tokio::test]
    async fn what_waits_goes_together_and_is_answered_by_itself() {
        let mut results = vec!["yes"; 39];
        results.push("no");
        let (codes, calls) = brought(true, &results).await;
        assert_eq!(calls.iter().sum::<usize>(), 40);
        assert!(calls.len() < 10, "{calls:?}");
        assert_eq!(codes[..39], [Code::Ok; 39]);
        assert_eq!(codes[39], Code::NotFound);
    }

    #[tokio::test]
    async fn another_server_gets_one_after_the_other() {
        let (codes, calls) = brought(false, &["yes"; 40]).await;
        assert_eq!(calls, [1; 40]);
        assert_eq!(codes, [Code::Ok; 40]);
    }

    #[tokio::test]
    async fn a_result_that_is_alone_goes_as_every_worker_sends_it() {
        let (codes, calls) = brought(false, &["yes"]).await;
        assert_eq!((codes, calls), (vec![Code::Ok], vec![1]));
    }
}
