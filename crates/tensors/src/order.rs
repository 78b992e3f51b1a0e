//! Tensors without names: lists from `torch.autograd.grad`, and arrays from `numpy.savez` or Flower, which are numbered.

use unmask_core::{Architecture, LenetConfig, ParamLayout, ResnetPreset, ResnetSpec, VitConfig};

use super::{index::Stored, state::state_dict};

/// What `numpy.savez` puts before the number of an array without a name.
const NUMPY: &str = "arr_";
/// Tensors of a ViT outside its blocks, and of a block.
const OUTSIDE: usize = 8;
const IN_BLOCK: usize = 12;
/// Tensors that Hugging Face's block has beyond these: q, k and v apart.
const THIRDS: usize = 4;

/// Names for numbered tensors, and a sentence that says where they are from; `None` if the tensors have names, or if
/// their shapes are those of no known model in the order of its parameters.
pub(super) fn names(stored: &[Stored]) -> Option<(Vec<String>, String)> {
    let numbers = stored.iter().map(|tensor| number(&tensor.name)).collect::<Option<Vec<_>>>()?;
    // An archive lists `arr_10` before `arr_2`.
    let mut places: Vec<usize> = (0..stored.len()).collect();
    places.sort_by_key(|place| numbers[*place]);
    let shapes: Vec<&[usize]> = places.iter().map(|place| stored[*place].shape.as_slice()).collect();
    let (ordered, whose) = fitting(&shapes)?;
    let mut names = vec![String::new(); stored.len()];
    for (place, name) in places.into_iter().zip(ordered) {
        names[place] = name;
    }
    let note = format!(
        "The tensors are numbered, not named; their shapes are those of {whose} in the order of its parameters, so they \
         were taken for these."
    );
    Some((names, note))
}

/// The number of a tensor without a name.
pub(super) fn number(name: &str) -> Option<usize> {
    name.strip_prefix(NUMPY).unwrap_or(name).parse().ok()
}

/// The names of the known model whose tensors have these shapes, and what it is.
fn fitting(shapes: &[&[usize]]) -> Option<(Vec<String>, String)> {
    let vits = [IN_BLOCK, IN_BLOCK + THIRDS].into_iter().filter_map(|in_block| vit(shapes, in_block));
    let classes = shapes.last().and_then(|shape| shape.first()).copied().unwrap_or(0);
    let resnets = ResnetPreset::ALL.map(|preset| ResnetSpec { classes, ..preset.into() }).into_iter();
    let resnets = resnets.filter(|spec| has_stem(shapes, spec)).map(Architecture::Resnet);
    let all = vits.map(Architecture::Vit).chain(resnets).chain(lenet(shapes).map(Architecture::Lenet));
    // The layout of absurd numbers of classes would overflow.
    all.into_iter().filter(|architecture| architecture.check().is_ok()).find_map(|architecture| {
        let layout = architecture.layout();
        let timms: Vec<String> = layout.iter().map(|param| param.name.clone()).collect();
        let with_statistics = |has_batches| state_dict(architecture, has_batches);
        let orders = match architecture {
            Architecture::Vit(config) => vec![timms, torchvision(config.depth), hugging_face(config.depth)],
            _ => vec![timms, with_statistics(false), with_statistics(true)],
        };
        let names = orders.into_iter().find(|names| fits(names, shapes, architecture, &layout))?;
        Some((names, architecture.to_string()))
    })
}

fn fits(names: &[String], shapes: &[&[usize]], architecture: Architecture, layout: &ParamLayout) -> bool {
    let statistics = architecture.statistics();
    let expected = |name: &str| {
        let timm = super::names::timm(name);
        let param = layout.get(&timm.name).or_else(|| statistics.get(&timm.name));
        let mut shape = param.map(|param| param.shape.clone()).unwrap_or_default();
        if timm.third.is_some()
            && let Some(rows) = shape.first_mut()
        {
            *rows /= 3;
        }
        shape
    };
    names.len() == shapes.len() && names.iter().zip(shapes).all(|(name, shape)| expected(name) == *shape)
}

/// The ViT whose tensors have these shapes, as far as its input and its number of tensors tell, with so many tensors in a
/// block.
fn vit(shapes: &[&[usize]], in_block: usize) -> Option<VitConfig> {
    let (dim, patch) = shapes.iter().find_map(|shape| match **shape {
        [dim, VitConfig::CHANNELS, patch, width] if patch == width => Some((dim, patch)),
        _ => None,
    })?;
    let tokens = shapes.iter().find_map(|shape| match **shape {
        [1, tokens, columns] if columns == dim && tokens > 1 => Some(tokens),
        _ => None,
    })?;
    let grid = (tokens - 1).isqrt();
    let classes = *shapes.last()?.first()?;
    let blocks = shapes.len().checked_sub(OUTSIDE).filter(|blocks| blocks.is_multiple_of(in_block))?;
    let config = VitConfig {
        image: grid.checked_mul(patch)?,
        patch,
        dim,
        depth: Some(blocks / in_block).filter(|depth| *depth > 0)?,
        heads: 1,
        classes,
        april_block: false,
        mlp: None,
    };
    Architecture::Vit(config).check().is_ok().then_some(config)
}

/// Whether the first tensor is this network's. The others take long to compare.
fn has_stem(shapes: &[&[usize]], spec: &ResnetSpec) -> bool {
    let (channels, kernel) = (spec.config.stem_channels(), spec.config.stem.kernel());
    shapes.first() == Some(&&[channels, VitConfig::CHANNELS, kernel, kernel][..])
}

