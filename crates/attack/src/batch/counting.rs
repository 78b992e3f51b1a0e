//! How many pictures can be taken apart, and how many there are.

use unmask_core::VitConfig;

use crate::{AttackError, BatchSize, Evidence, batch_size, needs::Needs, span::GoOn};

/// The largest batch that `batch` can take apart on this model: the largest B with B (S + 1) < D tokens, so that they
/// are independent, and B S < D and B S < L patches. 0 if not even one fits.
pub fn most_pictures(config: &VitConfig) -> usize {
    let (dim, len) = (config.dim, config.patch_len());
    let by_tokens = dim.saturating_sub(1) / config.tokens();
    by_tokens.min(dim.min(len).saturating_sub(1) / config.patches())
}

/// Most memory for the refinement of one picture.
const MOST_BYTES: usize = 6 << 30;

/// Memory that refining one picture of a batch takes, in bytes: normal equations in (B - 1) S S unknowns, three times,
/// and the slopes of D (S + 1) values by them.
pub(crate) fn refinement_bytes(config: &VitConfig, batch: usize) -> usize {
    let unknowns = batch.saturating_sub(1).saturating_mul(config.patches().pow(2));
    let values = unknowns.saturating_mul(3).saturating_add(config.dim * config.tokens());
    unknowns.saturating_mul(values).saturating_mul(size_of::<f64>())
}

/// Reads B off the rank of the last block's gradient, completed behind a mask, and refuses what counting rules out.
///
/// # Errors
/// [`AttackError`]: the model or the gradient cannot be taken apart, or the batch is too large for the model.
pub(super) fn count(evidence: &Evidence, go_on: GoOn<'_>) -> Result<usize, AttackError> {
    let config = evidence.gradients.vit()?;
    let refused = |reason: String| Err(AttackError::BatchExcluded { reason });
    if config.april_block {
        return refused(
            "block 0 is an April block, which has no residual; use april, or a model with a standard block".to_owned(),
        );
    }
    if config.depth < 2 {
        return refused(format!(
            "the model has a depth of {}, and in its last block only class tokens reach the MLP; attack a model of two blocks \
             or more",
            config.depth,
        ));
    }
    for name in Needs::of_batch(evidence.gradients.model())?.gradients.required {
        if evidence.gradients.get(&name)?.iter().all(|&value| value == 0.0) {
            return refused(format!("the gradient \"{name}\" is all zero: it holds nothing of the pictures"));
        }
    }
    let most = most_pictures(&config);
    let shape = |config: &VitConfig| {
        format!(
            "B pictures have B x {} tokens, which must stay below the width D = {}, and B x {} patches, which must stay below \
             D and the patch length L = {}",
            config.tokens(),
            config.dim,
            config.patches(),
            config.patch_len(),
        )
    };
    if most == 0 {
        return refused(format!("no batch of {} can be: {}", config.name(), shape(&config)));
    }
    let size = batch_size(&evidence.gradients, go_on)?;
    let batch = size.seen();
    if batch > most {
        let at_least = if matches!(size, BatchSize::AtLeast(_)) { "at least " } else { "" };
        // Noise raises the rank too, so that counting alone does not exclude the attack.
        return Err(AttackError::BatchUnsolved {
            reason: format!(
                "the gradient of the last block has a rank of {at_least}{batch}: that many pictures, or noise; on {} at most \
                 {most} can be told apart: {}",
                config.name(),
                shape(&config),
            ),
        });
    }
    let bytes = refinement_bytes(&config, batch);
    if bytes > MOST_BYTES {
        return refused(format!(
            "refining one of {batch} pictures on {} would take {} GB of memory, and the limit is {} GB",
            config.name(),
            bytes >> 30,
            MOST_BYTES >> 30,
        ));
    }
    Ok(batch)
}

/// Goes on for ever.
#[cfg(test)]
pub(super) fn always() -> std::ops::ControlFlow<()> {
    std::ops::ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;
    use crate::{Rounding, batch::cases::case};

    #[test]
    fn counting_gives_what_was_measured() {
        let most = |preset: VitPreset| most_pictures(&preset.into());
        assert_eq!(most(VitPreset::NanoPatch8), 5);
        assert_eq!(most(VitPreset::LabPatch8), 11);
        assert_eq!(most(VitPreset::SmallPatch32), 7);
        assert_eq!(most(VitPreset::Small), 1);
        assert_eq!([VitPreset::Nano, VitPreset::Lab].map(most), [0, 0], "a patch of 4 x 4 pixels has 48 values");
    }

    #[test]
    fn what_counting_rules_out_is_refused_in_words() {
        let refusal = |config: VitConfig, pictures: usize| {
            let case =
                case(&config, &[0, 1, 2, 3, 4, 5][..pictures], &[0, 1, 2, 3, 4, 5][..pictures], 1, Rounding::F32);
            count(&case.evidence, &mut always).unwrap_err().to_string()
        };
        let nano: VitConfig = VitPreset::NanoPatch8.into();
        let said = refusal(nano, 6);
        assert!(said.contains("rank of 6") && said.contains("at most 5"), "{said}");
        let said = refusal(VitConfig { depth: 1, ..nano }, 2);
        assert!(said.contains("depth of 1"), "{said}");
        let said = refusal(VitPreset::Nano.into(), 1);
        assert!(said.contains("L = 48"), "{said}");
        let said = refusal(nano.with_april_block(true), 2);
        assert!(said.contains("April"), "{said}");
    }
}
