//! A node's registration, heartbeat, messages and replies.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};
use tracing::{debug, warn};
use unmask_core::Backoff;

use crate::{
    FlowerError, Instruction, Limits, NodeKey, Records, Reply, SuperLinkAddress,
    error::{ACTIVATION_FAILED, KEY_IN_USE, REGISTRATION_DISABLED, RUN_ENDED},
    instruction::{DeflatedReply, left, unix_now},
    objects::{Object, Store, id_of, ids, open},
    protocol::{
        ActivateNodeRequest, ActivateNodeResponse, ConfirmRequest, Empty, HeartbeatRequest, HeartbeatResponse,
        Metadata, NodeId, NodeIdRequest, ObjectTree, PullMessagesRequest, PullMessagesResponse, PullObjectRequest,
        PullObjectResponse, PushMessagesRequest, PushMessagesResponse, PushObjectRequest, PushObjectResponse,
        RegisterNodeRequest, RegisterNodeResponse,
    },
    superlink::{Call, SuperLink, draw},
};

/// Heartbeat interval in seconds; the SuperLink accepts 10 to 1800.
const HEARTBEAT: f64 = 30.0;
/// Mean pause between two polls for messages.
const POLL: Duration = Duration::from_secs(1);
/// How long a call without its own deadline is retried before the SuperLink counts as lost.
const PATIENCE: Duration = Duration::from_secs(15);
/// Number of objects transferred concurrently.
const AT_ONCE: usize = 8;
/// Attempts to push a reply, since its session may end.
const SESSIONS: u32 = 3;

#[derive(Debug, Clone)]
pub struct NodeOptions {
    pub address: SuperLinkAddress,
    /// Identifies the node. It must be registered if nodes cannot register themselves.
    pub key: NodeKey,
    /// PEM file of the SuperLink's issuers. If absent, those that browsers trust.
    pub certificates: Option<PathBuf>,
    pub limits: Limits,
}

/// A connected node. Dropping it stops the heartbeat; [`leave`](Self::leave) also tells the SuperLink.
#[derive(Debug)]
pub struct Node {
    link: Arc<SuperLink>,
    id: u64,
    limits: Limits,
    /// Whether to unregister at the end. The SuperLink never accepts an unregistered key again.
    unregisters: bool,
    /// Why the last call failed; `None` if it succeeded.
    trouble: watch::Sender<Option<String>>,
    /// Aborted when the node is dropped.
    _heartbeat: JoinSet<()>,
}

impl Node {
    /// Registers the node unless its key is registered, activates it, and starts its heartbeat.
    ///
    /// # Errors
    /// Fails if the SuperLink does not answer within 15 s or refuses the node. [`FlowerError::Present`] is temporary.
    pub async fn connect(options: &NodeOptions) -> Result<Self, FlowerError> {
        let NodeOptions { address, key, certificates, limits } = options;
        let link = Arc::new(SuperLink::new(address.clone(), key.clone(), certificates.as_deref())?);
        let public_key = key.public_pem().as_bytes().to_vec();
        let end = Instant::now() + PATIENCE;
        let request = RegisterNodeRequest { public_key: public_key.clone() };
        let (unregisters, is_known) = match link.call_until::<RegisterNodeResponse>(Call::REGISTER, &request, end).await
        {
            // Only this node can have registered a generated key, possibly in an earlier attempt.
            Ok(_) => (key.is_passing(), true),
            Err(FlowerError::Refused { code: Some(KEY_IN_USE), .. }) => (key.is_passing(), true),
            Err(FlowerError::Refused { code: Some(REGISTRATION_DISABLED), .. }) => (false, false),
            Err(error) => return Err(error),
        };
        let request = ActivateNodeRequest { public_key, heartbeat_interval: HEARTBEAT };
        let id = match link.call_until(Call::ACTIVATE, &request, end).await {
            Ok(ActivateNodeResponse { node_id }) => node_id,
            // The key is registered, so the only remaining cause is that it counts as connected.
            Err(FlowerError::Refused { code: Some(ACTIVATION_FAILED), .. }) if is_known => {
                return Err(FlowerError::Present { address: address.to_string() });
            }
            Err(error) => return Err(error),
        };
        let trouble = watch::Sender::new(None);
        let mut heartbeat = JoinSet::new();
        heartbeat.spawn(beat(Arc::clone(&link), id, trouble.clone()));
        Ok(Self { link, id, limits: *limits, unregisters, trouble, _heartbeat: heartbeat })
    }

