use crate::text::named;

/// The function between the two layers of a block's MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activation {
    /// x Phi(x), as in every ViT here.
    #[default]
    Gelu,
    /// max(x, 0)
    Relu,
    /// x sigma(1.702 x), as in CLIP.
    QuickGelu,
}

named!(Activation {
    Gelu = "GELU",
    Relu = "ReLU",
    QuickGelu = "QuickGELU",
});
