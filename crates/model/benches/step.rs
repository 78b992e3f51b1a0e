//! Measures one training step (loss, gradient, read-back) on the CPU: `cargo bench -p unmask-model`.
//!
//! Set `RAYON_NUM_THREADS=1` to measure one thread. `step_pytorch.py` measures PyTorch on the same models, and
//! `cargo xtask bench-peers` alternates between the two. A plain loop instead of criterion, which would change features
//! of Burn's dependencies and compile its GPU half again.

mod serve;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use unmask_core::Architecture;
use unmask_model::{Network, device::OpenDevice};

const CASES: [(&str, usize); 7] = [
    ("vit_nano_patch4_32", 1),
    ("vit_nano_patch4_32", 16),
    ("vit_lab_patch4_32", 1),
    ("vit_tiny_patch16_224", 1),
    ("vit_small_patch16_224", 1),
    ("resnet_nano", 16),
    ("resnet34", 1),
];
/// Duration of each case, after the uncounted steps.
const LONG: Duration = Duration::from_secs(4);

fn prepare(name: &str, batch: usize) -> impl FnMut() + use<> {
    let architecture = Architecture::named(name, 10).expect("a preset has a name");
    let network = Network::new(architecture, OpenDevice::cpu().device()).expect("a preset is a model");
    let state = architecture.initial(1);
    let pixels = batch * 3 * architecture.side() * architecture.side();
    let images: Vec<f32> = (0..pixels).map(|i| (i % 251) as f32 / 250.0).collect();
    let labels: Vec<usize> = (0..batch).map(|i| i % architecture.classes()).collect();
    move || {
        let step = network.loss_and_gradient_blocking(&state, &images, &labels).expect("a step");
        network.recycle(black_box(step).gradient);
    }
}

fn main() {
    if serve::is_asked() {
        return serve::answer(prepare);
    }
    // Ignore options, such as cargo's own --bench.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, batch) in CASES {
        if !chosen.is_empty() && !chosen.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let mut step = prepare(name, batch);
        (0..serve::WARM_UP).for_each(|_| step());
        let mut milliseconds = Vec::new();
        let begin = Instant::now();
        let used = processor_seconds();
        while begin.elapsed() < LONG {
            let start = Instant::now();
            step();
            milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
        }
        milliseconds.sort_by(f64::total_cmp);
        let (fastest, median) = (milliseconds[0], milliseconds[milliseconds.len() / 2]);
        print!("{name}, batch {batch}: median {median:.2} ms, fastest {fastest:.2} ms of {}", milliseconds.len());
        match (used, processor_seconds()) {
            (Some(before), Some(after)) => {
                println!("; processor time {:.2} ms", (after - before) * 1e3 / milliseconds.len() as f64);
            }
            _ => println!(),
        }
    }
}

/// Returns the CPU time of all threads of this process. Other programs hardly affect it. Linux only.
fn processor_seconds() -> Option<f64> {
    /// Linux reports hundredths of a second to programs, regardless of the kernel's own tick.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in parentheses, which may contain spaces. User and system time are fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11..13)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
    Some(ticks / TICKS)
}