    /// Returns Flower's id of this node.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn address(&self) -> &SuperLinkAddress {
        self.link.address()
    }

    /// Watches why the last poll or heartbeat failed; `None` if it succeeded.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.subscribe()
    }

    /// Waits for the next message, even if the SuperLink stops answering for a long time. A message that cannot be
    /// fetched or read, or exceeds the limits, is answered with an error and not returned.
    ///
    /// # Errors
    /// Fails with [`FlowerError::Unknown`] if the SuperLink no longer knows this node; then [`connect`](Self::connect)
    /// again.
    pub async fn next(&self) -> Result<Instruction, FlowerError> {
        let mut backoff = Backoff::default();
        loop {
            let request = PullMessagesRequest { node: self.node() };
            let pulled = self.link.call_until(Call::PULL_MESSAGES, &request, Instant::now() + PATIENCE).await;
            let PullMessagesResponse { messages, trees } = match pulled.map_err(known) {
                Ok(pulled) => pulled,
                Err(FlowerError::Unknown) => return Err(FlowerError::Unknown),
                Err(error) => {
                    warn!("{error}");
                    note(&self.trouble, Some(error.to_string()));
                    sleep(backoff.wait(draw())).await;
                    continue;
                }
            };
            backoff = Backoff::default();
            note(&self.trouble, None);
            for (message, tree) in messages.into_iter().zip(trees) {
                let Some(metadata) = message.metadata else { continue };
                let reason = match self.fetch(&metadata, &tree).await {
                    Ok(records) => return Ok(Instruction::new(metadata, records)),
                    Err(Fetch::Call(FlowerError::Refused { code: Some(RUN_ENDED), .. })) => continue,
                    Err(Fetch::Call(error)) => match known(error) {
                        FlowerError::Unknown => return Err(FlowerError::Unknown),
                        error => format!("it cannot be fetched: {error}"),
                    },
                    Err(Fetch::Content(reason)) => format!("it cannot be read: {reason}"),
                };
                // The SuperLink delivers a message once. If unanswered, the strategy would wait until it expires.
                warn!("refusing a message of the SuperLink: {reason}");
                let refusal = Err(format!("the message is refused: {reason}"));
                if let Err(error) = self.send(&metadata, &refusal, 0.0).await {
                    warn!("cannot tell the SuperLink about the refused message: {error}");
                }
            }
            sleep(POLL.mul_f64(0.5 + draw())).await;
        }
    }

    /// Replies to a message. Retries until the message expires if the SuperLink does not answer.
    ///
    /// # Errors
    /// Fails if the message has expired, the run is over, or the SuperLink refuses the reply.
    pub async fn reply(&self, to: &Instruction, reply: &Reply) -> Result<(), FlowerError> {
        self.send(to.metadata(), reply, to.received.elapsed().as_secs_f64()).await
    }

    /// Deactivates the node, and unregisters it if its key was generated for it. Unanswered messages and unread replies
    /// count as failures.
    pub async fn leave(self) {
        let request = NodeIdRequest { node_id: self.id };
        let left = self.link.call::<Empty>(Call::DEACTIVATE, &request).await;
        if let Err(error) = &left {
            debug!("{error}");
        }
        if self.unregisters && left.is_ok() {
            let gone = self.link.call::<Empty>(Call::UNREGISTER, &request).await;
            gone.unwrap_or_else(|error| {
                debug!("{error}");
                Empty {}
            });
        }
    }

    fn node(&self) -> Option<NodeId> {
        Some(NodeId { node_id: self.id })
    }

    async fn fetch(&self, metadata: &Metadata, tree: &ObjectTree) -> Result<Records, Fetch> {
        let wanted = ids(tree, self.limits)?;
        let end = Instant::now() + left(metadata, unix_now());
        let mut objects = stream::iter(wanted).map(|id| self.pull(metadata.run_id, id, end)).buffer_unordered(AT_ONCE);
        let (mut store, mut bytes) = (Store::new(), 0_usize);
        while let Some(Object { id, content }) = objects.try_next().await? {
            bytes = bytes.saturating_add(content.len());
            if bytes > self.limits.bytes {
                return Err(format!("it has more than {} bytes", self.limits.bytes).into());
            }
            store.insert(id, content);
        }
        drop(objects);
        let request =
            ConfirmRequest { node: self.node(), run_id: metadata.run_id, message_object_id: tree.object_id.clone() };
        self.link.call_until::<Empty>(Call::CONFIRM, &request, end).await?;
        let message = open(&store, &tree.object_id, "Message")?;
        let content = message.kids.first().ok_or("it has no content".to_owned())?;
        Ok(Records::inflate(&store, content, self.limits.bytes)?)
    }

    /// Fetches an object; waits if the sender has not stored it.
    async fn pull(&self, run_id: u64, id: String, end: Instant) -> Result<Object, Fetch> {
        let request = PullObjectRequest { node: self.node(), run_id, object_id: id.clone() };
        let mut backoff = Backoff::default();
        loop {
            let pulled: PullObjectResponse = self.link.call_until(Call::PULL_OBJECT, &request, end).await?;
            let PullObjectResponse { found, available, content } = pulled;
            if !found {
                return Err(format!("the SuperLink has no object {id}").into());
            }
            if available {
                let given = id_of(&content);
                if given != id {
                    return Err(format!("object {id} came with the content of {given}").into());
                }
                return Ok(Object { id, content });
            }
            let wait = backoff.wait(draw());
            if Instant::now() + wait >= end {
                return Err(format!("the sender has not stored object {id} in time").into());
            }
            sleep(wait).await;
        }
    }

    async fn send(&self, to: &Metadata, reply: &Reply, runtime: f64) -> Result<(), FlowerError> {
        let unusable = |reason: String| FlowerError::Answer { call: "push-messages", reason };
        let reply = DeflatedReply::new(to, reply).map_err(|error| unusable(error.to_string()))?;
        let end = Instant::now() + left(to, unix_now());
        let pushed = self.push(to.run_id, &reply, runtime, end).await;
        pushed.map_err(|error| if error.is_transient() { FlowerError::Late(Box::new(error)) } else { error })
    }

    async fn push(&self, run_id: u64, reply: &DeflatedReply, runtime: f64, end: Instant) -> Result<(), FlowerError> {
        let request = PushMessagesRequest {
            node: self.node(),
            messages: vec![reply.message.clone()],
            trees: vec![reply.tree.clone()],
            runtimes: vec![runtime],
        };
        for session in 0..SESSIONS {
            let PushMessagesResponse { objects_to_push, session_id } =
                self.link.call_until(Call::PUSH_MESSAGES, &request, end).await?;
            // Every reply is a new object, so a SuperLink that requests nothing has refused it.
            if session == 0 && objects_to_push.is_empty() {
                let reason =
                    "it did not take the reply: the message's time is over, or it is answered or gone".to_owned();
                return Err(FlowerError::Answer { call: "push-messages", reason });
            }
            let wanted = reply.objects.objects().iter().filter(|object| objects_to_push.contains(&object.id));
            let push = |object: &Object| {
                let request = PushObjectRequest {
                    node: self.node(),
                    run_id,
                    object_id: object.id.clone(),
                    content: object.content.clone(),
                    session_id: session_id.clone(),
                };
                async move {
                    let stored: PushObjectResponse = self.link.call_until(Call::PUSH_OBJECT, &request, end).await?;
                    Ok::<bool, FlowerError>(stored.stored)
                }
            };
            let pushes = wanted.map(push).collect::<Vec<_>>();
            let stored: Vec<bool> = stream::iter(pushes).buffer_unordered(AT_ONCE).try_collect().await?;
            if stored.into_iter().all(|stored| stored) {
                return Ok(());
            }
        }
        let reason = format!("its session for objects ended {SESSIONS} times before all were sent");
        Err(FlowerError::Answer { call: "push-object", reason })
    }
}

