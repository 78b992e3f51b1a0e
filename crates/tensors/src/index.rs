//! The tensors of a file under timm's names, and where their values are.

use std::collections::{HashMap, HashSet};

use safetensors::Dtype;

use super::{
    heads,
    names::{Timm, fronts, timm, unwrapped},
    order,
};

/// No model has more tensors.
pub(super) const MOST_TENSORS: usize = 100_000;
pub(super) const MOST_DIMENSIONS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// From this byte of the file on.
    Byte(u64),
    /// In this entry of an archive, from this byte of its content on.
    #[cfg_attr(target_family = "wasm", expect(dead_code, reason = "archives are read natively only"))]
    Entry { entry: usize, byte: u64 },
}

/// A tensor as stored in its file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    /// Distance between neighbours along each dimension, in values.
    pub(super) strides: Vec<usize>,
    /// Number of values from its place to the end of the data. The tensor must fit within.
    pub(super) available: u64,
    /// `None` for an unsupported type.
    pub(super) dtype: Option<Dtype>,
    pub(super) is_big_endian: bool,
    /// The file that holds it, where several are one model.
    pub(super) shard: usize,
    /// The file's name of the type.
    pub(super) type_name: String,
    pub(super) place: Place,
}

impl Stored {
    /// Returns its first byte, in the file or in its entry.
    pub(super) fn byte(&self) -> u64 {
        match self.place {
            Place::Byte(byte) | Place::Entry { byte, .. } => byte,
        }
    }

    /// Returns the number of values. Valid after [`Stored::check`].
    pub(super) fn values(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the number of values from the first to the last, including gaps.
    pub(super) fn extent(&self) -> usize {
        if self.values() == 0 {
            return 0;
        }
        1 + self.shape.iter().zip(&self.strides).map(|(side, stride)| (side - 1) * stride).sum::<usize>()
    }

    /// Checks that the file holds as many values as the shape says. Afterwards, products and sums of these numbers
    /// cannot overflow.
    fn check(&self) -> Result<(), String> {
        let Self { name, shape, strides, available, .. } = self;
        let spills = || format!("{name} {shape:?} with strides {strides:?} reaches beyond its {available} values");
        if shape.len() > MOST_DIMENSIONS || shape.len() != strides.len() {
            return Err(format!("{name} has {} dimensions and {} strides", shape.len(), strides.len()));
        }
        let sides = || shape.iter().map(|&side| side as u64);
        let count = sides().try_fold(1_u64, u64::checked_mul).ok_or_else(spills)?;
        if count == 0 {
            return Ok(());
        }
        let reach = sides()
            .zip(strides)
            .try_fold(1_u64, |reach, (side, &stride)| reach.checked_add((side - 1).checked_mul(stride as u64)?));
        let reach = reach.filter(|reach| reach <= available).ok_or_else(spills)?;
        if count > reach {
            return Err(format!(
                "{name} {shape:?} repeats its {reach} values (strides {strides:?}); save it after .contiguous()"
            ));
        }
        Ok(())
    }
}

/// Returns the strides of a tensor with the last dimension fastest. Used only with checked shapes.
pub(super) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i]);
    }
    strides
}

/// A tensor under timm's name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    /// Parts in order along the first dimension: q, k and v if the file stores them separately.
    pub(super) parts: Vec<Stored>,
}

impl Entry {
    /// Returns timm's name, followed by the file's name if it differs.
    pub(super) fn shown(&self) -> String {
        match self.parts.as_slice() {
            [only] if only.name != self.name => format!("{} ({} in the file)", self.name, only.name),
            [first, .., last] => format!("{} ({} to {} in the file)", self.name, first.name, last.name),
            _ => self.name.clone(),
        }
    }
}

