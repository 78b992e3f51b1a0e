//! What leaves the device, as a picture.

use unmask_defence::ProtectedUpdate;
use unmask_params::{Param, ParamGroup, ParamLayout};

/// Largest piece shown of a group, in values.
const MAX_WIDTH: usize = 96;
const MAX_HEIGHT: usize = 48;
/// Colours saturate at this many times the root mean square of the piece.
const SATURATION: f32 = 2.5;
const DROPPED: [u8; 4] = [0x8a, 0x8f, 0x98, 0xff];

/// One parameter group of an update before and after its defence.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupLeaving {
    /// The group.
    pub group: ParamGroup,
    /// Values in the group.
    pub values: usize,
    /// Share of zeros in what leaves.
    pub zeros: f32,
    /// L2 norm before.
    pub norm_before: f32,
    /// L2 norm of what leaves.
    pub norm_after: f32,
    /// Width of the pictures in pixels.
    pub width: usize,
    /// Height of the pictures in pixels.
    pub height: usize,
    /// The top left piece of the group's largest tensor, RGBA: blue below zero, red above, white at zero.
    pub before: Vec<u8>,
    /// The same piece of what leaves; grey where the defence dropped a value.
    pub after: Vec<u8>,
}

/// Draws each group of `plain_update` (`[P]`) beside what is left of it in `update`. A group whose update does not fit the
/// layout is left out.
pub fn leaving(layout: &ParamLayout, plain_update: &[f32], update: &ProtectedUpdate) -> Vec<GroupLeaving> {
    let Ok(sent) = update.expand(layout.len()) else { return Vec::new() };
    if plain_update.len() != layout.len() {
        return Vec::new();
    }
    ParamGroup::ALL.into_iter().filter_map(|group| draw(layout, group, plain_update, &sent)).collect()
}

fn draw(layout: &ParamLayout, group: ParamGroup, plain: &[f32], sent: &[f32]) -> Option<GroupLeaving> {
    let values = |flat: &[f32]| -> Vec<f32> {
        layout.group_ranges(group).flat_map(|range| flat[range].iter().copied()).collect()
    };
    let (all_before, all_after) = (values(plain), values(sent));
    let zeros = all_after.iter().filter(|value| **value == 0.0).count() as f32 / all_after.len().max(1) as f32;
    let params: Vec<&Param> = layout.iter().filter(|param| param.group == group).collect();
    let (positions, width) = piece(&params)?;
    let before: Vec<f32> = positions.iter().map(|&i| plain[i]).collect();
    let after: Vec<f32> = positions.iter().map(|&i| sent[i]).collect();
    let scale = SATURATION * norm(&before) / (before.len() as f32).sqrt();
    let rgba_before = before.iter().flat_map(|&value| colour(value, scale)).collect();
    let rgba_after = before
        .iter()
        .zip(&after)
        .flat_map(|(&was, &is)| if is == 0.0 && was != 0.0 { DROPPED } else { colour(is, scale) })
        .collect();
    Some(GroupLeaving {
        group,
        values: all_after.len(),
        zeros,
        norm_before: norm(&all_before),
        norm_after: norm(&all_after),
        width,
        height: positions.len() / width,
        before: rgba_before,
        after: rgba_after,
    })
}

/// Flat positions of the piece to show, row by row, and its width. Tensors of one axis (norms) are stacked as rows.
fn piece(params: &[&Param]) -> Option<(Vec<usize>, usize)> {
    let largest = params.iter().max_by_key(|param| param.range.len())?;
    let columns = match largest.shape.as_slice() {
        [_, rest @ ..] if largest.shape.len() == 4 => rest.iter().product(),
        [.., last] => *last,
        [] => 1,
    };
    let width = columns.clamp(1, MAX_WIDTH);
    let starts: Vec<usize> = if largest.range.len() > columns {
        largest.range.clone().step_by(columns.max(1)).collect()
    } else {
        params.iter().filter(|param| param.range.len() == columns).map(|param| param.range.start).collect()
    };
    let positions = starts.into_iter().take(MAX_HEIGHT).flat_map(|start| start..start + width).collect();
    Some((positions, width))
}

fn norm(values: &[f32]) -> f32 {
    values.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt() as f32
}

/// Red and blue of equal lightness, so that a colour-blind eye reads the sign as well.
fn colour(value: f32, scale: f32) -> [u8; 4] {
    let strength = if scale > 0.0 { (value / scale).clamp(-1.0, 1.0) } else { 0.0 };
    let end = if strength < 0.0 { [0x21, 0x66, 0xac] } else { [0xb2, 0x3a, 0x1e] };
    let mix = |end: u8| (255.0 + (f32::from(end) - 255.0) * strength.abs()).round() as u8;
    [mix(end[0]), mix(end[1]), mix(end[2]), 0xff]
}

#[cfg(test)]
mod tests {
    use unmask_defence::{Defence, MaskSeed};
    use unmask_params::{ModelSpec, Preset};

    use super::*;

    fn groups(defence: &str, preset: Preset) -> Vec<GroupLeaving> {
        let layout = ParamLayout::vit(&ModelSpec::new(preset).config());
        let plain: Vec<f32> = (0..layout.len()).map(|i| (i as f32).sin() + 2.0).collect();
        let defence: Defence = defence.parse().unwrap();
        leaving(&layout, &plain, &defence.protect(&layout, plain.clone(), MaskSeed([1; 32])))
    }

    #[test]
    fn every_group_has_its_pictures() {
        for preset in Preset::ALL {
            let groups = groups("none", preset);
            assert_eq!(groups.len(), ParamGroup::ALL.len());
            for group in groups {
                assert_eq!(group.before.len(), 4 * group.width * group.height);
                assert!(group.width > 0 && group.height > 0);
                assert_eq!(group.before, group.after);
                assert_eq!(group.zeros, 0.0);
                assert_eq!(group.norm_before, group.norm_after);
            }
        }
    }

    #[test]
    fn masked_share_shows_in_numbers_and_in_the_picture() {
        for group in groups("random-binary:0.5", Preset::VitNanoPatch4_32) {
            let sd = (0.25 / group.values as f32).sqrt();
            assert!((group.zeros - 0.5).abs() < 6.0 * sd, "{}: {}", group.group, group.zeros);
            let grey = group.after.as_chunks::<4>().0.iter().filter(|pixel| **pixel == DROPPED).count() as f32;
            let pixels = (group.width * group.height) as f32;
            assert!((grey / pixels - 0.5).abs() < 6.0 * (0.25 / pixels).sqrt());
            assert!(group.norm_after < group.norm_before);
        }
    }

    #[test]
    fn fixed_position_drops_that_group_alone() {
        for group in groups("fixed-position", Preset::VitPicoPatch4_16) {
            assert_eq!(group.zeros, if group.group == ParamGroup::Position { 1.0 } else { 0.0 });
        }
    }
}
