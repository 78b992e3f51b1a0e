//! The classification head, by what it is: names differ, and it may be a part of a sequence.

use super::index::Entry;

/// timm's name of a ViT's head and of a ResNet's.
const VIT: &str = "head";
const CONVOLUTIONAL: &str = "fc";

/// Beginnings of names of matrices that are no layer of the head.
const ELSEWHERE: [&str; 6] = ["blocks.", "layer", "encoder.", "pooler.", "head_dist.", "decoder"];

/// The matrix of a linear layer after the blocks: its name without `.weight`, and its shape `[rows, columns]`.
fn layers(entries: &[Entry]) -> impl Iterator<Item = (&str, [usize; 2])> {
    entries.iter().filter_map(|entry| {
        let layer = entry.name.strip_suffix(".weight")?;
        let &[rows, columns] = entry.shape.as_slice() else { return None };
        (!ELSEWHERE.iter().any(|front| layer.starts_with(front))).then_some((layer, [rows, columns]))
    })
}

/// Gives timm's name to the only linear layer after the blocks, such as `head.1` behind a dropout.
pub(super) fn rename(entries: &mut [Entry]) {
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    let timms = match (has("patch_embed.proj.weight"), has("conv1.weight")) {
        (true, _) => VIT,
        (false, true) => CONVOLUTIONAL,
        // A part of a model may hold only its head, of which family nobody knows.
        (false, false) => return,
    };
    let all: Vec<String> = layers(entries).map(|(layer, _)| layer.to_owned()).collect();
    let [only] = all.as_slice() else { return };
    for end in ["weight", "bias"] {
        let theirs = format!("{only}.{end}");
        if let Some(entry) = entries.iter_mut().find(|entry| entry.name == theirs) {
            entry.name = format!("{timms}.{end}");
        }
    }
}

/// Returns the names of the last linear layer's weight and bias, which need not be there.
pub(super) fn last(entries: &[Entry]) -> Option<[String; 2]> {
    let all: Vec<(&str, [usize; 2])> = layers(entries).collect();
    let is_last = |(layer, [rows, _]): &&(&str, [usize; 2])| {
        !all.iter().any(|(other, [_, columns])| other != layer && columns == rows)
    };
    let ends: Vec<_> = all.iter().filter(is_last).collect();
    let among = if ends.is_empty() { all.iter().collect() } else { ends };
    // Square layers follow each other by their numbers.
    let layer = among.into_iter().max_by_key(|(layer, _)| number(layer))?.0;
    Some([format!("{layer}.weight"), format!("{layer}.bias")])
}

/// The number at the end of a layer's name.
fn number(layer: &str) -> Option<u16> {
    layer.rsplit('.').next()?.parse().ok()
}