/// Lists the tensors in file order, and says in sentences what was assumed about them.
pub(super) fn index(mut stored: Vec<Stored>) -> Result<(Vec<Entry>, Vec<String>), String> {
    if stored.len() > MOST_TENSORS {
        return Err(format!("it holds {} tensors; no model has more than {MOST_TENSORS}", stored.len()));
    }
    stored.iter().try_for_each(Stored::check)?;
    let mut notes = Vec::new();
    notes.extend(without_samples(&mut stored)?);
    let given = order::names(&stored);
    notes.extend(given.as_ref().map(|(_, note)| note.clone()));
    let given = given.map(|(names, _)| names);
    let bare = |(place, tensor): (usize, &Stored)| match &given {
        Some(names) => names[place].clone(),
        None => unwrapped(&tensor.name),
    };
    let names: Vec<String> = stored.iter().enumerate().map(bare).collect();
    // Nobody can tell which of several networks is meant.
    let front = match fronts(names.iter().map(String::as_str)).as_slice() {
        [front] => *front,
        _ => "",
    };
    // OpenAI's CLIP calls its patch embedding as a ResNet its first layer.
    let is_clip = names.iter().any(|name| name.strip_prefix(front) == Some("positional_embedding"));
    let timms = |name: &str| match timm(name) {
        Timm { name, third } if is_clip && name == "conv1.weight" => {
            Timm { name: "patch_embed.proj.weight".to_owned(), third }
        }
        timm => timm,
    };
    let inside: HashSet<String> = names.iter().filter_map(|name| Some(timms(name.strip_prefix(front)?).name)).collect();
    let mut order = Vec::new();
    let mut groups: HashMap<String, Vec<(Option<usize>, Stored)>> = HashMap::new();
    for (mut tensor, name) in stored.into_iter().zip(&names) {
        let Timm { name, third } = match name.strip_prefix(front) {
            Some(within) => timms(within),
            // A tensor beside the network, such as of a text model, keeps its name where the network has one of that.
            None => Some(timms(name))
                .filter(|timm| !inside.contains(&timm.name))
                .unwrap_or_else(|| Timm { name: name.clone(), third: None }),
        };
        // CLIP's has no first dimension of one.
        if name == "pos_embed" && tensor.shape.len() == 2 {
            tensor.shape.insert(0, 1);
            tensor.strides.insert(0, 0);
        }
        let group = groups.entry(name).or_insert_with_key(|name| {
            order.push(name.clone());
            Vec::new()
        });
        group.push((third, tensor));
    }
    let mut entries = Vec::with_capacity(order.len());
    for name in order {
        let mut group = groups.remove(&name).unwrap_or_default();
        group.sort_by_key(|(third, _)| *third);
        let thirds: Vec<Option<usize>> = group.iter().map(|(third, _)| *third).collect();
        let parts: Vec<Stored> = group.into_iter().map(|(_, tensor)| tensor).collect();
        match thirds.as_slice() {
            [None] => entries.push(Entry { name, shape: parts[0].shape.clone(), parts }),
            [Some(0), Some(1), Some(2)] => entries.push(Entry { name, shape: stacked(&parts)?, parts }),
            thirds if thirds.windows(2).any(|pair| pair[0] == pair[1]) || thirds.contains(&None) => {
                return Err(format!("both {} and {} are timm's {name}", parts[0].name, parts[1].name));
            }
            // Without the other thirds, timm has no name for them.
            _ => entries.extend(parts.into_iter().map(|part| Entry {
                name: part.name.clone(),
                shape: part.shape.clone(),
                parts: vec![part],
            })),
        }
    }
    let mut known: HashMap<&str, &Entry> = HashMap::new();
    for entry in &entries {
        // One that keeps the file's name may have what is timm's name of another.
        if let Some(other) = known.insert(&entry.name, entry) {
            let [first, second] = [other, entry].map(|entry| &entry.parts[0].name);
            return Err(format!("both {first} and {second} are timm's {}", entry.name));
        }
    }
    heads::rename(&mut entries);
    Ok((entries, notes))
}

/// Removes the first dimension of one that Opacus' `grad_sample` puts before each shape.
///
/// # Errors
/// The tensors have one gradient for each of several samples.
fn without_samples(stored: &mut [Stored]) -> Result<Option<String>, String> {
    let Some(&samples) = stored.first().and_then(|tensor| tensor.shape.first()) else { return Ok(None) };
    let has_samples = stored.iter().all(|tensor| tensor.shape.first() == Some(&samples) && tensor.shape.len() >= 2);
    // Convolutions have four dimensions.
    if !has_samples || !stored.iter().any(|tensor| tensor.shape.len() == 5) {
        return Ok(None);
    }
    if samples != 1 {
        return Err(format!(
            "each of its tensors has {samples} as its first dimension: they are gradients of {samples} samples, one by one, \
             as Opacus' grad_sample holds them; save those of one, such as p.grad_sample[0], or their mean"
        ));
    }
    for tensor in stored {
        tensor.shape.remove(0);
        tensor.strides.remove(0);
    }
    Ok(Some(
        "Each tensor has a first dimension of 1, as in Opacus' grad_sample of one sample; it was left out.".to_owned(),
    ))
}

