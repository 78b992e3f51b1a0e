//! Splits flat vectors into the parameters of a network.

use crate::{real::Real, vector::add};

/// A piece of a flat vector: weights, their gradients, or gradients of only the first parameters.
pub(crate) trait Piece: Sized {
    fn cut(&mut self, len: usize) -> Self;
}

impl<R> Piece for &[R] {
    fn cut(&mut self, len: usize) -> Self {
        let (first, rest) = self.split_at(len);
        *self = rest;
        first
    }
}

/// The derivative of a parameter: a piece of a direction over the first parameters, or `None` after its end.
pub(crate) type Change<'a, R> = Option<&'a [R]>;

impl<R> Piece for Change<'_, R> {
    fn cut(&mut self, len: usize) -> Self {
        let (first, rest) = self.and_then(|values| values.split_at_checked(len)).unzip();
        *self = rest;
        first
    }
}

/// Memory for the gradient of a parameter, if it is wanted.
pub(crate) type Slot<'a, R> = Option<&'a mut [R]>;

impl<R: Real> Piece for Slot<'_, R> {
    fn cut(&mut self, len: usize) -> Self {
        match self.take() {
            Some(values) if values.len() >= len => {
                let (first, rest) = values.split_at_mut(len);
                *self = Some(rest);
                Some(first)
            }
            // The wanted range ends within this parameter, which gets no gradient. Clear the memory: it may hold an
            // earlier step's.
            rest => {
                rest.into_iter().for_each(|rest| rest.fill(R::ZERO));
                None
            }
        }
    }
}

/// A layer y = x W^T + b.
pub(crate) struct Linear<P> {
    /// `[out, in]`
    pub(crate) weight: P,
    /// `[out]`
    pub(crate) bias: P,
}

impl<P: Piece> Linear<P> {
    pub(crate) fn cut(flat: &mut P, out: usize, input: usize) -> Self {
        Self { weight: flat.cut(out * input), bias: flat.cut(out) }
    }

    /// Splits off the first `out` outputs, of `input` values each.
    pub(crate) fn split(mut self, out: usize, input: usize) -> (Self, Self) {
        let first = Self { weight: self.weight.cut(out * input), bias: self.bias.cut(out) };
        (first, self)
    }
}

impl<P: Copy> Linear<P> {
    pub(crate) fn pieces(&self) -> Self {
        Self { weight: self.weight, bias: self.bias }
    }
}

pub(crate) struct Norm<P> {
    /// `[channels]`
    pub(crate) weight: P,
    /// `[channels]`
    pub(crate) bias: P,
}

impl<P: Piece> Norm<P> {
    pub(crate) fn cut(flat: &mut P, channels: usize) -> Self {
        Self { weight: flat.cut(channels), bias: flat.cut(channels) }
    }
}

/// Adds `parts` to `slot`, in order.
pub(crate) fn add_all<'a, R: Real + 'a>(slot: &mut [R], parts: impl IntoIterator<Item = &'a [R]>) {
    for part in parts {
        add(&mut *slot, part);
    }
}
