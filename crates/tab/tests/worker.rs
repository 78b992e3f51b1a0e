//! Tests in a real browser's dedicated worker: the model matches PyTorch on the CPU and on WebGPU; local epochs end
//! where they end natively; masks and ciphertexts equal the native client's bit for bit.
#![cfg(all(target_family = "wasm", feature = "train"))]

#[path = "../../client/tests/client/golden/mod.rs"]
mod golden;
#[path = "../../model/tests/model/local_golden/mod.rs"]
mod local_golden;

use local_golden::Task;
use unmask_core::{Architecture, Defence, EncryptionStart, MaskSeed, ParamLayout, UpdateForm, VitPreset};
use unmask_defence::{Cipher, KeyMaterial, PlainUpdate, Protect, ProtectedUpdate, RoomKey};
use unmask_model::{
    Network,
    device::{Compute, open, probe},
    parity,
};
use wasm_bindgen_test::{console_log, wasm_bindgen_test, wasm_bindgen_test_configure};

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

/// Counts dispatches, submissions, writes and read-backs of a step on WebGPU. On a phone each takes time, whatever the
/// size of the model. docs/models.md has the numbers.
#[wasm_bindgen_test]
async fn a_step_on_webgpu_asks_no_more_of_the_device_than_stated() {
    const COUNT: &str = "self.asked = {};
        for (const [type, name] of [[GPUComputePassEncoder, 'dispatchWorkgroups'], [GPUQueue, 'submit'],
                [GPUQueue, 'writeBuffer'], [GPUBuffer, 'mapAsync']]) {
            const known = type.prototype[name];
            self.asked[name] = 0;
            type.prototype[name] = function (...given) {
                self.asked[name] += 1;
                return known.apply(this, given);
            };
        }";
    let device = open(Compute::Gpu).await.unwrap();
    let architecture = Architecture::from(VitPreset::Nano);
    let network = Network::new(architecture, device.device()).unwrap();
    let state = architecture.initial(1);
    let images = vec![0.5; 3 * architecture.side() * architecture.side()];
    let step = async || network.loss_and_gradient(&state, &images, &[3]).await.unwrap();
    // The first steps compile programs and choose among them.
    for _ in 0..3 {
        step().await;
    }
    js_sys::eval(COUNT).unwrap();
    let now = || js_sys::eval("performance.now()").unwrap().as_f64().unwrap();
    let begun = now();
    step().await;
    console_log!("{} ms a step", now() - begun);
    for (name, most) in [("dispatchWorkgroups", 585), ("submit", 21), ("writeBuffer", 74), ("mapAsync", 73)] {
        let count = js_sys::eval(&format!("self.asked.{name}")).unwrap().as_f64().unwrap();
        // On another adapter Burn may choose other programs for a matrix product.
        let (least, most) = (0.5 * f64::from(most), 1.1 * f64::from(most));
        assert!((least..=most).contains(&count), "{name}: {count} times, not {least} to {most}");
    }
}

/// The tests' Chromium emulates WebGPU in software; a tab must not use that.
#[wasm_bindgen_test]
async fn an_emulated_adapter_loses_against_the_cpu() {
    let probe = probe(Architecture::from(VitPreset::Pico), 1).await.unwrap();
    assert_eq!(probe.device.compute(), Compute::Cpu, "{}", probe.reason);
    assert!(probe.cpu_ms > 0.0);
}

#[wasm_bindgen_test]
async fn local_epochs_end_where_they_end_natively() {
    let device = open(Compute::Cpu).await.unwrap();
    let task = Task::new(device.device());
    let Task { network, state, images, labels, batch, epochs, rate } = &task;
    let trained = network.train_locally(state, images, labels, *batch, *epochs, *rate).await.unwrap();
    task.check(&trained).unwrap();
}

#[wasm_bindgen_test]
fn masks_are_those_of_the_native_client() {
    assert_eq!(golden::mask_words(), golden::MASK_WORDS);
}

#[wasm_bindgen_test]
fn cipher_is_that_of_the_native_client() {
    assert_eq!(golden::encryption_words(), golden::ENCRYPTION_WORDS);
}

fn layout() -> ParamLayout {
    Architecture::from(VitPreset::Pico).layout()
}

fn plain(layout: &ParamLayout) -> Vec<f32> {
    (0..layout.len()).map(|i| i as f32 + 1.0).collect()
}

fn protect(defence: &str, cipher: Option<&Cipher>) -> ProtectedUpdate {
    let (layout, defence) = (layout(), defence.parse::<Defence>().unwrap());
    let update = PlainUpdate { values: plain(&layout), reference: None };
    defence.protect(&layout, update, KeyMaterial { seed: MaskSeed([7; 32]), cipher }).unwrap()
}

#[wasm_bindgen_test]
fn masked_update_keeps_what_its_mask_keeps() {
    let layout = layout();
    let update = protect("random-binary:0.5", None);
    assert!(matches!(update.form, UpdateForm::Masked { .. }));
    let sent = update.expand(&layout).unwrap();
    let kept = sent.iter().filter(|value| **value != 0.0).count() as f64;
    assert!(sent.iter().zip(&plain(&layout)).all(|(sent, plain)| *sent == 0.0 || sent == plain));
    let half = layout.len() as f64 / 2.0;
    assert!((kept - half).abs() < 6.0 * (half / 2.0).sqrt(), "{kept} of {}", layout.len());
}

#[wasm_bindgen_test]
fn encrypted_update_decrypts_to_the_plain_one() {
    let layout = layout();
    let key = RoomKey::derive("violet otter 1867", &[3; 16], EncryptionStart::Plain).unwrap();
    let cipher = Cipher::new(&key, &layout).unwrap();
    let ProtectedUpdate { form, mut values } = protect("encrypted", Some(&cipher));
    assert_eq!(form, UpdateForm::Encrypted { check: key.check() });
    assert_ne!(values, plain(&layout));
    cipher.decrypt(&mut values).unwrap();
    let close = |(found, plain): (&f32, &f32)| (found - plain).abs() <= 1e-5 * plain.max(1e4);
    assert!(values.iter().zip(&plain(&layout)).all(close));
}
