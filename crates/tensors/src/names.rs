//! Maps tensor names of torchvision's and Hugging Face's ViTs and ResNets and of wrapped models to timm's, and those of
//! a LeNet to this project's.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timm {
    pub(super) name: String,
    /// Which third of it this is, if a file stores q, k and v separately.
    pub(super) third: Option<usize>,
}

/// Prefixes from DataParallel, `torch.compile`, Opacus and training frameworks.
const WRAPPERS: [&str; 4] = ["module.", "_orig_mod.", "_module.", "model."];
/// What wrappers put in front of any module, also within a name.
const WRAPPERS_WITHIN: [&str; 3] = ["_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod."];
/// Names of the input layer in all known libraries. What stands before one of them is the name of the whole network
/// within a larger module.
const INPUT_LAYERS: [&str; 7] = [
    "patch_embed.proj.weight",
    "embeddings.patch_embeddings.projection.weight",
    "embeddings.patch_embedding.weight",
    "conv_proj.weight",
    "embedder.embedder.convolution.weight",
    CONVOLUTION,
    "body.0.weight",
];
const CONVOLUTION: &str = "conv1.weight";
/// Hugging Face's prefixes for the body of a model with a head.
const BODIES: [&str; 3] = ["vit.", "deit.", "resnet."];

/// Prefixes outside the blocks: theirs, and timm's.
const FRONTS: [(&str, &str); 24] = [
    // Hugging Face.
    ("embeddings.cls_token", "cls_token"),
    ("embeddings.distillation_token", "dist_token"),
    ("embeddings.position_embeddings", "pos_embed"),
    ("embeddings.patch_embeddings.projection.", "patch_embed.proj."),
    ("layernorm.", "norm."),
    ("embedder.embedder.convolution.", "conv1."),
    ("embedder.embedder.normalization.", "bn1."),
    ("classifier.1.", "fc."),
    ("classifier.", "head."),
    ("cls_classifier.", "head."),
    ("distillation_classifier.", "head_dist."),
    // CLIP, of Hugging Face and of OpenAI.
    ("embeddings.patch_embedding.", "patch_embed.proj."),
    ("embeddings.position_embedding.weight", "pos_embed"),
    ("positional_embedding", "pos_embed"),
    // torchvision.
    ("class_token", "cls_token"),
    ("conv_proj.", "patch_embed.proj."),
    ("encoder.pos_embedding", "pos_embed"),
    ("encoder.ln.", "norm."),
    ("heads.head.", "head."),
    // CIFAR's ResNets.
    ("linear.", "fc."),
    // The code of Deep Leakage from Gradients.
    ("body.0.", "conv1."),
    ("body.2.", "conv2."),
    ("body.4.", "conv3."),
    ("fc.0.", "fc."),
];

/// Prefixes of a ViT block's tensors, up to the block number: Hugging Face's up to version 4, version 5's, and
/// torchvision's.
const BLOCKS: [&str; 3] = ["encoder.layer.", "layers.", "encoder.layers.encoder_layer_"];

/// Prefixes after the block number, in the same order.
const IN_BLOCK: [(&str, &str); 21] = [
    ("layernorm_before.", "norm1."),
    ("layernorm_after.", "norm2."),
    ("attention.output.dense.", "attn.proj."),
    ("intermediate.dense.", "mlp.fc1."),
    ("output.dense.", "mlp.fc2."),
    ("attention.o_proj.", "attn.proj."),
    ("mlp.fc1.", "mlp.fc1."),
    ("mlp.fc2.", "mlp.fc2."),
    ("ln_1.", "norm1."),
    ("ln_2.", "norm2."),
    ("self_attention.in_proj_weight", "attn.qkv.weight"),
    ("self_attention.in_proj_bias", "attn.qkv.bias"),
    ("self_attention.out_proj.", "attn.proj."),
    ("mlp.0.", "mlp.fc1."),
    ("mlp.3.", "mlp.fc2."),
    ("mlp.linear_1.", "mlp.fc1."),
    ("mlp.linear_2.", "mlp.fc2."),
    // DINOv2 of Hugging Face.
    ("norm1.", "norm1."),
    ("norm2.", "norm2."),
    ("layer_scale1.lambda1", "ls1.gamma"),
    ("layer_scale2.lambda1", "ls2.gamma"),
];

