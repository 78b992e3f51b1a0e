//! Batches taken apart.

mod assignment;
mod block;
#[cfg(test)]
mod cases;
mod inputs;
mod mlp;
mod parallel;
mod patch_space;
mod places;
mod refine;
mod tokens;

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use faer::Mat;
    use unmask_core::{VitConfig, VitPreset};

    use super::{block::Block, cases::case, inputs::inputs, mlp::MlpSpans, patch_space::PatchSpace, tokens::{Tolerance, find}};
    use crate::{Rounding, reconstruction::patches_of};

    #[test]
    #[ignore]
    fn look() {
        let preset = if std::env::var("NANO").is_ok() { VitPreset::NanoPatch8 } else { VitPreset::LabPatch8 };
        let b: usize = std::env::var("B").map_or(2, |b| b.parse().unwrap());
        let seed: u64 = std::env::var("SEED").map_or(1, |b| b.parse().unwrap());
        let rounding = if std::env::var("F64").is_ok() { Rounding::F64 } else { Rounding::F32 };
        let config: VitConfig = preset.into();
        let which: Vec<usize> = (0..b).collect();
        let labels: Vec<usize> = (0..b).map(|k| (3 * k) % 10).collect();
        let case = case(&config, &which, &labels, seed, rounding);
        let clock = std::time::Instant::now();
        let block = Block::read(&case.evidence.weights).unwrap();
        let spans = MlpSpans::read(&block, &case.evidence.gradients, b * config.tokens()).unwrap().unwrap();
        println!("{:?} {:?}", spans.singular.first(), spans.singular.last());
        let tolerance = if rounding == Rounding::F64 { Tolerance { activation: 1e-7, dual: 1e-5 } } else { Tolerance { activation: 1e-2, dual: 0.1 } };
        let tokens = find(&spans, tolerance, 7, &mut |_, _| ControlFlow::Continue(()));
        println!("{:?}, {} starts, {} found, {:.1} s", tokens.ending, tokens.starts, tokens.found.len(), clock.elapsed().as_secs_f64());
        let inputs = inputs(&block, &spans, &tokens.found, &case.evidence.gradients).unwrap();
        let space = PatchSpace::read(&case.evidence.weights, &case.evidence.gradients, b).unwrap();
        let (place_of, distances) = super::places::places(&space, &inputs, b);
        println!("distances {:.1e}", distances.iter().fold(0.0, |a: f64, b| a.max(*b)));
        let (z, coordinates) = super::places::denoised(&space, &inputs, &place_of);
        let pictures = super::places::pictures(&block, &inputs, &z, &place_of, b).unwrap();
        println!("grouped {:.1} s", clock.elapsed().as_secs_f64());
        let truths: Vec<Mat<f64>> = case.pictures.iter().map(|p| patches_of(p, &config)).collect();
        let psnr = |square: f64| -10.0 * (square / (config.patches() * config.patch_len()) as f64 / 4.0).log10();
        for places in &pictures {
            let start = Mat::from_fn(space.freedom(), space.positions(), |row, n| places[n + 1].map_or(0.0, |k| coordinates[k][(row, 0)]));
            let refined = super::refine::refine(&block, &space, &inputs, places, start.clone());
            let error = |truth: &Mat<f64>, at: &Mat<f64>| -> Vec<f64> {
                (0..space.positions()).map(|n| (space.patch(n, at.as_ref().subcols(n, 1)) - truth.as_ref().subrows(n, 1).transpose()).squared_norm_l2()).collect()
            };
            let best = truths.iter().min_by(|a, b| error(a, &refined.coordinates).iter().sum::<f64>().total_cmp(&error(b, &refined.coordinates).iter().sum())).unwrap();
            let wrong = error(best, &start).iter().filter(|e| **e > 1.0).count();
            println!("misfit {:.1e}; wrong patches {wrong}; closed {:.1} dB, refined {:.1} dB, residual {:.1e}, {:.1} s", super::places::misfit(&block, &inputs, &z, places),
                psnr(error(best, &start).iter().sum()), psnr(error(best, &refined.coordinates).iter().sum()), refined.residual, clock.elapsed().as_secs_f64());
        }
    }
}
