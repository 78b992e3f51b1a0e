//! The attack on a batch as one of the methods.

use unmask_core::VitConfig;

use super::{Batch, GradientOf};
use crate::{
    AttackError, AttackProgress, Needs, Observation, OnProgress, Recovered, Rounding, Searches, TensorSource, Tensors,
    WholeUpdate,
};

/// Takes the batch apart. Where `searches` can run the whole model, certain pictures are subtracted from the update, and
/// the rest is taken apart again.
pub(crate) fn whole_batch(
    observation: &Observation,
    searches: &dyn Searches,
    progress: OnProgress<'_>,
) -> Result<Recovered, AttackError> {
    if observation.encryption.is_some() {
        return Err(AttackError::CipherText);
    }
    let evidence = observation.evidence()?;
    let model = evidence.gradients.model();
    let names = Needs::of_batch(model)?.gradients.required;
    let values = model.vit()?.image.pow(2) * VitConfig::CHANNELS;
    let can_run = |whole: &&WholeUpdate| searches.gradient(whole, &[0], &vec![0.5; values]).is_ok();
    let whole = observation.whole.as_deref().filter(can_run);
    let layout = model.layout();
    let mut own = |label: usize, picture: &[f32]| {
        let flat = searches.gradient(whole.ok_or(AttackError::NoModel)?, &[label], picture)?;
        let mut own = Tensors::new(TensorSource::Gradients, model, Rounding::F32);
        for param in layout.iter().filter(|param| names.contains(&param.name)) {
            own.insert(&param.name, &param.shape, flat[param.range.clone()].to_vec())?;
        }
        Ok(own)
    };
    let own: Option<GradientOf<'_>> = if whole.is_some() { Some(&mut own) } else { None };
    let Batch { pictures, progress: reached, ending, notes, .. } =
        super::batch(evidence, observation.levels, own, &mut |at| {
            progress(AttackProgress {
                iteration: at.found,
                iterations: at.tokens,
                objective: (at.pictures - at.certain) as f64,
                pictures: &[],
            })
        })?;
    let is_whole = pictures.len() == reached.pictures;
    let labels = pictures.iter().map(|picture| picture.label).collect::<Option<Vec<usize>>>().filter(|_| is_whole);
    Ok(Recovered {
        pictures: pictures.into_iter().map(|picture| picture.image).collect(),
        seconds: 0.0,
        iterations: Some(reached.starts),
        objective: None,
        singular_ratio: None,
        ending,
        certain: Some(reached.certain),
        labels,
        notes,
    })
}
