//! Admits connections before anything is read from them, and enforces their deadlines.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum_server::accept::Accept;
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::oneshot,
    time::{Sleep, sleep},
};
use tower_service::Service;

use super::{
    refusals::Refusals,
    seats::{Seat, Seating, Seats},
};

/// An acceptor that gives each connection a place before the inner handshake, or closes it.
#[derive(Debug, Clone)]
pub(crate) struct Gate<A> {
    pub(crate) inner: A,
    pub(crate) seats: Seats,
    pub(crate) refusals: Refusals,
    pub(crate) header: Duration,
    /// Longest time that a write may make no progress.
    pub(crate) write: Duration,
}

impl<A> Gate<A> {
    fn seat(&self, stream: &TcpStream) -> io::Result<Seating> {
        let seating = self.seats.take(stream.peer_addr()?.ip()).inspect_err(|crowded| {
            self.refusals.note(crowded.to_string());
        });
        let seating = seating.map_err(io::Error::other)?;
        if let Some(crowded) = seating.displaced {
            self.refusals.note(format!("{crowded}, and it had asked for nothing"));
        }
        Ok(seating)
    }
}

impl<A, S> Accept<TcpStream, S> for Gate<A>
where
    A: Accept<TcpStream, S>,
    A::Future: Send + 'static,
{
    type Stream = Guarded<A::Stream>;
    type Service = Marked<A::Service>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let Seating { seat, mut close, .. } = match self.seat(&stream) {
            Ok(seating) => seating,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let accepting = self.inner.accept(stream, service);
        let (header, write) = (self.header, self.write);
        Box::pin(async move {
            tokio::select! {
                accepted = accepting => {
                    let (stream, inner) = accepted?;
                    let unproven = Some(Unproven { close, deadline: Box::pin(sleep(header)) });
                    let guarded = Guarded { stream, unproven, stalled: None, write, _seat: Arc::clone(&seat) };
                    Ok((guarded, Marked { inner, seat }))
                }
                Ok(()) = &mut close => Err(io::ErrorKind::ConnectionAborted.into()),
            }
        })
    }
}

/// What can end a connection before its first request.
#[derive(Debug)]
struct Unproven {
    close: oneshot::Receiver<()>,
    /// Hyper's own deadline starts only with the first bytes. While it waits to tell HTTP/1 from HTTP/2, a silent
    /// connection could stay open forever.
    deadline: Pin<Box<Sleep>>,
}

/// A stream that holds its connection's place.
#[derive(Debug)]
pub(crate) struct Guarded<I> {
    stream: I,
    unproven: Option<Unproven>,
    /// Present while the peer accepts no bytes.
    stalled: Option<Pin<Box<Sleep>>>,
    write: Duration,
    _seat: Arc<Seat>,
}

impl<I> Guarded<I> {
    /// Fails if there was no request for too long, or another connection needs the place.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(unproven) = &mut self.unproven else { return Ok(()) };
        match Pin::new(&mut unproven.close).poll(context) {
            Poll::Ready(Ok(())) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Ready(Err(_)) => {
                self.unproven = None;
                Ok(())
            }
            Poll::Pending if unproven.deadline.as_mut().poll(context).is_ready() => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// Passes on a write's result, or fails if writes have made no progress for too long.
    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.write;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Guarded<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Guarded<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A service that records its connection's first request.
#[derive(Debug, Clone)]
pub(crate) struct Marked<S> {
    inner: S,
    seat: Arc<Seat>,
}

impl<S: Service<R>, R> Service<R> for Marked<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.seat.prove();
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn guarded<I>(stream: I, header: Duration, write: Duration) -> (Guarded<I>, Arc<Seat>) {
        let Seating { seat, close, .. } = Seats::new(10, 10).take([127, 0, 0, 1].into()).unwrap();
        let unproven = Some(Unproven { close, deadline: Box::pin(sleep(header)) });
        (Guarded { stream, unproven, stalled: None, write, _seat: Arc::clone(&seat) }, seat)
    }

    #[tokio::test]
    async fn silence_ends_before_the_first_request_alone() {
        const HEADER: Duration = Duration::from_millis(50);
        let (_other, stream) = duplex(64);
        let (mut silent, _) = guarded(stream, HEADER, HEADER);
        assert_eq!(silent.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);

        let (mut other, stream) = duplex(64);
        let (mut busy, seat) = guarded(stream, HEADER, HEADER);
        seat.prove();
        let late = tokio::spawn(async move {
            sleep(4 * HEADER).await;
            other.write_u8(7).await.unwrap();
        });
        assert_eq!(busy.read_u8().await.unwrap(), 7);
        late.await.unwrap();
    }

    #[tokio::test]
    async fn a_write_without_progress_ends() {
        const WRITE: Duration = Duration::from_secs(1);
        let (mut other, stream) = duplex(64);
        let (mut stalled, _) = guarded(stream, WRITE, WRITE);
        let reader = tokio::spawn(async move {
            // Slow, but never stalled for long.
            for _ in 0..10 {
                sleep(WRITE / 6).await;
                other.read_exact(&mut [0; 32]).await.unwrap();
            }
            other
        });
        stalled.write_all(&[0; 320]).await.unwrap();
        let _other = reader.await.unwrap();
        assert_eq!(stalled.write_all(&[0; 128]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