/// Hugging Face's thirds of `attn.qkv`.
const THIRDS: [(&str, usize); 6] = [
    ("attention.attention.query.", 0),
    ("attention.attention.key.", 1),
    ("attention.attention.value.", 2),
    ("attention.q_proj.", 0),
    ("attention.k_proj.", 1),
    ("attention.v_proj.", 2),
];

/// Removes what wrappers have put anywhere into a name.
pub(super) fn unwrapped(name: &str) -> String {
    WRAPPERS_WITHIN.iter().fold(name.to_owned(), |name, wrapper| name.replace(wrapper, ""))
}

/// Returns what stands before the names of the networks in a file, such as `backbone.`: once for each network.
pub(super) fn fronts<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<&'a str> {
    for layer in INPUT_LAYERS {
        let before = |name: &'a str| {
            let front = name.strip_suffix(layer).filter(|front| front.is_empty() || front.ends_with('.'));
            front.filter(|front| layer != CONVOLUTION || !is_within_blocks(front))
        };
        let mut fronts: Vec<&str> = names.clone().filter_map(before).collect();
        fronts.sort_by_key(|front| front.len());
        let Some(&shortest) = fronts.first() else { continue };
        let depth = shortest.matches('.').count();
        fronts.retain(|front| front.matches('.').count() == depth);
        return fronts;
    }
    Vec::new()
}

/// Whether a front leads into a block, such as `layer1.0.`, in which a layer can have the same name.
fn is_within_blocks(front: &str) -> bool {
    const BLOCKS: [&str; 6] = ["layer", "layers", "block", "blocks", "stage", "stages"];
    front.split('.').any(|part| BLOCKS.contains(&part.trim_end_matches(|last: char| last.is_ascii_digit())))
}

/// Returns timm's name for a tensor. An unknown name only loses the known prefixes.
pub(super) fn timm(name: &str) -> Timm {
    let mut bare = name;
    while let Some(rest) = WRAPPERS.into_iter().find_map(|wrapper| bare.strip_prefix(wrapper)) {
        bare = rest;
    }
    bare = BODIES.into_iter().find_map(|body| bare.strip_prefix(body)).unwrap_or(bare);
    let whole = |name: String| Timm { name, third: None };
    if let Some((block, rest)) = numbered(bare, &BLOCKS) {
        let third = |(front, third)| Some((rest.strip_prefix(front)?, Some(third)));
        if let Some((rest, third)) = THIRDS.into_iter().find_map(third) {
            return Timm { name: format!("blocks.{block}.attn.qkv.{rest}"), third };
        }
        if let Some(rest) = replaced(rest, &IN_BLOCK) {
            return whole(format!("blocks.{block}.{rest}"));
        }
    }
    if let Some(name) = residual(bare) {
        return whole(name);
    }
    if bare.starts_with("layer") && bare.contains(".shortcut.") {
        return whole(bare.replace(".shortcut.", ".downsample."));
    }
    whole(replaced(bare, &FRONTS).unwrap_or_else(|| bare.to_owned()))
}

/// Maps Hugging Face's `encoder.stages.0.layers.1.layer.0.convolution.weight` to `layer1.1.conv1.weight`.
fn residual(name: &str) -> Option<String> {
    let (stage, rest) = numbered(name, &["encoder.stages."])?;
    let (block, rest) = numbered(rest, &["layers."])?;
    let place = format!("layer{}.{block}", stage + 1);
    if let Some(found) =
        replaced(rest, &[("shortcut.convolution.", "downsample.0."), ("shortcut.normalization.", "downsample.1.")])
    {
        return Some(format!("{place}.{found}"));
    }
    let (convolution, rest) = numbered(rest, &["layer."])?;
    let (conv, bn) = (format!("conv{}.", convolution + 1), format!("bn{}.", convolution + 1));
    Some(format!("{place}.{}", replaced(rest, &[("convolution.", &conv), ("normalization.", &bn)])?))
}

/// Splits off one of `fronts` and a number; returns the number and the rest after its dot. Rejects numbers with many
/// digits.
fn numbered<'a>(name: &'a str, fronts: &[&str]) -> Option<(u16, &'a str)> {
    let (number, rest) = fronts.iter().find_map(|front| name.strip_prefix(front))?.split_once('.')?;
    Some((number.parse().ok().filter(|&number| number < u16::MAX)?, rest))
}

