//! Instructions to a node and its replies.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message as _;
use tokio::time::Instant;

use crate::{
    ConfigValue, Records,
    objects::Deflated,
    protocol::{Failure, Message, Metadata, ObjectTree},
};

/// Flower's code of an error in a node's app.
const APP_FAILED: i64 = 2;
const MOST_REASON: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Train the model in the arrays, and reply with the result.
    Train,
    /// Evaluate the model in the arrays, and reply with metrics.
    Evaluate,
    /// Any other kind, by Flower's name for it.
    Other(String),
}

impl Task {
    fn of(message_type: &str) -> Self {
        // "train.nightly" is a train function with a custom name.
        match message_type.split('.').next() {
            Some("train") => Self::Train,
            Some("evaluate") => Self::Evaluate,
            _ => Self::Other(message_type.chars().take(64).collect()),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    pub task: Task,
    /// Flower's id of the run.
    pub run: u64,
    pub records: Records,
    pub received: Instant,
    /// When a reply becomes useless.
    pub expires: Instant,
    metadata: Metadata,
}

impl Instruction {
    pub(crate) fn new(metadata: Metadata, records: Records) -> Self {
        let (received, left) = (Instant::now(), left(&metadata, unix_now()));
        Self {
            task: Task::of(&metadata.message_type),
            run: metadata.run_id,
            records,
            received,
            expires: received + left,
            metadata,
        }
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the federation's round, if its strategy sends it.
    pub fn round(&self) -> Option<u32> {
        match self.records.setting("server-round") {
            Some(ConfigValue::Integer(round)) => u32::try_from(*round).ok(),
            _ => self.metadata.group_id.parse().ok(),
        }
    }
}

/// A reply to an [`Instruction`]: records, or a reason that Flower counts as a failure.
pub type Reply = Result<Records, String>;

/// Returns how long a reply to this message is useful: at most the sender's time to live, even if clocks differ.
pub(crate) fn left(metadata: &Metadata, now: f64) -> Duration {
    // About a century, which keeps all later arithmetic in range.
    const MOST: f64 = 3e9;
    if metadata.ttl.is_nan() {
        return Duration::ZERO;
    }
    let ttl = metadata.ttl.clamp(0.0, MOST);
    let left = (metadata.created_at + ttl - now).clamp(0.0, ttl);
    Duration::try_from_secs_f64(left).unwrap_or_default()
}

pub(crate) fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A reply cut into objects.
#[derive(Debug)]
pub(crate) struct DeflatedReply {
    pub(crate) message: Message,
    pub(crate) tree: ObjectTree,
    pub(crate) objects: Deflated,
}

impl DeflatedReply {
    /// Encodes the node's reply to the message with this metadata.
    pub(crate) fn new(to: &Metadata, reply: &Reply) -> Result<Self, serde_json::Error> {
        let now = unix_now();
        let mut metadata = Metadata {
            run_id: to.run_id,
            message_id: String::new(),
            src_node_id: to.dst_node_id,
            dst_node_id: to.src_node_id,
            reply_to_message_id: to.message_id.clone(),
            group_id: to.group_id.clone(),
            // The reply expires together with the message, by the sender's clock.
            ttl: to.created_at + to.ttl - now,
            message_type: to.message_type.clone(),
            created_at: now,
            src_task_id: to.dst_task_id,
            dst_task_id: to.src_task_id,
        };
        let mut objects = Deflated::default();
        let (kids, error) = match reply {
            Ok(records) => (vec![records.deflate(&mut objects)?], None),
            Err(reason) => {
                let reason = reason.chars().take(MOST_REASON).collect();
                (Vec::new(), Some(Failure { code: APP_FAILED, reason }))
            }
        };
        // The id is the hash of the message without the id.
        let body = Message { metadata: Some(metadata.clone()), content: None, error: error.clone() };
        let tree = objects.add("Message", kids, &body.encode_to_vec());
        metadata.message_id.clone_from(&tree.object_id);
        // If the empty content is missing, the server answers 500.
        let content = error.is_none().then(Default::default);
        Ok(Self { message: Message { metadata: Some(metadata), content, error }, tree, objects })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        Metadata {
            run_id: 7,
            message_id: "a".repeat(64),
            src_node_id: 1,
            dst_node_id: 2,
            ttl: 60.0,
            message_type: "train".to_owned(),
            created_at: unix_now(),
            src_task_id: Some(5),
            ..Metadata::default()
        }
    }

    #[test]
    fn a_reply_goes_back_to_where_the_message_came_from() {
        let to = metadata();
        let reply = DeflatedReply::new(&to, &Ok(Records::default())).unwrap();
        let of = reply.message.metadata.clone().unwrap();
        assert_eq!((of.src_node_id, of.dst_node_id, of.reply_to_message_id), (2, 1, to.message_id.clone()));
        assert_eq!((of.dst_task_id, of.src_task_id, of.message_id), (Some(5), None, reply.tree.object_id.clone()));
        assert!((of.created_at + of.ttl - to.created_at - to.ttl).abs() < 1e-3);
        assert!(reply.message.content.is_some() && reply.message.error.is_none());
        assert_eq!(reply.objects.objects().len(), 2);
        let refusal = DeflatedReply::new(&to, &Err("nobody is here".to_owned())).unwrap();
        assert!(refusal.message.content.is_none());
        assert_eq!(refusal.message.error.unwrap().reason, "nobody is here");
        assert_eq!((refusal.objects.objects().len(), refusal.tree.children.len()), (1, 0));
    }

    #[test]
    fn no_clock_makes_a_message_live_longer_than_it_was_given() {
        let seconds = |ttl, now| left(&Metadata { created_at: 1000.0, ttl, ..Metadata::default() }, now).as_secs_f64();
        assert_eq!([seconds(60.0, 1010.0), seconds(60.0, 0.0), seconds(60.0, 2000.0)], [50.0, 60.0, 0.0]);
        assert_eq!([seconds(f64::NAN, 0.0), seconds(-1.0, 0.0)], [0.0, 0.0]);
        assert!(Instant::now().checked_add(Duration::from_secs_f64(seconds(f64::INFINITY, 0.0))).is_some());
    }

    #[test]
    fn functions_with_names_are_known_by_their_kind() {
        let tasks = ["train", "train.nightly", "evaluate", "query"].map(Task::of);
        assert_eq!(tasks, [Task::Train, Task::Train, Task::Evaluate, Task::Other("query".to_owned())]);
    }
}
