//! The messages of `google.protobuf` in use.

use std::collections::BTreeMap;

/// A point in time, since 1970.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ProtoTimestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// A span of time.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ProtoDuration {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Any JSON value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProtoValue {
    #[prost(oneof = "value_kind::Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: Option<value_kind::Kind>,
}

/// The kinds of [`ProtoValue`].
pub mod value_kind {
    use super::{ListValue, Struct};

    /// The content of a value.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Kind {
        #[prost(int32, tag = "1")]
        Null(i32),
        #[prost(double, tag = "2")]
        Number(f64),
        #[prost(string, tag = "3")]
        Text(String),
        #[prost(bool, tag = "4")]
        Bool(bool),
        #[prost(message, tag = "5")]
        Struct(Struct),
        #[prost(message, tag = "6")]
        List(ListValue),
    }
}

/// A JSON object.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Struct {
    #[prost(btree_map = "string, message", tag = "1")]
    pub fields: BTreeMap<String, ProtoValue>,
}

/// A JSON array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListValue {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<ProtoValue>,
}
