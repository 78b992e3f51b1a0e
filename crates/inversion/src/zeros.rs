//! Why nothing of the picture arrived in an update, where that can be told.

use unmask_attack::{Rounding, Tensors};
use unmask_core::VitConfig;

const POSITION: &str = "pos_embed";
const PATCH: &str = "patch_embed.proj.weight";

fn is_zero(values: &[f64]) -> bool {
    values.iter().all(|value| *value == 0.0)
}

/// Why the gradient of the patches' positions is zero, as a clause; `None` if it is not, or is not there. `weights` are
/// those of the head, if given.
pub(crate) fn why(gradients: &Tensors, head: Option<&[f64]>) -> Option<String> {
    let VitConfig { dim, .. } = gradients.vit().ok()?;
    // The class token's row may have a gradient of its own.
    let patches = gradients.values(POSITION)?.get(dim..)?;
    if !is_zero(patches) {
        return None;
    }
    if gradients.values(PATCH).is_some_and(|values| !is_zero(values)) {
        return Some(
            "the gradient of the position embedding (pos_embed) is all zero, while that of the patch embedding is not: the \
             fixed-position defence or a frozen position embedding leaves that, and only the jigsaw can do without"
                .to_owned(),
        );
    }
    let nothing =
        "the gradients of the patch embedding and of its positions are all zero, so nothing of the picture arrived";
    Some(match head {
        Some(head) if is_zero(head) => {
            format!("{nothing}: the weights of the head are all zero, as torchvision begins, and let nothing through")
        }
        _ if gradients.rounding() == Rounding::F16 => {
            format!("{nothing}: the values are of f16, in which gradients below 6e-8 become zero")
        }
        _ => format!("{nothing}: a head of zeros, as torchvision begins, or frozen layers let nothing through"),
    })
}

#[cfg(test)]
mod tests {
    use unmask_attack::TensorSource;
    use unmask_core::{Architecture, VitPreset};

    use super::*;

    fn update(rounding: Rounding, is_zero: impl Fn(&str) -> bool) -> Tensors {
        let architecture = Architecture::from(VitPreset::Pico);
        let mut tensors = Tensors::new(TensorSource::Gradients, architecture, rounding);
        for param in architecture.layout().iter() {
            let value = if is_zero(&param.name) { 0.0 } else { 0.1 };
            tensors.insert(&param.name, &param.shape, vec![value; param.range.len()]).unwrap();
        }
        tensors
    }

    #[test]
    fn what_is_zero_is_looked_at_before_a_cause_is_named() {
        let only_head = |name: &str| !name.starts_with("head.");
        let of = |rounding, head: Option<&[f64]>| why(&update(rounding, only_head), head).unwrap();
        assert!(of(Rounding::F32, Some(&[0.0; 3])).contains("the weights of the head are all zero"));
        assert!(of(Rounding::F16, Some(&[0.1; 3])).contains("gradients below 6e-8"));
        assert!(of(Rounding::F32, None).contains("a head of zeros, as torchvision begins, or frozen layers"));
        let fixed = why(&update(Rounding::F32, |name| name == POSITION), None).unwrap();
        assert!(fixed.contains("the fixed-position defence or a frozen position embedding"), "{fixed}");
        assert_eq!(why(&update(Rounding::F32, |_| false), None), None);
    }
}
