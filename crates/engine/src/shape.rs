//! The shape of pictures in a convolutional network.

/// Square pictures `[batch, channels, side, side]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    pub(crate) side: usize,
}

impl Shape {
    pub(crate) fn plane(self) -> usize {
        self.side * self.side
    }

    pub(crate) fn picture(self) -> usize {
        self.channels * self.plane()
    }

    pub(crate) fn len(self) -> usize {
        self.batch * self.picture()
    }
}
