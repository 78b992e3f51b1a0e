//! How the room answers an input.

use std::fmt;

/// Where the answer to an input goes. Dropping it says that there will be none.
pub struct Reply<T>(Box<dyn FnOnce(T) -> bool + Send>);

impl<T> Reply<T> {
    /// `send` returns false if nobody waits for the answer any longer.
    pub fn new(send: impl FnOnce(T) -> bool + Send + 'static) -> Self {
        Self(Box::new(send))
    }

    pub fn send(self, answer: T) {
        self.reaches(answer);
    }

    /// Sends the answer; returns false if nobody waits for it.
    pub fn reaches(self, answer: T) -> bool {
        (self.0)(answer)
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
