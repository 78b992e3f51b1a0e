//! The two tables that embedding inversion solves, as pictures of exactly the numbers that arrived.

use serde::{Deserialize, Serialize};
use unmask_attack::{Tensors, embedding_tables};
use unmask_core::{AttackMethod, VitConfig};
use unmask_data::{encode_png, heat::heat_map};
use unmask_wire::view::TablesView;

use super::job::Job;

/// G_pos without the class token's row, `[patches, dim]`, and G_E `[dim, patch * patch * 3]`, as PNG.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tables {
    pub(super) positions: Vec<u8>,
    pub(super) patches: Vec<u8>,
    pub(super) patch: u16,
    pub(super) per_side: u16,
    pub(super) dim: u32,
}

impl Tables {
    /// The tables behind an attack's picture; `None` for another attack, while the lesson does not show them, and for
    /// tables that are too large to show.
    pub(super) fn of(method: AttackMethod, job: &Job) -> Option<Self> {
        let is_shown = method == AttackMethod::Embedding && job.draws_tables;
        let config = job.architecture.vit().filter(|config| is_shown && TablesView::fits(config))?;
        Self::draw(&config, &job.observation.evidence().ok()?.gradients)
    }

    fn draw(config: &VitConfig, gradients: &Tensors) -> Option<Self> {
        let (positions, patches) = embedding_tables(gradients).ok()?;
        let png = |width, values: Vec<f64>| {
            let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
            encode_png(&heat_map(width, &values).ok()?).ok()
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

#[cfg(test)]
mod tests {
    use unmask_attack::TensorSource;
    use unmask_core::{Architecture, VitPreset};

    use super::*;

    const NAMES: [&str; 2] = ["pos_embed", "patch_embed.proj.weight"];

    #[test]
    fn each_number_is_the_pixel_in_its_row_and_column() {
        let config = VitConfig::from(VitPreset::Pico);
        let layout = Architecture::from(VitPreset::Pico).layout();
        let mut flat = vec![0.0; layout.len()];
        let [position, patch] = NAMES.map(|name| layout.get(name).unwrap().range.start);
        // The row of the class token is not drawn, so the table begins with the second one.
        flat[position] = 9.0;
        flat[position + 6 * config.dim + 3] = 1.0;
        flat[patch + 7 * config.patch_len() + 4] = -1.0;
        let gradients = Tensors::from_flat(TensorSource::Gradients, &config, &flat, None, &NAMES).unwrap();
        let tables = Tables::draw(&config, &gradients).unwrap();
        assert_eq!((tables.patch, tables.per_side, tables.dim), (4, 4, 48));
        for (png, size, place, colour) in [
            (&tables.positions, (config.dim, config.patches()), (3, 5), [0xb2, 0x3a, 0x1e]),
            (&tables.patches, (config.patch_len(), config.dim), (4, 7), [0x21, 0x66, 0xac]),
        ] {
            let drawn = unmask_data::decode(png).unwrap();
            assert_eq!((drawn.width(), drawn.height()), size);
            let pixels = drawn.rgb().as_chunks::<3>().0;
            let coloured = |at: &usize| pixels[*at] != [255; 3];
            assert_eq!((0..pixels.len()).filter(coloured).collect::<Vec<_>>(), [place.1 * size.0 + place.0]);
            assert_eq!(pixels[place.1 * size.0 + place.0], colour);
        }
    }

    #[test]
    fn tables_whose_numbers_would_be_too_small_to_see_are_not_drawn() {
        let fits = |preset: VitPreset| TablesView::fits(&preset.into());
        assert!(fits(VitPreset::NanoPatch8) && fits(VitPreset::LabPatch8));
        assert!(!fits(VitPreset::SmallPatch32) && !fits(VitPreset::Tiny));
    }
}
