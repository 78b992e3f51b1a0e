//! One client's gradient, computed in pieces that several threads can share.

use rayon::prelude::*;
use unmask_core::ModelState;
use unmask_model::{ModelError, Network, Step};

/// Values that are summed over all pieces before the next ones: their sums stay in the first cache.
const IN_CACHE: usize = 4096;
/// Pieces of a batch at most: the gradients of all of them are in memory together.
const MOST: usize = 4;
/// Pictures of a piece at least, so that its matrix products stay worth their start.
const LEAST: usize = 4;

/// [`Network::loss_and_gradient_blocking`], the mean over `images` `[batch, 3, side, side]` put together from means over
/// pieces: five clients on two threads would otherwise leave one of them waiting for the fifth. How a batch is cut and in
/// which order the pieces are added up depends on its length alone, and so the bits do.
///
/// Batch norm takes its moments over the whole batch: its models are not cut.
pub(crate) fn loss_and_gradient(
    network: &Network,
    state: &ModelState,
    images: &[f32],
    labels: &[usize],
) -> Result<Step, ModelError> {
    let pictures = labels.len().div_ceil(MOST).max(LEAST);
    if !network.architecture().statistics().is_empty() || labels.len() <= pictures {
        return network.loss_and_gradient_blocking(state, images, labels);
    }
    let values = images.len() / labels.len() * pictures;
    let pieces: Vec<(f32, Step)> = images
        .par_chunks(values)
        .zip(labels.par_chunks(pictures))
        .map(|(images, piece)| {
            let step = network.loss_and_gradient_blocking(state, images, piece)?;
            Ok((piece.len() as f32 / labels.len() as f32, step))
        })
        .collect::<Result<_, ModelError>>()?;
    let loss = pieces.iter().map(|(share, piece)| share * piece.loss).sum();
    let mut gradient = vec![0.0; state.weights.len()];
    for (at, sums) in gradient.chunks_mut(IN_CACHE).enumerate() {
        for (share, piece) in &pieces {
            let values = &piece.gradient[at * IN_CACHE..][..sums.len()];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += share * value);
        }
    }
    pieces.into_iter().for_each(|(_, piece)| network.recycle(piece.gradient));
    Ok(Step { loss, gradient, statistics: Vec::new() })
}

#[cfg(test)]
mod tests {
    use unmask_core::Architecture;
    use unmask_model::device::OpenDevice;

    use super::*;

    #[test]
    fn pieces_make_the_gradient_of_the_batch() {
        for (name, pictures) in [("vit_pico_patch4_16", 11), ("vit_pico_patch4_16", 3), ("resnet_nano", 8)] {
            let architecture = Architecture::named(name, 10).unwrap();
            let network = Network::new(architecture, OpenDevice::cpu().device()).unwrap();
            let state = architecture.initial(1);
            let values = pictures * 3 * architecture.side() * architecture.side();
            let images: Vec<f32> = (0..values).map(|i| (i * i % 251) as f32 / 250.0).collect();
            let labels: Vec<usize> = (0..pictures).map(|i| i % 10).collect();
            let whole = network.loss_and_gradient_blocking(&state, &images, &labels).unwrap();
            let pieced = loss_and_gradient(&network, &state, &images, &labels).unwrap();
            assert!((whole.loss - pieced.loss).abs() < 1e-6 * whole.loss, "{name}: {} {}", whole.loss, pieced.loss);
            assert_eq!(whole.statistics, pieced.statistics, "{name}");
            let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
            let apart = norm(&mut whole.gradient.iter().zip(&pieced.gradient).map(|(a, b)| a - b));
            let length = norm(&mut whole.gradient.iter().copied());
            assert!(apart < 1e-5 * length, "{name}, {pictures}: {apart} of {length}");
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused_in_pieces_too() {
        let architecture = Architecture::named("vit_pico_patch4_16", 10).unwrap();
        let network = Network::new(architecture, OpenDevice::cpu().device()).unwrap();
        let images = vec![0.5; 9 * 3 * architecture.side() * architecture.side()];
        let short = ModelState { weights: vec![0.0; 3], statistics: Vec::new() };
        assert!(loss_and_gradient(&network, &short, &images, &[0; 9]).is_err());
    }
}
