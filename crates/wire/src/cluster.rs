//! Messages between the nodes of a cluster.
//!
//! The service is `steadfast.cluster.Node`. A connection begins with `HelloRequest` and
//! `ProofRequest`; then `Ask` carries requests that the runtime encodes. Fields are only
//! ever added, because nodes of adjacent versions exchange messages.

use bytes::Bytes;
use prost::Message;

/// The prefix of every method.
pub const SERVICE: &str = "/steadfast.cluster.Node/";

/// The caller's identity.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HelloRequest {
    #[prost(uint32, tag = "1")]
    pub protocol: u32,
    #[prost(uint32, tag = "2")]
    pub schema: u32,
    /// The identity of the cluster.
    #[prost(string, tag = "3")]
    pub cluster: String,
    #[prost(string, tag = "4")]
    pub name: String,
    /// 32 random bytes.
    #[prost(bytes = "bytes", tag = "5")]
    pub nonce: Bytes,
}

/// The responder's identity, with the proof that it has the cluster key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HelloResponse {
    #[prost(uint32, tag = "1")]
    pub protocol: u32,
    #[prost(uint32, tag = "2")]
    pub schema: u32,
    #[prost(string, tag = "3")]
    pub cluster: String,
    #[prost(string, tag = "4")]
    pub name: String,
    #[prost(bytes = "bytes", tag = "5")]
    pub nonce: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    pub proof: Bytes,
    /// The incarnation of the node: 16 bytes.
    #[prost(bytes = "bytes", tag = "7")]
    pub incarnation: Bytes,
}

/// The proof that the caller has the cluster key, too.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProofRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub proof: Bytes,
}

/// The connection is authenticated.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProofResponse {}

/// A request of the runtime, or its response.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RuntimeMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub body: Bytes,
}
