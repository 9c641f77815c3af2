//! A node with a task hub, and a bare client of its gRPC port.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::time::Duration;

use hyper::http::uri::PathAndQuery;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use prost::Message;
use steadfast::Node;
use steadfast::config::{Config, Layers};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::work_item::Request as Work;
use tonic::client::Grpc;
use tonic::metadata::AsciiMetadataValue;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A client of one task hub.
#[derive(Clone)]
pub(crate) struct Caller {
    grpc: Grpc<Client<HttpConnector, tonic::body::Body>>,
    pub(crate) metadata: Vec<(&'static str, String)>,
}

/// A stream of work.
pub(crate) struct Stream(Streaming<wire::WorkItem>);

/// A node in memory that serves for development.
pub(crate) async fn node() -> Node {
    let config = Config::new(&layers(Layers::new())).unwrap();
    let builder = Node::builder().config(config).memory().serve();
    builder.development().start().await.unwrap()
}

/// A node in memory that serves with the keys of this file.
pub(crate) async fn node_with_file(text: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steadfast.toml");
    std::fs::write(&file, text).unwrap();
    let layers = layers(Layers::new().file(&file).unwrap());
    let config = Config::new(&layers).unwrap();
    Node::builder()
        .config(config)
        .memory()
        .serve()
        .start()
        .await
        .unwrap()
}

/// Free ports, and few partitions.
fn layers(layers: Layers) -> Layers {
    let flags = [
        "http.port=0",
        "events.amqp_port=0",
        "events.blob_port=0",
        "realtime.port=0",
        "durable.port=0",
        "partitions=4",
    ];
    flags
        .iter()
        .fold(layers, |layers, flag| layers.flag(flag).unwrap())
}

/// Where a node listens, by name.
pub(crate) fn url(node: &Node, name: &str) -> String {
    let addresses = node.addresses();
    let found = addresses.into_iter().find(|address| address.name == name);
    found.unwrap().url
}

impl Caller {
    /// A client of the port with this name.
    pub(crate) fn new(node: &Node, port: &str) -> Self {
        let mut client = Client::builder(TokioExecutor::new());
        let client = client.http2_only(true).build_http();
        let origin = url(node, port).parse().unwrap();
        let grpc = Grpc::with_origin(client, origin);
        Self {
            grpc: grpc.max_decoding_message_size(64 << 20),
            metadata: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.metadata.push((name, value.into()));
        self
    }

    /// Takes messages of 4 MiB at most, as SDKs do.
    pub(crate) fn strict(mut self) -> Self {
        self.grpc = self.grpc.max_decoding_message_size(4 << 20);
        self
    }

    fn request<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        for (name, value) in &self.metadata {
            let value = AsciiMetadataValue::try_from(value.as_str()).unwrap();
            request.metadata_mut().insert(*name, value);
        }
        request
    }

    /// One request, one answer.
    pub(crate) async fn call<Q, A>(&self, method: &str, message: Q) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let path = path(method);
        let mut grpc = self.grpc.clone();
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(self.request(message), path, codec);
        let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap();
        answer.map(tonic::Response::into_inner)
    }

    /// One request whose answer says nothing.
    pub(crate) async fn tell<Q>(&self, method: &str, message: Q) -> Result<(), Status>
    where
        Q: Message + Send + Sync + 'static,
    {
        self.call::<Q, ()>(method, message).await
    }

    /// One request, many answers.
    pub(crate) async fn stream<Q, A>(
        &self,
        method: &str,
        message: Q,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.grpc.clone();
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.server_streaming(self.request(message), path(method), codec);
        answer.await.map(tonic::Response::into_inner)
    }

    /// A worker that takes everything.
    pub(crate) async fn worker(&self) -> Stream {
        self.worker_with(wire::GetWorkItemsRequest::default()).await
    }

    pub(crate) async fn worker_with(&self, request: wire::GetWorkItemsRequest) -> Stream {
        Stream(self.stream("GetWorkItems", request).await.unwrap())
    }