fn lenet(shapes: &[&[usize]]) -> Option<LenetConfig> {
    let (&&[width, ..], &&[classes, features]) = (shapes.first()?, shapes.get(shapes.len().checked_sub(2)?)?) else {
        return None;
    };
    let side = (features / width.max(1)).isqrt() * LenetConfig::STRIDES.iter().product::<usize>();
    let config = LenetConfig { width, side, classes };
    Architecture::Lenet(config).check().is_ok().then_some(config)
}

fn torchvision(depth: usize) -> Vec<String> {
    const FRONT: [&str; 4] = ["class_token", "conv_proj.weight", "conv_proj.bias", "encoder.pos_embedding"];
    const BLOCK: [&str; 12] = [
        "ln_1.weight",
        "ln_1.bias",
        "self_attention.in_proj_weight",
        "self_attention.in_proj_bias",
        "self_attention.out_proj.weight",
        "self_attention.out_proj.bias",
        "ln_2.weight",
        "ln_2.bias",
        "mlp.0.weight",
        "mlp.0.bias",
        "mlp.3.weight",
        "mlp.3.bias",
    ];
    const BACK: [&str; 4] = ["encoder.ln.weight", "encoder.ln.bias", "heads.head.weight", "heads.head.bias"];
    with_blocks(&FRONT, "encoder.layers.encoder_layer_", &BLOCK, depth, &BACK)
}

fn hugging_face(depth: usize) -> Vec<String> {
    const FRONT: [&str; 4] = [
        "embeddings.cls_token",
        "embeddings.position_embeddings",
        "embeddings.patch_embeddings.projection.weight",
        "embeddings.patch_embeddings.projection.bias",
    ];
    const BLOCK: [&str; 16] = [
        "attention.attention.query.weight",
        "attention.attention.query.bias",
        "attention.attention.key.weight",
        "attention.attention.key.bias",
        "attention.attention.value.weight",
        "attention.attention.value.bias",
        "attention.output.dense.weight",
        "attention.output.dense.bias",
        "intermediate.dense.weight",
        "intermediate.dense.bias",
        "output.dense.weight",
        "output.dense.bias",
        "layernorm_before.weight",
        "layernorm_before.bias",
        "layernorm_after.weight",
        "layernorm_after.bias",
    ];
    const BACK: [&str; 4] = ["layernorm.weight", "layernorm.bias", "classifier.weight", "classifier.bias"];
    with_blocks(&FRONT, "encoder.layer.", &BLOCK, depth, &BACK)
}

fn with_blocks(front: &[&str], blocks: &str, block: &[&str], depth: usize, back: &[&str]) -> Vec<String> {
    let within = (0..depth).flat_map(|number| block.iter().map(move |name| format!("{blocks}{number}.{name}")));
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    own(front).into_iter().chain(within).chain(own(back)).collect()
}

#[cfg(test)]
mod tests {
    use safetensors::Dtype;
    use unmask_core::VitPreset;

    use super::*;
    use crate::index::{Place, row_major};

    fn numbered(shapes: &[Vec<usize>], name: impl Fn(usize) -> String) -> Vec<Stored> {
        let stored = |(place, shape): (usize, &Vec<usize>)| Stored {
            name: name(place),
            shape: shape.clone(),
            strides: row_major(shape),
            available: u64::MAX,
            dtype: Some(Dtype::F32),
            is_big_endian: false,
            shard: 0,
            type_name: String::new(),
            place: Place::Byte(0),
        };
        shapes.iter().enumerate().map(stored).collect()
    }

    fn shapes(architecture: Architecture, order: &[String]) -> Vec<Vec<usize>> {
        let (layout, statistics) = (architecture.layout(), architecture.statistics());
        let shape = |name: &String| {
            let timm = crate::names::timm(name);
            let param = layout.get(&timm.name).or_else(|| statistics.get(&timm.name)).unwrap();
            let mut shape = param.shape.clone();
            shape[0] /= if timm.third.is_some() { 3 } else { 1 };
            shape
        };
        order.iter().map(shape).collect()
    }

    #[test]
    fn numbered_tensors_are_named_by_the_order_of_their_shapes() {
        let config = VitConfig { depth: 3, classes: 7, ..VitPreset::Pico.into() };
        let vit = Architecture::Vit(config);
        let timms: Vec<String> = vit.layout().iter().map(|param| param.name.clone()).collect();
        let resnet = Architecture::Resnet(ResnetSpec { classes: 5, ..ResnetPreset::Nano.into() });
        let lenet = Architecture::Lenet(LenetConfig { classes: 4, ..LenetConfig::NAMED[0] });
        for (architecture, order) in [
            (vit, timms),
            (vit, torchvision(3)),
            (vit, hugging_face(3)),
            (resnet, state_dict(resnet, false)),
            (lenet, state_dict(lenet, false)),
        ] {
            let shapes = shapes(architecture, &order);
            let (names, note) = names(&numbered(&shapes, |place| format!("arr_{place}"))).unwrap();
            assert_eq!(names, order);
            assert!(note.contains("numbered, not named"), "{note}");
            let backwards: Vec<Vec<usize>> = shapes.iter().rev().cloned().collect();
            let from_the_end = |place: usize| (shapes.len() - 1 - place).to_string();
            let (names, _) = super::names(&numbered(&backwards, from_the_end)).unwrap();
            assert_eq!(names.into_iter().rev().collect::<Vec<_>>(), order, "by number, not by place");
            assert_eq!(super::names(&numbered(&backwards, |place| place.to_string())), None);
        }
        assert_eq!(names(&numbered(&[vec![1], vec![1]], |place| format!("w{place}"))), None);
        assert_eq!(names(&numbered(&[vec![1], vec![usize::MAX, 0]], |place| place.to_string())), None);
    }
}