/// Returns the shape of `parts` stacked along the first dimension.
fn stacked(parts: &[Stored]) -> Result<Vec<usize>, String> {
    let [rows, rest @ ..] = parts[0].shape.as_slice() else {
        return Err(format!("{} is a single number", parts[0].name));
    };
    match parts.iter().find(|part| part.shape != parts[0].shape) {
        Some(other) => Err(format!(
            "{} {:?} and {} {:?} are parts of one tensor and must have one shape",
            parts[0].name, parts[0].shape, other.name, other.shape
        )),
        None => Ok([&[rows.saturating_mul(parts.len())], rest].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, shape: &[usize], strides: &[usize], available: u64) -> Stored {
        Stored {
            name: name.to_owned(),
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            available,
            dtype: Some(Dtype::F32),
            is_big_endian: false,
            shard: 0,
            type_name: "F32".to_owned(),
            place: Place::Byte(0),
        }
    }

    fn refusal(tensors: Vec<Stored>) -> String {
        index(tensors).unwrap_err()
    }

    #[test]
    fn shapes_that_overflow_or_reach_too_far_are_refused() {
        let huge = usize::MAX;
        for (shape, strides, available) in [
            (vec![huge, huge], vec![1, 1], 10),
            (vec![3, 2], vec![2, 1], 5),
            (vec![2, 2], vec![huge, 1], 4),
            (vec![1 << 40], vec![1], 4),
        ] {
            let refused = refusal(vec![stored("head.weight", &shape, &strides, available)]);
            assert!(refused.starts_with("head.weight [") && refused.contains("reaches beyond"), "{refused}");
        }
        let refused = refusal(vec![stored("a", &[1 << 40], &[0], 1)]);
        assert!(refused.contains("repeats its 1 values") && refused.contains(".contiguous()"), "{refused}");
        // Regardless of how many values the file claims to hold.
        let refused = refusal(vec![stored("a", &[1 << 20, 1 << 20], &[1, 1], u64::MAX)]);
        assert!(refused.contains("repeats its 2097151 values"), "{refused}");
        let refused = refusal(vec![stored("a", &[1; 9], &[1; 9], 1)]);
        assert!(refused.contains("9 dimensions"), "{refused}");
        assert_eq!(index(vec![stored("a", &[0, huge, huge], &[1, 1, 1], 0)]).unwrap().0[0].parts[0].extent(), 0);
    }

    #[test]
    fn thirds_are_one_tensor_in_the_order_of_timm() {
        let name = |which: &str| format!("vit.encoder.layer.3.attention.attention.{which}.weight");
        let third = |which: &str| stored(&name(which), &[4, 4], &[4, 1], 16);
        let (found, _) = index(vec![third("key"), third("query"), third("value")]).unwrap();
        assert_eq!((found[0].name.as_str(), found[0].shape.as_slice()), ("blocks.3.attn.qkv.weight", &[12, 4][..]));
        assert_eq!(
            found[0].parts.iter().map(|part| &part.name).collect::<Vec<_>>(),
            [&name("query"), &name("key"), &name("value")]
        );
        let (found, _) = index(vec![third("key"), third("value")]).unwrap();
        assert_eq!(found.iter().map(|entry| &entry.name).collect::<Vec<_>>(), [&name("key"), &name("value")]);
        let refused = refusal(vec![third("key"), third("key")]);
        assert!(refused.starts_with("both vit.encoder.layer.3.attention.attention.key"), "{refused}");
        let refused = refusal(vec![stored("head.weight", &[1], &[1], 1), stored("module.head.weight", &[1], &[1], 1)]);
        assert_eq!(refused, "both head.weight and module.head.weight are timm's head.weight");
        // A third that keeps the file's name.
        let alone = third("key");
        let same = format!("module.vit.{}", alone.name);
        let refused = refusal(vec![alone, stored(&same, &[4], &[1], 4)]);
        assert!(refused.starts_with("both vit.encoder") && refused.contains("and module.vit.vit.encoder"), "{refused}");
        let odd = stored(&name("value"), &[5, 4], &[4, 1], 20);
        assert!(refusal(vec![third("query"), third("key"), odd]).contains("must have one shape"));
    }
}
