//! The position of each parameter in the flat vector.

use std::{fmt, ops::Range, str::FromStr};

use serde::{Deserialize, Serialize};

/// The parameter groups with rates and update counts of their own in the papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamGroup {
    /// Patch embedding and class token.
    Patch,
    Position,
    /// q, k, v and output projection.
    Attention,
    /// Both layers of the MLP.
    Mlp,
    /// LayerNorm and batch norm.
    Norm,
    Head,
    /// Filters of a convolutional network, including those on a ResNet's shortcuts, and a LeNet's convolution biases.
    Conv,
}

impl ParamGroup {
    /// All groups in display order.
    pub const ALL: [Self; 7] =
        [Self::Patch, Self::Position, Self::Attention, Self::Mlp, Self::Norm, Self::Head, Self::Conv];

    /// The groups of a Vision Transformer in display order.
    pub const VIT: [Self; 6] = [Self::Patch, Self::Position, Self::Attention, Self::Mlp, Self::Norm, Self::Head];

    pub const RESNET: [Self; 3] = [Self::Conv, Self::Norm, Self::Head];

    pub fn title(self) -> &'static str {
        match self {
            Self::Patch => "patch embedding",
            Self::Position => "position embedding",
            Self::Attention => "attention",
            Self::Mlp => "MLP",
            Self::Norm => "norm",
            Self::Head => "head",
            Self::Conv => "convolution",
        }
    }

    /// Short name in the string form of rates, such as `pos` in `pos=0.95`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Patch => "patch",
            Self::Position => "pos",
            Self::Attention => "attn",
            Self::Mlp => "mlp",
            Self::Norm => "norm",
            Self::Head => "head",
            Self::Conv => "conv",
        }
    }

    fn of(name: &str) -> Self {
        if name == "pos_embed" {
            Self::Position
        } else if name == "cls_token" || name.starts_with("patch_embed.") {
            Self::Patch
        } else if name.contains(".attn.") {
            Self::Attention
        } else if name.contains(".mlp.") {
            Self::Mlp
        } else if name.starts_with("head.") || name.starts_with("fc.") {
            Self::Head
        } else if name.contains("conv") || name.ends_with("downsample.0.weight") {
            Self::Conv
        } else {
            Self::Norm
        }
    }
}

impl fmt::Display for ParamGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no parameter group \"{0}\"; the groups are patch, pos, attn, mlp, norm, head and conv")]
pub struct UnknownGroup(String);

impl FromStr for ParamGroup {
    type Err = UnknownGroup;

    fn from_str(text: &str) -> Result<Self, UnknownGroup> {
        Self::ALL.into_iter().find(|group| group.key() == text).ok_or_else(|| UnknownGroup(text.to_owned()))
    }
}

/// One named tensor inside the flat vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Name as in timm and torchvision.
    pub name: String,
    /// Row-major shape.
    pub shape: Vec<usize>,
    pub range: Range<usize>,
    pub group: ParamGroup,
}

/// Order, names and shapes of all parameters in a model's flat vector, in timm's state-dict order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamLayout {
    params: Vec<Param>,
}

impl ParamLayout {
    pub(crate) fn empty() -> Self {
        Self { params: Vec::new() }
    }

    pub(crate) fn push(&mut self, name: String, shape: &[usize]) {
        let start = self.len();
        let group = ParamGroup::of(&name);
        self.params.push(Param {
            name,
            shape: shape.to_vec(),
            range: start..start + shape.iter().product::<usize>(),
            group,
        });
    }

    /// Number of values P in the flat vector.
    pub fn len(&self) -> usize {
        self.params.last().map_or(0, |param| param.range.end)
    }

    pub fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Param> {
        self.params.iter()
    }

    pub fn get(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.name == name)
    }

    /// The values of parameter `name` in a flat vector of this layout; `None` if there is no such parameter or the
    /// vector is too short.
    pub fn slice<'a, T>(&self, flat: &'a [T], name: &str) -> Option<&'a [T]> {
        flat.get(self.get(name)?.range.clone())
    }

    pub fn has_group(&self, group: ParamGroup) -> bool {
        self.params.iter().any(|param| param.group == group)
    }

    pub fn group_ranges(&self, group: ParamGroup) -> impl Iterator<Item = Range<usize>> + '_ {
        self.params.iter().filter(move |param| param.group == group).map(|param| param.range.clone())
    }
}

impl<'a> IntoIterator for &'a ParamLayout {
    type Item = &'a Param;
    type IntoIter = std::slice::Iter<'a, Param>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, VitPreset};

    /// The counts are those of the timm models of the same names with ten classes.
    #[test]
    fn counts_agree_with_timm() {
        let count = |preset| Architecture::from(preset).layout().len();
        assert_eq!(count(VitPreset::Tiny), 5_526_346);
        assert_eq!(count(VitPreset::Small), 21_669_514);
        assert_eq!(count(VitPreset::SmallPatch32), 22_497_802);
    }

    #[test]
    fn ranges_tile_the_vector() {
        for preset in VitPreset::ALL {
            for april_block in [false, true] {
                let layout = Architecture::from(preset).with_april_block(april_block).layout();
                let mut end = 0;
                for param in &layout {
                    assert_eq!(param.range.start, end);
                    assert_eq!(param.range.len(), param.shape.iter().product::<usize>());
                    end = param.range.end;
                }
                assert_eq!(end, layout.len());
                let grouped: usize =
                    ParamGroup::ALL.iter().flat_map(|&group| layout.group_ranges(group)).map(|range| range.len()).sum();
                assert_eq!(grouped, layout.len());
                assert_eq!(layout.get("blocks.0.norm1.weight").is_none(), april_block);
            }
        }
    }
}