fn replaced(name: &str, fronts: &[(&str, &str)]) -> Option<String> {
    fronts.iter().find_map(|(theirs, timms)| Some(format!("{timms}{}", name.strip_prefix(theirs)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_libraries_become_timms() {
        for (theirs, timms) in [
            ("module.blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.weight"),
            ("_orig_mod.module.pos_embed", "pos_embed"),
            ("model.head.bias", "head.bias"),
            ("layer1.0.conv1.weight", "layer1.0.conv1.weight"),
            ("vit.embeddings.patch_embeddings.projection.bias", "patch_embed.proj.bias"),
            ("embeddings.position_embeddings", "pos_embed"),
            ("deit.embeddings.distillation_token", "dist_token"),
            ("vit.encoder.layer.11.intermediate.dense.weight", "blocks.11.mlp.fc1.weight"),
            ("vit.encoder.layer.11.attention.output.dense.bias", "blocks.11.attn.proj.bias"),
            ("vit.encoder.layer.11.output.dense.bias", "blocks.11.mlp.fc2.bias"),
            ("vit.layers.3.attention.o_proj.weight", "blocks.3.attn.proj.weight"),
            ("vit.layers.3.mlp.fc2.weight", "blocks.3.mlp.fc2.weight"),
            ("layers.0.blocks.0.attn.qkv.weight", "layers.0.blocks.0.attn.qkv.weight"),
            ("vit.layernorm.weight", "norm.weight"),
            ("classifier.weight", "head.weight"),
            ("class_token", "cls_token"),
            ("encoder.pos_embedding", "pos_embed"),
            ("encoder.layers.encoder_layer_7.self_attention.in_proj_bias", "blocks.7.attn.qkv.bias"),
            ("encoder.layers.encoder_layer_7.mlp.3.weight", "blocks.7.mlp.fc2.weight"),
            ("encoder.ln.bias", "norm.bias"),
            ("heads.head.weight", "head.weight"),
            ("resnet.embedder.embedder.normalization.running_var", "bn1.running_var"),
            ("resnet.encoder.stages.3.layers.2.layer.1.convolution.weight", "layer4.2.conv2.weight"),
            ("resnet.encoder.stages.1.layers.0.shortcut.normalization.bias", "layer2.0.downsample.1.bias"),
            ("classifier.1.bias", "fc.bias"),
            ("module.body.4.bias", "conv3.bias"),
            ("fc.0.weight", "fc.weight"),
            ("encoder.layer.3.layer_scale1.lambda1", "blocks.3.ls1.gamma"),
            ("encoder.layer.3.norm2.bias", "blocks.3.norm2.bias"),
            ("embeddings.position_embedding.weight", "pos_embed"),
            ("module.linear.bias", "fc.bias"),
            ("layer2.0.shortcut.0.weight", "layer2.0.downsample.0.weight"),
            ("fc.weight", "fc.weight"),
            (
                "encoder.layer.99999999999999999999.output.dense.bias",
                "encoder.layer.99999999999999999999.output.dense.bias",
            ),
        ] {
            assert_eq!(timm(theirs), Timm { name: timms.to_owned(), third: None }, "{theirs}");
        }
        let wrapped = "_fsdp_wrapped_module.blocks.0._checkpoint_wrapped_module.attn.qkv.weight";
        assert_eq!(unwrapped(wrapped), "blocks.0.attn.qkv.weight");
        for key in ["deit.encoder.layer.2.attention.attention.key.bias", "vit.layers.2.attention.k_proj.bias"] {
            assert_eq!(timm(key), Timm { name: "blocks.2.attn.qkv.bias".to_owned(), third: Some(1) });
        }
    }

    #[test]
    fn networks_within_modules_have_fronts() {
        let of = |names: &[&'static str]| fronts(names.iter().copied());
        assert_eq!(of(&["net.body.patch_embed.proj.weight", "classifier.weight"]), ["net.body."]);
        assert_eq!(of(&["encoder.conv1.weight", "encoder.layer1.0.conv1.weight"]), ["encoder."]);
        assert_eq!(of(&["conv1.weight", "layer1.0.conv1.weight", "layer1.1.conv1.weight"]), [""]);
        assert!(of(&["head.weight"]).is_empty());
        assert!(of(&["layer1.0.conv1.weight", "layer1.1.conv1.weight", "fc.weight"]).is_empty(), "a frozen stem");
        let two = of(&["student.patch_embed.proj.weight", "teacher.patch_embed.proj.weight"]);
        assert_eq!(two, ["student.", "teacher."]);
    }
}
