//! The messages of Flower's Fleet API, as flwr 1.41 has them in `fleet.proto`, `message.proto`, `recorddict.proto` and
//! their neighbours. Fields that a node neither reads nor writes are left out.

use bytes::Bytes;
use prost::{Message as Protobuf, Oneof};

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct RegisterNodeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub public_key: Vec<u8>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct RegisterNodeResponse {
    #[prost(uint64, tag = "1")]
    pub node_id: u64,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct ActivateNodeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub public_key: Vec<u8>,
    /// In seconds.
    #[prost(double, tag = "2")]
    pub heartbeat_interval: f64,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct ActivateNodeResponse {
    #[prost(uint64, tag = "1")]
    pub node_id: u64,
}

/// Of deactivate-node and of unregister-node.
#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct NodeIdRequest {
    #[prost(uint64, tag = "1")]
    pub node_id: u64,
}

/// Of calls whose answer says nothing.
#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct NodeId {
    #[prost(uint64, tag = "1")]
    pub node_id: u64,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct HeartbeatRequest {
    #[prost(message, optional, tag = "1")]
    pub node: Option<NodeId>,
    /// In seconds.
    #[prost(double, tag = "2")]
    pub heartbeat_interval: f64,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct HeartbeatResponse {
    #[prost(bool, tag = "1")]
    pub success: bool,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct PullMessagesRequest {
    #[prost(message, optional, tag = "1")]
    pub node: Option<NodeId>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct PullMessagesResponse {
    #[prost(message, repeated, tag = "2")]
    pub messages: Vec<Message>,
    #[prost(message, repeated, tag = "3")]
    pub trees: Vec<ObjectTree>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct PushMessagesRequest {
    #[prost(message, optional, tag = "1")]
    pub node: Option<NodeId>,
    #[prost(message, repeated, tag = "2")]
    pub messages: Vec<Message>,
    #[prost(message, repeated, tag = "3")]
    pub trees: Vec<ObjectTree>,
    /// In seconds.
    #[prost(double, repeated, tag = "4")]
    pub runtimes: Vec<f64>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct PushMessagesResponse {
    #[prost(string, repeated, tag = "3")]
    pub objects_to_push: Vec<String>,
    #[prost(string, tag = "4")]
    pub session_id: String,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct PullObjectRequest {
    #[prost(message, optional, tag = "1")]
    pub node: Option<NodeId>,
    #[prost(uint64, tag = "2")]
    pub run_id: u64,
    #[prost(string, tag = "3")]
    pub object_id: String,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct PullObjectResponse {
    #[prost(bool, tag = "1")]
    pub found: bool,
    #[prost(bool, tag = "2")]
    pub available: bool,
    #[prost(bytes = "bytes", tag = "3")]
    pub content: Bytes,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct PushObjectRequest {
    #[prost(message, optional, tag = "1")]
    pub node: Option<NodeId>,
    #[prost(uint64, tag = "2")]
    pub run_id: u64,
    #[prost(string, tag = "3")]
    pub object_id: String,
    #[prost(bytes = "bytes", tag = "4")]
    pub content: Bytes,
    #[prost(string, tag = "5")]
    pub session_id: String,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct PushObjectResponse {
    #[prost(bool, tag = "1")]
    pub stored: bool,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct ConfirmRequest {
    #[prost(message, optional, tag = "1")]
    pub node: Option<NodeId>,
    #[prost(uint64, tag = "2")]
    pub run_id: u64,
    #[prost(string, tag = "3")]
    pub message_object_id: String,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct ObjectTree {
    #[prost(string, tag = "1")]
    pub object_id: String,
    #[prost(message, repeated, tag = "2")]
    pub children: Vec<ObjectTree>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct Message {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<Metadata>,
    /// Set and empty where the message has content: that travels as objects.
    #[prost(message, optional, tag = "2")]
    pub content: Option<Empty>,
    #[prost(message, optional, tag = "3")]
    pub error: Option<Failure>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct Metadata {
    #[prost(uint64, tag = "1")]
    pub run_id: u64,
    #[prost(string, tag = "2")]
    pub message_id: String,
    #[prost(uint64, tag = "3")]
    pub src_node_id: u64,
    #[prost(uint64, tag = "4")]
    pub dst_node_id: u64,
    #[prost(string, tag = "5")]
    pub reply_to_message_id: String,
    #[prost(string, tag = "6")]
    pub group_id: String,
    /// In seconds.
    #[prost(double, tag = "7")]
    pub ttl: f64,
    #[prost(string, tag = "8")]
    pub message_type: String,
    /// In seconds since 1970.
    #[prost(double, tag = "9")]
    pub created_at: f64,
    #[prost(uint64, optional, tag = "10")]
    pub src_task_id: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub dst_task_id: Option<u64>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct Failure {
    #[prost(sint64, tag = "1")]
    pub code: i64,
    #[prost(string, tag = "2")]
    pub reason: String,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct DoubleList {
    #[prost(double, repeated, tag = "1")]
    pub values: Vec<f64>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct SintList {
    #[prost(sint64, repeated, tag = "1")]
    pub values: Vec<i64>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct MetricRecord {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<MetricItem>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct MetricItem {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<MetricRecordValue>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct MetricRecordValue {
    #[prost(oneof = "Metric", tags = "1, 2, 3, 21, 22")]
    pub value: Option<Metric>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Metric {
    #[prost(double, tag = "1")]
    Double(f64),
    #[prost(sint64, tag = "2")]
    Sint(i64),
    #[prost(uint64, tag = "3")]
    Uint(u64),
    #[prost(message, tag = "21")]
    Doubles(DoubleList),
    #[prost(message, tag = "22")]
    Sints(SintList),
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct ConfigRecord {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<ConfigItem>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct ConfigItem {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<ConfigRecordValue>,
}

#[derive(Clone, PartialEq, Protobuf)]
pub(crate) struct ConfigRecordValue {
    #[prost(oneof = "Config", tags = "1, 2, 3, 4, 5, 6")]
    pub value: Option<Config>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Config {
    #[prost(double, tag = "1")]
    Double(f64),
    #[prost(sint64, tag = "2")]
    Sint(i64),
    #[prost(uint64, tag = "3")]
    Uint(u64),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(string, tag = "5")]
    Text(String),
    #[prost(bytes = "vec", tag = "6")]
    Bytes(Vec<u8>),
}
