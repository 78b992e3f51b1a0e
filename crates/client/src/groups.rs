//! Pictures of each parameter group of an update, before and after its defence.

use unmask_core::{ModelState, Param, ParamGroup, ParamLayout, UpdateForm};
use unmask_data::heat::{saturation, signed_colour};
use unmask_defence::ProtectedUpdate;

use crate::RoundPlan;

/// Largest side of the shown piece of a group, in values.
const MAX_WIDTH: usize = 96;
const MAX_HEIGHT: usize = 48;
const DROPPED: [u8; 4] = [0x8a, 0x8f, 0x98, 0xff];

/// One parameter group of an update before and after its defence.
///
/// It shows what the relay learns: the gradient under FedSGD, and the change W_n - w under FedAvg, because the relay
/// knows the w that it sent.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupComparison {
    pub group: ParamGroup,
    pub values: usize,
    /// Share of zeros in what leaves: dropped values, or values unchanged under FedAvg.
    pub zeros: f32,
    pub norm_before: f32,
    /// L2 norm of what leaves.
    pub norm_after: f32,
    /// Noise-to-signal ratio, ||after - before|| / ||before||, from clipping and noise. `None` for a defence that adds
    /// none.
    pub noise: Option<f32>,
    /// Whether ciphertext leaves. Only the embeddings are ever encrypted.
    pub ciphertext: bool,
    pub width: usize,
    pub height: usize,
    /// The top left piece of the group's largest tensor, RGBA: blue below zero, red above, white at zero.
    pub before: Vec<u8>,
    /// The same piece of what leaves; grey where the defence dropped a value.
    pub after: Vec<u8>,
}

/// Draws each group of the training result `plain` `[P]` under `plan`, beside the protected `update`. Returns nothing
/// if one of them does not fit the plan's layout.
pub fn compare_groups(plan: &RoundPlan, plain: Vec<f32>, update: &ProtectedUpdate) -> Vec<GroupComparison> {
    let RoundPlan { layout, state: ModelState { weights, .. }, .. } = plan;
    let (mut before, after) = (plain, seen(plan, update));
    if before.len() != layout.len() || weights.len() != layout.len() {
        return Vec::new();
    }
    if plan.rule.is_fedavg() {
        before.iter_mut().zip(weights).for_each(|(weight, global)| *weight -= global);
    }
    let Some(after) = after else { return Vec::new() };
    let drawing = Drawing { plan, before: &before, after: &after };
    ParamGroup::ALL.into_iter().filter_map(|group| drawing.group(group)).collect()
}

/// What the relay sees of the update, `[P]`: its values under FedSGD, its change under FedAvg, and zero for each
/// missing value.
fn seen(plan: &RoundPlan, update: &ProtectedUpdate) -> Option<Vec<f32>> {
    if !plan.rule.is_fedavg() {
        return update.expand(&plan.layout).ok();
    }
    // For an encrypted update the relay holds w encrypted, and subtracts that.
    let mut global = plan.state.weights.clone();
    if let (UpdateForm::Encrypted { .. }, Some(cipher)) = (update.form, &plan.cipher) {
        cipher.encrypt(&mut global).ok()?;
    }
    let mut change = update.expand_over(&plan.layout, global.clone()).ok()?;
    change.iter_mut().zip(&global).for_each(|(weight, global)| *weight -= global);
    Some(change)
}

struct Drawing<'a> {
    plan: &'a RoundPlan,
    before: &'a [f32],
    after: &'a [f32],
}

impl Drawing<'_> {
    fn group(&self, group: ParamGroup) -> Option<GroupComparison> {
        let Self { plan: RoundPlan { layout, defence, .. }, before, after } = *self;
        let len: usize = layout.group_ranges(group).map(|range| range.len()).sum();
        let zeros = values(layout, group, after).filter(|value| *value == 0.0).count() as f32 / len.max(1) as f32;
        let norm_before = norm(values(layout, group, before));
        let added = values(layout, group, after).zip(values(layout, group, before)).map(|(is, was)| is - was);
        let noise = defence.noise().is_some().then(|| norm(added) / norm_before);
        let params: Vec<&Param> = layout.iter().filter(|param| param.group == group).collect();
        let (positions, width) = piece(&params)?;
        let (was, is): (Vec<f32>, Vec<f32>) = positions.iter().map(|&i| (before[i], after[i])).unzip();
        let scale = saturation(was.iter().copied());
        let dropped_or = |(&was, &is): (&f32, &f32)| if is == 0.0 && was != 0.0 { DROPPED } else { colour(is, scale) };
        Some(GroupComparison {
            group,
            values: len,
            zeros,
            norm_before,
            norm_after: norm(values(layout, group, after)),
            noise,
            ciphertext: defence.is_encrypted() && matches!(group, ParamGroup::Patch | ParamGroup::Position),
            width,
            height: positions.len() / width,
            before: was.iter().flat_map(|&value| colour(value, scale)).collect(),
            after: was.iter().zip(&is).flat_map(dropped_or).collect(),
        })
    }
}

fn values<'a>(layout: &'a ParamLayout, group: ParamGroup, flat: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
    layout.group_ranges(group).flat_map(|range| flat[range].iter().copied())
}

/// Flat positions of the piece to show, row by row, and its width. One-dimensional tensors (norms) are stacked as rows.
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

fn norm(values: impl Iterator<Item = f32>) -> f32 {
    values.map(|value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt() as f32
}

fn colour(value: f32, saturation: f32) -> [u8; 4] {
    let [red, green, blue] = signed_colour(value, saturation);
    [red, green, blue, 0xff]
}

#[cfg(test)]
mod tests;
