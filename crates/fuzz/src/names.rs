//! Names of tensors and of files, as the readers know them.

use arbitrary::{Result, Unstructured};

/// Parts of known names: a fuzzer would take long to spell them.
const PARTS: [&str; 64] = [
    "weight",
    "bias",
    "blocks.",
    "0.",
    "1.",
    "2.",
    "65535.",
    "attn.qkv.",
    "attn.proj.",
    "norm.",
    "norm1.",
    "norm2.",
    "mlp.fc1.",
    "mlp.fc2.",
    "head.",
    "fc.",
    "cls_token",
    "pos_embed",
    "patch_embed.proj.weight",
    "conv1.weight",
    "conv1.bias",
    "layer1.0.conv1.weight",
    "layer1.0.conv3.weight",
    "module.",
    "model.",
    "_orig_mod.",
    "_fsdp_wrapped_module.",
    "vit.",
    "resnet.",
    "encoder.",
    "layer.",
    "layers.",
    "stages.",
    "convolution.",
    "shortcut.",
    "normalization.",
    "attention.attention.query.",
    "attention.attention.key.",
    "attention.attention.value.",
    "attention.q_proj.",
    "attention.k_proj.",
    "attention.v_proj.",
    "embeddings.",
    "position_embedding.weight",
    "patch_embedding.weight",
    "positional_embedding",
    "visual.",
    "pre_layrnorm.weight",
    "reg_token",
    "register_tokens",
    "dist_token",
    "head_dist.",
    "fc_norm.weight",
    "classifier.",
    "linear.",
    "body.0.weight",
    "to_patch_embedding.1.weight",
    "running_mean",
    "arr_",
    "archive/",
    "data.pkl",
    "data/",
    "byteorder",
    "constants.pkl",
];

/// The first byte that stands for a part. Those below are ASCII.
const FIRST: u8 = 0x80;

/// Reads a length and as many bytes: letters, and numbers of parts.
pub(crate) fn read(bytes: &mut Unstructured<'_>) -> Result<String> {
    let length: u8 = bytes.arbitrary()?;
    let spelt = bytes.bytes(usize::from(length).min(bytes.len()))?;
    let mut name = String::new();
    for &byte in spelt {
        match byte.checked_sub(FIRST) {
            None => name.push(char::from(byte)),
            Some(part) => name.push_str(PARTS[usize::from(part) % PARTS.len()]),
        }
    }
    Ok(name)
}

/// The bytes that [`read`] reads as an ASCII name.
pub(crate) fn spelt(name: &str) -> Vec<u8> {
    let length = u8::try_from(name.len()).expect("a short name");
    [&[length], name.as_bytes()].concat()
}
