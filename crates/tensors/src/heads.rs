//! The classification head, by what it is: names differ, and it may be a part of a sequence.

use std::collections::HashMap;

use super::index::Entry;

/// timm's name of a ViT's head and of a ResNet's.
const VIT: &str = "head";
const CONVOLUTIONAL: &str = "fc";

/// Parts of names of matrices that are no layer of the head: those of blocks, and embeddings.
const ELSEWHERE: [&str; 12] = [
    "blocks",
    "layers",
    "layer",
    "transformer",
    "encoder",
    "decoder",
    "resblocks",
    "stages",
    "pooler",
    "head_dist",
    "attn",
    "attn_pool",
];
/// Parts of words of such names.
const EMBEDDINGS: [&str; 4] = ["embed", "token", "qkv", "position"];
/// Words in names of heads.
const HEADS: [&str; 4] = ["head", "classifier", "fc", "linear"];

/// A linear layer after the blocks: its name without `.weight`, and the shape of its matrix, `[rows, columns]`.
struct Layer<'a> {
    name: &'a str,
    rows: usize,
    columns: usize,
}

fn layers(entries: &[Entry]) -> impl Iterator<Item = Layer<'_>> {
    entries.iter().filter_map(|entry| {
        let name = entry.name.strip_suffix(".weight")?;
        let &[rows, columns] = entry.shape.as_slice() else { return None };
        let is_elsewhere = |part: &str| {
            let is_stage = part.strip_prefix("layer").is_some_and(|number| number.parse::<u8>().is_ok());
            is_stage || ELSEWHERE.contains(&part) || EMBEDDINGS.iter().any(|word| part.contains(word))
        };
        (!name.split('.').any(is_elsewhere)).then_some(Layer { name, rows, columns })
    })
}

/// Gives timm's name to the only linear layer after the blocks, such as `head.1` behind a dropout.
pub(super) fn rename(entries: &mut [Entry]) {
    let shape = |name: &str| entries.iter().find(|entry| entry.name == name).map(|entry| entry.shape.clone());
    let (timms, features) = match (shape("patch_embed.proj.weight"), shape("conv1.weight")) {
        (Some(patch), _) => (VIT, patch.first().copied()),
        (None, Some(_)) => (CONVOLUTIONAL, None),
        // A part of a model may hold only its head, of which family nobody knows.
        (None, None) => return,
    };
    let all: Vec<Layer<'_>> = layers(entries).collect();
    let [only] = all.as_slice() else { return };
    // A head that reads more than one token is another layer.
    if features.is_some_and(|features| features != only.columns) {
        return;
    }
    let ends = ["weight", "bias"];
    let [theirs, timms] = [only.name, timms].map(|layer| ends.map(|end| format!("{layer}.{end}")));
    // Another tensor may have that name.
    if timms.iter().any(|timms| shape(timms).is_some()) {
        return;
    }
    for (theirs, timms) in theirs.iter().zip(timms) {
        if let Some(entry) = entries.iter_mut().find(|entry| entry.name == *theirs) {
            entry.name = timms;
        }
    }
}

/// Returns the names of the last linear layer's weight and bias, which need not be there.
pub(super) fn last(entries: &[Entry]) -> Option<[String; 2]> {
    let mut columns: HashMap<usize, usize> = HashMap::new();
    for layer in layers(entries) {
        *columns.entry(layer.columns).or_default() += 1;
    }
    // No other layer reads what the last one writes.
    let is_last = |layer: &Layer<'_>| {
        let own = usize::from(layer.rows == layer.columns);
        columns.get(&layer.rows).copied().unwrap_or(0) == own
    };
    let is_head = |layer: &Layer<'_>| layer.name.split('.').any(|part| HEADS.iter().any(|word| part.contains(word)));
    let layer = layers(entries).max_by_key(|layer| (is_head(layer), is_last(layer), number(layer.name)))?.name;
    Some([format!("{layer}.weight"), format!("{layer}.bias")])
}

/// The number at the end of a layer's name.
fn number(layer: &str) -> Option<u16> {
    layer.rsplit('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(tensors: &[(&str, &[usize])]) -> Vec<Entry> {
        let entry = |(name, shape): &(&str, &[usize])| Entry {
            name: (*name).to_owned(),
            shape: shape.to_vec(),
            parts: Vec::new(),
        };
        tensors.iter().map(entry).collect()
    }

    #[test]
    fn the_last_layer_is_found_among_others() {
        const PATCH: (&str, &[usize]) = ("patch_embed.proj.weight", &[32, 3, 8, 8]);
        for (tensors, found) in [
            (&[("head.0.weight", &[16, 32][..]), ("head.2.weight", &[10, 16])][..], "head.2.weight"),
            (
                &[("mlp_head.1.weight", &[10, 32]), ("transformer.layers.0.0.to_qkv.weight", &[96, 32])],
                "mlp_head.1.weight",
            ),
            (&[("classifier.weight", &[10, 32]), ("position_embedding.weight", &[17, 32])], "classifier.weight"),
            (
                &[("heads.0.weight", &[64, 32]), ("heads.2.weight", &[10, 64]), ("pooler.dense.weight", &[32, 32])],
                "heads.2.weight",
            ),
            (&[("fc1.weight", &[64, 64]), ("fc2.weight", &[64, 64]), ("fc3.weight", &[10, 64])], "fc3.weight"),
        ] {
            let all = entries(&[&[PATCH], tensors].concat());
            assert_eq!(last(&all).unwrap()[0], found);
        }
        assert_eq!(last(&entries(&[PATCH])), None);
    }

    #[test]
    fn only_a_layer_over_one_token_gets_timms_name() {
        let named = |columns: usize| {
            let mut all = entries(&[
                ("patch_embed.proj.weight", &[32, 3, 8, 8]),
                ("linear_head.weight", &[10, columns]),
                ("linear_head.bias", &[10]),
            ]);
            rename(&mut all);
            all[2].name.clone()
        };
        assert_eq!((named(32).as_str(), named(64).as_str()), ("head.bias", "linear_head.bias"));
    }

    #[test]
    fn no_layer_gets_the_name_of_another_tensor() {
        let mut all = entries(&[
            ("patch_embed.proj.weight", &[32, 3, 8, 8]),
            ("head.bias", &[10]),
            ("linear_head.weight", &[10, 32]),
            ("linear_head.bias", &[10]),
        ]);
        rename(&mut all);
        let names: Vec<&str> = all.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names[1..], ["head.bias", "linear_head.weight", "linear_head.bias"]);
    }
}
