//! Serves one client's socket: reads and writes frames, and watches for silence.

mod bucket;
mod descriptors;
mod gate;
mod in_flight;
mod refusals;
mod reusable_buffer;
mod seats;

use std::{
    error::Error,
    io, iter,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::Bytes,
    extract::ws::{Message, WebSocket},
};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout, timeout_at},
};
use tracing::{debug, error};
use unmask_room::{Hello, Input, Peer, Waiting};
use unmask_wire::{Assembler, ClientMessage, MAX_FRAME, RelayMessage, WireError, frames};

use self::{
    bucket::Bucket,
    in_flight::{SlowUpdate, Upload},
};
pub(crate) use self::{
    descriptors::available as available_descriptors, gate::Gate, in_flight::InFlight, refusals::Refusals,
    reusable_buffer::ReusableBuffer, seats::Seats,
};
use crate::{config::Limits, room::reply};

/// Maximum length of the first message in bytes.
const HELLO_LIMIT: usize = 8 * 1024;
const LINGER: Duration = Duration::from_secs(2);
/// Time for the peer to read the goodbye if its close cannot be observed.
const GRACE: Duration = Duration::from_millis(500);
/// Writing a frame of at least this length counts as a sign of life. The operating system buffers shorter frames even
/// for a dead peer.
const LIVENESS_FRAME: usize = MAX_FRAME / 4;

enum Read {
    /// A complete message, and its length in bytes.
    Message { message: ClientMessage, values: Vec<f32>, bytes: u64 },
    /// The connection must be closed.
    Bad(BadInput),
    /// The peer closed it.
    Closed,
    /// The connection was lost.
    Broken,
}

