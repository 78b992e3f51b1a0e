//! In a real browser's dedicated worker: the model computes what PyTorch computes, on the CPU and on WebGPU, and a seed
//! gives the mask that it gives natively.
#![cfg(all(target_family = "wasm", feature = "train"))]

use unmask_defence::{Defence, Mask, MaskSeed, ProtectedUpdate, ZeroRate};
use unmask_model::{
    device::{Compute, open, probe},
    parity,
};
use unmask_params::{ModelSpec, ParamLayout, Preset};
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

async fn check_parity(compute: Compute) {
    let device = open(compute).await.unwrap();
    if let Err(error) = parity::check(device.device()).await {
        panic!("{}: {error}", device.description());
    }
}

#[wasm_bindgen_test]
async fn parity_on_the_cpu() {
    check_parity(Compute::Cpu).await;
}

#[wasm_bindgen_test]
async fn parity_on_webgpu() {
    check_parity(Compute::Gpu).await;
}

/// The tests' Chromium emulates WebGPU in software, and a tab must not fall for it.
#[wasm_bindgen_test]
async fn an_emulated_adapter_loses_against_the_cpu() {
    let probe = probe(ModelSpec::new(Preset::VitPicoPatch4_16), 1).await.unwrap();
    assert_eq!(probe.device.compute(), Compute::Cpu, "{}", probe.reason);
    assert!(probe.cpu_ms > 0.0);
}

#[wasm_bindgen_test]
fn masks_are_those_of_the_native_client() {
    let words: String = Mask::new(MaskSeed([7; 32]), ZeroRate::new(0.3).unwrap(), 1000)
        .map(|(word, _)| format!("{word:016x}\n"))
        .collect();
    assert_eq!(words, include_str!("../../defence/testdata/mask_words.txt"));
}

#[wasm_bindgen_test]
fn masked_update_keeps_what_its_mask_keeps() {
    let layout = ParamLayout::vit(&ModelSpec::new(Preset::VitPicoPatch4_16).config());
    let plain: Vec<f32> = (0..layout.len()).map(|i| i as f32 + 1.0).collect();
    let defence: Defence = "random-binary:0.5".parse().unwrap();
    let update = defence.protect(&layout, plain.clone(), MaskSeed([7; 32]));
    assert!(matches!(update, ProtectedUpdate::Masked { .. }));
    let sent = update.expand(layout.len()).unwrap();
    let kept = sent.iter().filter(|value| **value != 0.0).count() as f64;
    assert!(sent.iter().zip(&plain).all(|(sent, plain)| *sent == 0.0 || sent == plain));
    let half = layout.len() as f64 / 2.0;
    assert!((kept - half).abs() < 6.0 * (half / 2.0).sqrt(), "{kept} of {}", layout.len());
}