#[derive(Debug)]
enum Fetch {
    Call(FlowerError),
    Content(String),
}

impl From<FlowerError> for Fetch {
    fn from(error: FlowerError) -> Self {
        Self::Call(error)
    }
}

impl From<String> for Fetch {
    fn from(reason: String) -> Self {
        Self::Content(reason)
    }
}

/// Maps 401 to [`FlowerError::Unknown`]: a SuperLink that refuses an active node's key has forgotten the node.
fn known(error: FlowerError) -> FlowerError {
    match error {
        FlowerError::Refused { status: 401, .. } => FlowerError::Unknown,
        error => error,
    }
}

fn note(trouble: &watch::Sender<Option<String>>, now: Option<String>) {
    trouble.send_if_modified(|before| {
        let is_new = *before != now;
        *before = now;
        is_new
    });
}

async fn beat(link: Arc<SuperLink>, node_id: u64, trouble: watch::Sender<Option<String>>) {
    let request = HeartbeatRequest { node: Some(NodeId { node_id }), heartbeat_interval: HEARTBEAT };
    let mut backoff = Backoff::default();
    loop {
        let answer = link.call::<HeartbeatResponse>(Call::HEARTBEAT, &request).await;
        let failure = match answer {
            Ok(HeartbeatResponse { success: true }) => None,
            Ok(HeartbeatResponse { success: false }) => Some("it did not take the heartbeat".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        let is_heard = failure.is_none();
        note(&trouble, failure);
        let wait = if is_heard {
            backoff = Backoff::default();
            Duration::from_secs_f64(HEARTBEAT * (0.7 + 0.2 * draw()))
        } else {
            backoff.wait(draw())
        };
        sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Read, Write},
        net::{TcpListener, TcpStream},
        sync::mpsc::{Sender, channel},
        thread,
    };

    use prost::Message as _;
    use tokio::{runtime::Runtime, time::timeout};

    use super::*;
    use crate::protocol::Message;

    const ASKED: &[u8] = b"what was asked for";

    /// A malicious SuperLink, which serves this content for each object. Reports each call.
    fn serve(listener: &TcpListener, content: &'static [u8], calls: &Sender<(String, Vec<u8>)>) {
        for connection in listener.incoming() {
            let (Ok(connection), calls) = (connection, calls.clone()) else { return };
            thread::spawn(move || answer(connection, content, &calls));
        }
    }

    fn answer(mut connection: TcpStream, content: &'static [u8], calls: &Sender<(String, Vec<u8>)>) {
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let path = line.split(' ').nth(1).and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned();
        let mut length = 0;
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let header = line.to_ascii_lowercase();
            length = header.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let id = id_of(ASKED);
        let answer = match path.as_str() {
            "register-node" => RegisterNodeResponse { node_id: 7 }.encode_to_vec(),
            "activate-node" => ActivateNodeResponse { node_id: 7 }.encode_to_vec(),
            "send-node-heartbeat" => HeartbeatResponse { success: true }.encode_to_vec(),
            "pull-messages" => {
                let metadata = Metadata { run_id: 1, ttl: 60.0, created_at: unix_now(), ..Metadata::default() };
                let message = Message { metadata: Some(metadata), ..Message::default() };
                let tree = ObjectTree { object_id: id, children: Vec::new() };
                PullMessagesResponse { messages: vec![message], trees: vec![tree] }.encode_to_vec()
            }
            "pull-object" => {
                PullObjectResponse { found: true, available: true, content: content.into() }.encode_to_vec()
            }
            _ => Vec::new(),
        };
        // The receiver is dropped at the end of the test.
        let _ = calls.send((path, body));
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", answer.len());
        let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&answer));
    }

    #[test]
    fn content_that_is_not_what_its_id_says_is_refused_and_never_yielded() {
        refuses(b"something else", Limits::default(), "came with the content of");
    }

    #[test]
    fn more_bytes_than_the_limit_are_refused_and_never_yielded() {
        let limits = Limits { bytes: ASKED.len() - 1, ..Limits::default() };
        refuses(ASKED, limits, "it has more than 17 bytes");
    }

    /// Checks that a node with these limits does not yield a message of this content, and gives this reason.
    fn refuses(content: &'static [u8], limits: Limits, reason: &str) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let (calls, called) = channel();
        thread::spawn(move || serve(&listener, content, &calls));
        let key = NodeKey::generate().unwrap();
        let options = NodeOptions { address, key, certificates: None, limits };
        let begun = Instant::now();
        let calls = Runtime::new().unwrap().block_on(async {
            let node = Node::connect(&options).await.unwrap();
            assert_eq!(node.id(), 7);
            let mut calls = Vec::new();
            let mut next = std::pin::pin!(node.next());
            while !calls.iter().any(|(name, _): &(String, _)| name == "push-messages") {
                assert!(timeout(Duration::from_millis(100), &mut next).await.is_err(), "it yields what it cannot read");
                assert!(begun.elapsed() < Duration::from_secs(60), "it refuses nothing");
                calls.extend(called.try_iter());
            }
            calls
        });
        let names: Vec<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
        assert!(!names.contains(&"confirm-message-received"), "{names:?}");
        let (_, reply) = calls.iter().find(|(name, _)| name == "push-messages").expect("a refusal");
        let reply = PushMessagesRequest::decode(reply.as_slice()).unwrap();
        let [message] = reply.messages.as_slice() else { panic!("{reply:?}") };
        let said = format!("{message:?}");
        assert!(said.contains(reason), "{said}");
    }
}