/// Invalid input, for which the connection must be closed.
#[derive(Debug, thiserror::Error)]
enum BadInput {
    #[error("text messages are not supported; is this an unmask client?")]
    Text,
    #[error(transparent)]
    Slow(#[from] SlowUpdate),
    #[error(transparent)]
    Socket(#[from] axum::Error),
    #[error(transparent)]
    Message(#[from] WireError),
}

/// Why a socket is turned away before it reaches the room.
#[derive(Debug, thiserror::Error)]
enum HelloError {
    #[error("no hello came within {} s", .limit.as_secs_f32())]
    Late { limit: Duration },
    #[error("the first message was not a hello")]
    OtherMessage,
    #[error(transparent)]
    BadInput(#[from] BadInput),
}

enum End {
    /// The peer closed it, was lost or is silent; the reason is absent after a regular close.
    Left(Option<String>),
    /// The room ended it and everything is sent, or it can no longer be written to, for the reason given.
    Written(Option<String>),
    /// The peer sent invalid input; the room says goodbye.
    Bad(BadInput),
    Dismissed,
}

/// When the peer last showed a sign of life.
struct Liveness(Mutex<Instant>);

impl Liveness {
    fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    fn mark(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns after `limit` without a sign of life.
    async fn silence(&self, limit: Duration) {
        loop {
            let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner) + limit;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// State shared by all sockets of a room.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    limits: Limits,
    in_flight: InFlight,
    /// Locked by the client whose turn it is to join.
    joins: Arc<tokio::sync::Mutex<Bucket>>,
    reusable_buffer: ReusableBuffer,
    refusals: Refusals,
}

impl Common {
    /// For a room of at most `clients` clients.
    pub(crate) fn new(
        limits: Limits,
        clients: usize,
        in_flight: InFlight,
        reusable_buffer: ReusableBuffer,
        refusals: Refusals,
    ) -> Self {
        let at_once = u32::try_from(clients).unwrap_or(u32::MAX);
        let joins = Arc::new(tokio::sync::Mutex::new(Bucket::new(limits.joins_per_second, at_once)));
        Self { limits, in_flight, joins, reusable_buffer, refusals }
    }
}

/// What a client's request says of it before its hello.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) peer: Peer,
    /// See [`Hello::keys`].
    pub(crate) keys: u32,
    /// See [`Hello::is_own`].
    pub(crate) is_own: bool,
}

/// Serves one client on one socket until either side closes it.
pub(crate) async fn run(socket: WebSocket, origin: Origin, room: mpsc::Sender<Input>, common: Common) {
    let Common { limits, in_flight, joins, reusable_buffer, refusals } = common;
    let (mut sink, stream) = socket.split();
    let mut reader = Reader {
        stream,
        assembler: Assembler::new(HELLO_LIMIT),
        bytes: 0,
        bucket: Bucket::new(limits.messages_per_second, limits.messages_at_once),
        in_flight,
        upload: None,
        reusable_buffer,
        is_admitted: false,
    };
    let liveness = Liveness::new();
    let hello = timeout(limits.hello, reader.hello(origin, &liveness)).await;
    let hello = match hello.unwrap_or(Err(HelloError::Late { limit: limits.hello })) {
        Ok(Some(hello)) => hello,
        Ok(None) => return,
        Err(error) => return turn_away(sink, reader, &refusals, error.to_string()).await,
    };
    reader.is_admitted = true;
    {
        let mut joins = joins.lock().await;
        joins.ready().await;
        joins.take();
    }
    let (admission, answer) = reply();
    if room.send(Input::Hello { hello, reply: admission }).await.is_err() {
        return;
    }
    let (connection, waiting) = match answer.await {
        Ok(Ok(admission)) => admission,
        Ok(Err(reason)) => {
            say_goodbye(&mut sink, reason.to_string()).await;
            return reader.drain().await;
        }
        Err(_) => return,
    };
    // The wait for its turn does not count as silence.
    liveness.mark();

    let mut writing = Box::pin(write(&mut sink, &waiting, &liveness, &limits));
    let end = loop {
        tokio::select! {
            read = reader.next(&liveness) => match read {
                Read::Message { message, values, bytes } => {
                    let (done, answer) = reply();
                    if room.send(Input::Message { connection, message, values, bytes, done }).await.is_err() {
                        break End::Dismissed;
                    }
                    // A client has one update in flight, so read nothing until the room has processed this one.
                    let _ = answer.await;
                    // The socket was not read while the room worked.
                    liveness.mark();
                }
                Read::Bad(reason) => break End::Bad(reason),
                Read::Closed => break End::Left(None),
                Read::Broken => break End::Left(Some("its connection broke off".to_owned())),
            },
            () = liveness.silence(limits.silence) => {
                break End::Left(Some(format!("no sign of life for {} s", limits.silence.as_secs_f32())));
            }
            written = &mut writing => break End::Written(written.err().map(|unread| unread.to_string())),
        }
    };
    // Sending fails only if the room has ended.
    match end {
        End::Left(reason) => drop(room.send(Input::Left { connection, reason }).await),
        End::Written(reason) => {
            drop(room.send(Input::Left { connection, reason }).await);
            reader.drain().await;
        }
        End::Bad(reason) => {
            drop(room.send(Input::Misbehaved { connection, reason: reason.to_string() }).await);
            let _ = timeout(LINGER, writing).await;
            reader.drain().await;
        }
        End::Dismissed => {
            let _ = timeout(LINGER, writing).await;
        }
    }
}

/// Sends waiting messages and pings until the room ends the connection or the socket breaks. Fails if the client stops
/// reading.
async fn write(
    sink: &mut SplitSink<WebSocket, Message>,
    waiting: &Waiting,
    liveness: &Liveness,
    limits: &Limits,
) -> Result<(), Unread> {
    match send_all(sink, waiting, liveness, limits).await {
        Ok(()) => {
            let _ = timeout(LINGER, sink.close()).await;
            Ok(())
        }
        Err(Unsent::Unread) => Err(Unread { time: limits.write }),
        Err(Unsent::Broken) => Ok(()),
        Err(Unsent::Unencoded(error)) => {
            error!("a message of the relay's own cannot be encoded: {error}");
            Ok(())
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it read nothing for {} s", .time.as_secs_f32())]
struct Unread {
    time: Duration,
}

async fn send_all(
    sink: &mut SplitSink<WebSocket, Message>,
    waiting: &Waiting,
    liveness: &Liveness,
    limits: &Limits,
) -> Result<(), Unsent> {
    let patience = limits.write;
    let mut pings = interval(limits.ping);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = waiting.next() => match message {
                None => return Ok(()),
                Some(message) => send(sink, message.into_frames()?, liveness, patience).await?,
            },
            _ = pings.tick() => send_one(sink, Message::Ping(Default::default()), patience).await?,
        }
    }
}

enum Unsent {
    /// The peer read nothing in time.
    Unread,
    Broken,
    Unencoded(WireError),
}

impl From<WireError> for Unsent {
    fn from(error: WireError) -> Self {
        Self::Unencoded(error)
    }
}

impl From<axum::Error> for Unsent {
    fn from(error: axum::Error) -> Self {
        let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        let is_unread = causes(&error).any(|cause| cause.downcast_ref().is_some_and(is_late));
        if is_unread { Self::Unread } else { Self::Broken }
    }
}

async fn send(
    sink: &mut SplitSink<WebSocket, Message>,
    frames: impl Iterator<Item = Bytes>,
    liveness: &Liveness,
    patience: Duration,
) -> Result<(), Unsent> {
    for frame in frames {
        let is_sign = frame.len() >= LIVENESS_FRAME;
        send_one(sink, Message::Binary(frame), patience).await?;
        if is_sign {
            liveness.mark();
        }
    }
    Ok(())
}

async fn send_one(
    sink: &mut SplitSink<WebSocket, Message>,
    message: Message,
    patience: Duration,
) -> Result<(), Unsent> {
    Ok(timeout(patience, sink.send(message)).await.map_err(|_| Unsent::Unread)??)
}

async fn turn_away(mut sink: SplitSink<WebSocket, Message>, reader: Reader, refusals: &Refusals, reason: String) {
    refusals.note(reason.clone());
    say_goodbye(&mut sink, reason).await;
    reader.drain().await;
}

async fn say_goodbye(sink: &mut SplitSink<WebSocket, Message>, reason: String) {
    let goodbye = frames(&RelayMessage::Goodbye { reason }, &[]).unwrap_or_default();
    let farewell = async {
        for frame in goodbye {
            sink.send(Message::Binary(frame.into())).await?;
        }
        sink.close().await
    };
    match timeout(LINGER, farewell).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!("no goodbye: {error}"),
        Err(_) => debug!("no goodbye: the client reads nothing"),
    }
}

/// Whether the connection itself failed (a stopped program, a lost network), rather than the data it carried.
fn is_broken(error: &axum::Error) -> bool {
    use tungstenite::{
        Error::{AlreadyClosed, ConnectionClosed, Protocol},
        error::ProtocolError::ResetWithoutClosingHandshake,
    };
    // tungstenite reports an end without a close frame as a protocol error.
    let is_end = |error: &tungstenite::Error| {
        matches!(error, ConnectionClosed | AlreadyClosed | Protocol(ResetWithoutClosingHandshake))
    };
    causes(error).any(|cause| cause.is::<io::Error>() || cause.downcast_ref().is_some_and(is_end))
}

/// Returns the error, followed by its chain of sources.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |&error| error.source())
}

struct Reader {
    stream: SplitStream<WebSocket>,
    assembler: Assembler,
    bytes: u64,
    bucket: Bucket,
    in_flight: InFlight,
    /// Present from a long message's first frame until the room has processed it.
    upload: Option<Upload>,
    reusable_buffer: ReusableBuffer,
    /// Whether a hello was received. Until then messages must be short.
    is_admitted: bool,
}

impl Reader {
    /// Reads the first message; `None` if the peer closed without sending one.
    async fn hello(&mut self, origin: Origin, liveness: &Liveness) -> Result<Option<Hello>, HelloError> {
        let Origin { peer, keys, is_own } = origin;
        match self.next(liveness).await {
            Read::Message { message, .. } => {
                Hello::of(message, peer, keys, is_own).map(Some).ok_or(HelloError::OtherMessage)
            }
            Read::Bad(reason) => Err(reason.into()),
            Read::Closed | Read::Broken => Ok(None),
        }
    }

    /// Reads the next message. Cancel-safe.
    async fn next(&mut self, liveness: &Liveness) -> Read {
        if self.assembler.announced().is_none() {
            self.upload = None;
        }
        loop {
            if let (Some(announced), None) = (self.assembler.announced(), &self.upload) {
                self.upload = Some(self.in_flight.take(announced, || liveness.mark()).await);
            }
            self.bucket.ready().await;
            let next = self.stream.next();
            let next = match &self.upload {
                None => next.await,
                Some(upload) => match timeout_at(upload.due(self.bytes), next).await {
                    Ok(next) => next,
                    Err(_) => return Read::Bad(upload.reproach(self.bytes).into()),
                },
            };
            // Pieces of a long message are limited by time and memory. All other frames, and the end of a long message,
            // count against the message rate.
            let is_piece = matches!(&next, Some(Ok(Message::Binary(frame))) if frame.len() == MAX_FRAME);
            if !is_piece {
                self.bucket.take();
            }
            let frame = match next {
                None | Some(Ok(Message::Close(_))) => return Read::Closed,
                Some(Ok(Message::Binary(frame))) => frame,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                    liveness.mark();
                    continue;
                }
                Some(Ok(Message::Text(_))) => return Read::Bad(BadInput::Text),
                Some(Err(error)) if is_broken(&error) => return Read::Broken,
                Some(Err(error)) => return Read::Bad(error.into()),
            };
            liveness.mark();
            // The room may have switched to a larger model in the meantime.
            if self.is_admitted {
                self.assembler.set_limit(self.in_flight.longest());
            }
            // A full first frame begins a long message, which is an update.
            if self.bytes == 0 && is_piece {
                self.assembler.reuse(self.reusable_buffer.take());
            }
            self.bytes += frame.len() as u64;
            match self.assembler.push(&frame) {
                Ok(None) => {}
                Ok(Some((message, values))) => {
                    if is_piece {
                        self.bucket.take();
                    }
                    return Read::Message { message, values, bytes: std::mem::take(&mut self.bytes) };
                }
                Err(error) => return Read::Bad(error.into()),
            }
        }
    }

    /// Reads until the peer has closed too. A socket closed with unread bytes resets the connection and loses the
    /// goodbye. If nothing more can be read, waits a moment instead.
    async fn drain(mut self) {
        let is_closed = timeout(LINGER, async {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Close(_))) => return true,
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return false,
                }
            }
        });
        if let Ok(false) = is_closed.await {
            sleep(GRACE).await;
        }
    }
}
