//! The papers' weighted mean.

use super::{Combine, Weighted};
use crate::sums::Sums;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mean;

impl Combine for Mean {
    fn add<'a>(&mut self, update: Weighted<'a>, _reference: Option<&[f32]>, sums: &mut Sums) -> Option<Weighted<'a>> {
        sums.add(&update.update, update.weight);
        Some(update)
    }
}
