//! The two tables that embedding inversion solves, as pictures of exactly the numbers that arrived.

use unmask_attack::embedding_tables;
use unmask_core::AttackMethod;
use unmask_data::{Picture, encode_png, heat::heat_map};

use super::job::Job;

/// The largest model whose tables the wall shows: each number must remain a visible dot.
const MOST_PATCHES: usize = 64;
const MOST_DIMENSIONS: usize = 192;

/// G_pos without the class token's row, `[patches, dim]`, and G_E `[dim, patch * patch * 3]`, as PNG.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(super) positions: Vec<u8>,
    pub(super) patches: Vec<u8>,
    pub(super) patch: u16,
    pub(super) per_side: u16,
    pub(super) dim: u32,
}

impl Tables {
    /// The tables behind an attack's picture; `None` for another attack, and for tables that are too large to show.
    pub(super) fn of(method: AttackMethod, job: &Job) -> Option<Self> {
        let config = job.architecture.vit().filter(|_| method == AttackMethod::Embedding)?;
        if config.patches() > MOST_PATCHES || config.dim > MOST_DIMENSIONS {
            return None;
        }
        let (positions, patches) = embedding_tables(&job.observation.evidence().ok()?.gradients).ok()?;
        let png = |width, values: Vec<f64>| {
            let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
            let drawn: Picture = heat_map(width, &values).ok()?;
            encode_png(&drawn).ok()
        };
        Some(Self {
            positions: png(config.dim, positions)?,
            patches: png(config.patch_len(), patches)?,
            patch: config.patch.try_into().ok()?,
            per_side: config.grid().try_into().ok()?,
            dim: config.dim.try_into().ok()?,
        })
    }
}
