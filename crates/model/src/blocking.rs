//! Blocks the current thread until a future is ready.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` to completion on this thread. A browser's thread cannot wait: there, the future must be ready at once, as
/// that of a pass on the processor is.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending if cfg!(target_family = "wasm") => {
                unreachable!("a browser's thread cannot wait for another worker")
            }
            Poll::Pending => thread::park(),
        }
    }
}