    pub(crate) async fn start(&self, name: &str, instance: &str) -> Result<String, Status> {
        let request = wire::CreateInstanceRequest {
            instance_id: instance.into(),
            name: name.into(),
            input: Some("1".into()),
            ..wire::CreateInstanceRequest::default()
        };
        let answer: wire::CreateInstanceResponse = self.call("StartInstance", request).await?;
        Ok(answer.instance_id)
    }

    pub(crate) async fn get(&self, instance: &str) -> Option<wire::OrchestrationState> {
        let request = wire::GetInstanceRequest {
            instance_id: instance.into(),
            get_inputs_and_outputs: true,
        };
        let answer: wire::GetInstanceResponse = self.call("GetInstance", request).await.unwrap();
        answer.orchestration_state
    }

    pub(crate) async fn ended(&self, instance: &str) -> wire::OrchestrationState {
        let request = wire::GetInstanceRequest {
            instance_id: instance.into(),
            get_inputs_and_outputs: true,
        };
        let answer: Result<wire::GetInstanceResponse, _> =
            self.call("WaitForInstanceCompletion", request).await;
        answer.unwrap().orchestration_state.unwrap()
    }
}

fn path(method: &str) -> PathAndQuery {
    format!("/TaskHubSidecarService/{method}").parse().unwrap()
}

impl Stream {
    /// The next message, of whatever kind; `None` at the end.
    pub(crate) async fn message(&mut self) -> Result<Option<wire::WorkItem>, Status> {
        self.message_within(PATIENCE).await
    }

    /// The same, if it comes in time.
    pub(crate) async fn message_within(
        &mut self,
        limit: Duration,
    ) -> Result<Option<wire::WorkItem>, Status> {
        tokio::time::timeout(limit, self.0.message()).await.unwrap()
    }

    /// The next thing to do, and its token.
    pub(crate) async fn work(&mut self) -> (Work, String) {
        loop {
            let item = self.message().await.unwrap().unwrap();
            match item.request.unwrap() {
                Work::HealthPing(_) => {}
                work => return (work, item.completion_token),
            }
        }
    }

    pub(crate) async fn turn(&mut self) -> (wire::OrchestratorRequest, String) {
        match self.work().await {
            (Work::OrchestratorRequest(turn), token) => (turn, token),
            other => panic!("no turn: {other:?}"),
        }
    }

    pub(crate) async fn activity(&mut self) -> (wire::ActivityRequest, String) {
        match self.work().await {
            (Work::ActivityRequest(activity), token) => (activity, token),
            other => panic!("no activity: {other:?}"),
        }
    }

    pub(crate) async fn batch(&mut self) -> (wire::EntityRequest, String) {
        match self.work().await {
            (Work::EntityRequestV2(batch), token) => (batch, token),
            other => panic!("no batch: {other:?}"),
        }
    }
}

/// An action of an orchestrator.
pub(crate) fn action(
    id: i32,
    kind: wire::orchestrator_action::OrchestratorActionType,
) -> wire::OrchestratorAction {
    wire::OrchestratorAction {
        id,
        orchestrator_action_type: Some(kind),
    }
}

/// The end of an orchestration, with this result.
pub(crate) fn end(result: &str) -> wire::OrchestratorAction {
    let end = wire::CompleteOrchestrationAction {
        orchestration_status: wire::OrchestrationStatus::Completed.into(),
        result: Some(result.into()),
        ..wire::CompleteOrchestrationAction::default()
    };
    action(
        -1,
        wire::orchestrator_action::OrchestratorActionType::CompleteOrchestration(end),
    )
}

/// What a worker says of a turn.
pub(crate) fn done(
    instance: &str,
    token: &str,
    actions: Vec<wire::OrchestratorAction>,
) -> wire::OrchestratorResponse {
    wire::OrchestratorResponse {
        instance_id: instance.into(),
        completion_token: token.into(),
        actions,
        ..wire::OrchestratorResponse::default()
    }
}
