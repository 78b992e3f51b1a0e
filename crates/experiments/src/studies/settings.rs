//! Settings that several studies share.

/// A smoke test of a ViT.
pub(super) const TINY_VIT: &[&str] = &[
    "model=vit_pico_patch4_16",
    "start=scratch",
    "data=generated",
    "schedule=constant",
    "train-slice=0..200",
    "clients=3",
    "batch=4",
    "rounds=4",
    "evaluate-every=2",
    "test-pictures=20",
];

/// A smoke test of a ResNet.
pub(super) const TINY_RESNET: &[&str] =
    &["data=generated", "schedule=constant", "clients=2", "batch=2", "rounds=2", "evaluate-every=1", "test-pictures=8"];

/// RBW's SGD rate; FLRSP uses a tenth of it.
pub(super) const PAPERS_RATE: f64 = 0.0001;

/// Ten epochs of all of CIFAR-10 in batches of 32, at [`PAPERS_RATE`].
pub(super) const PAPERS_VIT: &[&str] = &[
    "model=vit_small_patch16_224",
    // The pretrained weights replace this.
    "start=scratch",
    "train-slice=0..50000",
    "optimiser=sgd:0.0001",
    "schedule=constant",
    "batch=32",
    "epochs=10",
    "evaluate-every=313",
    "test-pictures=1000",
];

pub(super) const PAPERS_VIT_FROM_SCRATCH: &[&str] = &[
    "model=vit_small_patch16_224",
    "train-slice=0..50000",
    "optimiser=sgd:0.0001",
    "schedule=constant",
    "batch=32",
    "epochs=10",
    "evaluate-every=313",
    "test-pictures=1000",
];

pub(super) const PAPERS_RESNET: &[&str] = &[
    "model=resnet34",
    "train-slice=0..50000",
    "optimiser=sgd:0.0001",
    "schedule=constant",
    "batch=32",
    "epochs=10",
    "evaluate-every=313",
    "test-pictures=1000",
];
