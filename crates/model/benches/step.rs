//! Time of one training step (loss, gradient, read-back) on the CPU: `cargo bench -p unmask-model`.
//!
//! A plain loop: criterion would change features of what Burn stands on, and compile its GPU half once more.

use std::{hint::black_box, time::Instant};

use unmask_model::{Vit, device::OpenDevice};
use unmask_params::{InitOptions, ModelSpec, Preset, VitConfig, initial_weights};

const SAMPLES: usize = 15;

fn main() {
    for preset in [Preset::VitPicoPatch4_16, Preset::VitNanoPatch4_32, Preset::VitLabPatch4_32] {
        for batch in [1, 16] {
            let vit = Vit::new(ModelSpec::new(preset), OpenDevice::cpu().device()).expect("a preset is a model");
            let config = vit.config();
            let weights = initial_weights(config, 1, InitOptions::default());
            let image_len = VitConfig::CHANNELS * config.image * config.image;
            let images: Vec<f32> = (0..batch * image_len).map(|i| (i % 251) as f32 / 250.0).collect();
            let labels: Vec<usize> = (0..batch).map(|i| i % config.classes).collect();
            let mut milliseconds: Vec<f64> = (0..SAMPLES)
                .map(|_| {
                    let start = Instant::now();
                    black_box(vit.loss_and_gradient_blocking(&weights, &images, &labels).expect("a step"));
                    start.elapsed().as_secs_f64() * 1e3
                })
                .collect();
            milliseconds.sort_by(f64::total_cmp);
            let (fastest, median) = (milliseconds[0], milliseconds[SAMPLES / 2]);
            println!("{preset}, batch {batch}: median {median:.2} ms, fastest {fastest:.2} ms");
        }
    }
}
