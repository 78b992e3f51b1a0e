//! Measures what a relay reads that chooses the weights, on photographs of CIFAR-10, as tables in Markdown:
//!
//!     cargo xtask example doctored heads
//!     cargo xtask example doctored masks
//!     cargo xtask example doctored cuts
//!     cargo xtask example doctored bins
//!
//! `heads` attacks batches and sums of `vit_nano_patch4_32` without a mask, fresh and trained (the checkpoint in the
//! program); `masks` also those of `vit_lab_patch8_32`, behind masks and other defences. `cuts` counts how often one cut
//! at a guess leaves exactly one picture of a class, `bins` how many patches an imprinted MLP gives back. The pictures are
//! of the test set, without repetition; seed k draws weights, masks and the order of the pictures. A picture counts as seen
//! from an SSIM of 0.5 on. Intervals are of 95 %, by Student's t over the seeds.

use std::{error::Error, ops::ControlFlow};

use unmask_attack::{Cut, class_token, imprint, imprinted};
use unmask_core::{Architecture, InitialWeights, ModelState, Rule, ThreatModel, Verdict, VitPreset};
use unmask_data::{
    CLASSES, Picture,
    datasets::{DataSet, Labelled, default_cifar10_folder},
};
use unmask_experiments::matrix::{MatrixRequest, MatrixSettings, run};
use unmask_model::{Network, device::OpenDevice};
use unmask_simulation::{StartWeights, load_start};

/// Seeds of weights, masks and orders.
const SEEDS: u64 = 5;
/// Batches for each seed.
const BATCHES: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let data = DataSet::load(&"cifar10".parse()?, &default_cifar10_folder(), 0)?;
    match std::env::args().nth(1).as_deref() {
        Some("heads") => heads(&data.test),
        Some("masks") => masks(&data.test),
        Some("cuts") => cuts(&data),
        Some("bins") => bins(&data),
        other => Err(format!("{} is no table; give heads, masks, cuts or bins", other.unwrap_or("nothing")).into()),
    }
}

/// How a batch is filled.
#[derive(Clone, Copy, PartialEq)]
enum Filled {
    /// As the pictures come.
    AsTheyCome,
    /// With one picture of one class, and the others of other classes.
    OneAlone,
}

/// Pictures of whole batches with names that tell the class, so that the matrix reads it.
fn pictures(test: &Labelled, size: usize, filled: Filled, seed: u64) -> Result<Vec<(String, Picture)>, Box<dyn Error>> {
    let mut pool = (0..test.len()).map(|k| (k + seed as usize * 1999) % test.len());
    let mut chosen = Vec::new();
    for batch in 0..BATCHES {
        let alone = (batch + seed as usize) % CLASSES.len();
        let place = (batch * 5 + 3) % size;
        for at in 0..size {
            let fits =
                |k: &usize| filled == Filled::AsTheyCome || (usize::from(test.labels()[*k]) == alone) == (at == place);
            chosen.push(pool.find(fits).ok_or("the pictures are used up")?);
        }
    }
    let named = chosen.into_iter().enumerate().map(|(number, k)| {
        let name = format!("{number:04} {}", CLASSES[usize::from(test.labels()[k])]);
        Ok((name, test.picture(k).ok_or("no such picture")?))
    });
    named.collect()
}

/// One line of a table: means over seeds, with intervals.
struct Line {
    psnr: Vec<f64>,
    ssim: Vec<f64>,
    seen: usize,
    rows: usize,
}

impl Line {
    fn print(&self, what: &str) {
        let of = |values: &[f64], digits: usize| {
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            let variance =
                values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1).max(1) as f64;
            // t(4), for five seeds.
            let half = 2.776 * (variance / values.len() as f64).sqrt();
            format!("{mean:.digits$} ± {half:.digits$}")
        };
        let [psnr, ssim] = [(&self.psnr, 1), (&self.ssim, 2)]
            .map(|(values, digits)| if values.len() < SEEDS as usize { "-".to_owned() } else { of(values, digits) });
        println!("| {what} | {psnr} | {ssim} | {} of {} |", self.seen, self.rows);
    }
}

/// Attacks batches of every seed with fresh or given weights.
fn line(
    settings: &MatrixSettings,
    test: &Labelled,
    filled: Filled,
    start: Option<&ModelState>,
) -> Result<Line, Box<dyn Error>> {
    let device = OpenDevice::cpu();
    let mut line = Line { psnr: Vec::new(), ssim: Vec::new(), seen: 0, rows: 0 };
    for seed in 1..=SEEDS {
        let settings = MatrixSettings { seed, ..settings.clone() };
        let out = tempfile::tempdir()?;
        let request = MatrixRequest {
            settings: &settings,
            pictures: &pictures(test, settings.batch * settings.sum, filled, seed)?,
            start,
            device: &device,
            threads: None,
            commit: None,
            out: out.path(),
        };
        let rows = run(&request, &mut |_| ControlFlow::Continue(()))?.rows;
        line.rows += rows.len();
        line.seen += rows.iter().filter(|row| row.verdict == Verdict::Recognisable).count();
        let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        line.psnr.extend(mean(rows.iter().filter_map(|row| row.psnr).collect()));
        line.ssim.extend(mean(rows.iter().filter_map(|row| row.ssim).collect()));
    }
    Ok(line)
}

fn settings(model: VitPreset, attack: &str, threat: ThreatModel) -> Result<MatrixSettings, Box<dyn Error>> {
    Ok(MatrixSettings {
        model: model.into(),
        attacks: vec![attack.parse()?],
        defences: vec!["none".parse()?],
        seed: 1,
        seeds: 1,
        iterations: None,
        step: None,
        rounds: 1,
        rate: 1e-5,
        rule: Rule::FedSgd,
        batch: 1,
        sum: 1,
        threats: vec![threat],
    })
}

fn trained(model: VitPreset) -> Result<ModelState, Box<dyn Error>> {
    Ok(load_start(&StartWeights::Initial(InitialWeights::Pretrained), model.into(), 1)?.0)
}

fn heads(test: &Labelled) -> Result<(), Box<dyn Error>> {
    let trained = trained(VitPreset::Nano)?;
    println!("| weights | rule | batch | clients in a sum | batches | relay | PSNR in dB | SSIM | seen |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let fedavg: Rule = "fedavg:epochs=1,rate=0.1".parse()?;
    let mut cases = Vec::new();
    for size in [1, 4, 16, 64] {
        cases.extend([
            (Rule::FedSgd, size, 1, Filled::OneAlone, ThreatModel::Honest),
            (Rule::FedSgd, size, 1, Filled::OneAlone, ThreatModel::Fishing),
        ]);
        if size > 1 {
            cases.extend([
                (Rule::FedSgd, size, 1, Filled::AsTheyCome, ThreatModel::Fishing),
                (Rule::FedSgd, size, 1, Filled::AsTheyCome, ThreatModel::FeatureFishing),
                (fedavg, size, 1, Filled::OneAlone, ThreatModel::Fishing),
            ]);
        }
    }
    for clients in [4, 30] {
        cases.extend([
            (Rule::FedSgd, 1, clients, Filled::OneAlone, ThreatModel::Honest),
            (Rule::FedSgd, 1, clients, Filled::OneAlone, ThreatModel::Fishing),
            (Rule::FedSgd, 1, clients, Filled::AsTheyCome, ThreatModel::InconsistentModels),
            (fedavg, 1, clients, Filled::AsTheyCome, ThreatModel::InconsistentModels),
        ]);
    }
    for (weights, start) in [("fresh", None), ("trained", Some(&trained))] {
        for &(rule, batch, sum, filled, threat) in &cases {
            let settings = MatrixSettings { rule, batch, sum, ..settings(VitPreset::Nano, "embedding", threat)? };
            let kind = if filled == Filled::OneAlone { "one alone" } else { "as they come" };
            let name = format!("{weights} | {} | {batch} | {sum} | {kind} | {threat}", rule.title());
            line(&settings, test, filled, start)?.print(&name);
        }
    }
    Ok(())
}

fn masks(test: &Labelled) -> Result<(), Box<dyn Error>> {
    const NANO: &[&str] = &["embedding", "embedding-aware"];
    const LAB: &[&str] = &["embedding", "completion"];
    let trained = trained(VitPreset::Nano)?;
    println!("| model | weights | defence | batch | clients in a sum | relay | attack | PSNR in dB | SSIM | seen |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let cases = [
        (1, 1, ThreatModel::Honest),
        (4, 1, ThreatModel::Honest),
        (4, 1, ThreatModel::Fishing),
        (16, 1, ThreatModel::Fishing),
        (64, 1, ThreatModel::Fishing),
        (1, 4, ThreatModel::InconsistentModels),
    ];
    for (model, weights, start, attacks) in [
        (VitPreset::Nano, "fresh", None, NANO),
        (VitPreset::Nano, "trained", Some(&trained), NANO),
        (VitPreset::LabPatch8, "fresh", None, LAB),
    ] {
        for defence in ["random-binary:0.5", "random-binary:0.8"] {
            for (batch, sum, threat) in cases {
                for attack in attacks {
                    let defences = vec![defence.parse()?];
                    let settings = MatrixSettings { batch, sum, defences, ..settings(model, attack, threat)? };
                    let name = format!("{model} | {weights} | {defence} | {batch} | {sum} | {threat} | {attack}");
                    line(&settings, test, Filled::OneAlone, start)?.print(&name);
                }
            }
        }
    }
    for defence in ["gaussian:eps=4,delta=1e-5,clip=0.5", "fixed-position", "encrypted:keyed"] {
        let threat = ThreatModel::Fishing;
        let defences = vec![defence.parse()?];
        let settings = MatrixSettings { batch: 4, defences, ..settings(VitPreset::Nano, "embedding", threat)? };
        let name = format!("{} | fresh | {defence} | 4 | 1 | {threat} | embedding", VitPreset::Nano);
        line(&settings, test, Filled::OneAlone, None)?.print(&name);
    }
    Ok(())
}

/// How often a cut at the quantile 1 / n of public pictures leaves one of n pictures of a class, and how often one of ten
/// random features does at its own guess.
fn cuts(data: &DataSet) -> Result<(), Box<dyn Error>> {
    const DRAWS: usize = 200;
    let architecture = Architecture::from(VitPreset::Nano);
    let config = architecture.vit().ok_or("the model must be a ViT")?;
    let network = Network::new(architecture, OpenDevice::cpu().device())?;
    println!("| weights | pictures of the class | exactly one below the cut | within ten features |");
    println!("|---|---|---|---|");
    for (name, state) in [("fresh", architecture.initial(1)), ("trained", trained(VitPreset::Nano)?)] {
        let tokens = |set: &Labelled, count: usize| -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
            let of_class = (0..set.len()).filter(|&k| set.labels()[k] == 3).take(count);
            let token = |k: usize| {
                let image = set.chw(k).ok_or("no such picture")?;
                let step = network.loss_and_gradient_blocking(&state, &image, &[3])?;
                class_token(&config, &step.gradient).ok_or_else(|| "the gradient is zero".into())
            };
            of_class.map(token).collect()
        };
        let (public, private) = (tokens(&data.train, 300)?, tokens(&data.test, 400)?);
        for size in [2, 4, 8, 16] {
            let alone = |draw: usize, feature: u64| {
                let cut = Cut::random(config.dim, feature);
                let known: Vec<f64> = public.iter().map(|token| cut.feature(token)).collect();
                let cut = cut.at_share(&known, size);
                let of = |k: usize| &private[(draw * size + k) % private.len()];
                (0..size).filter(|&k| cut.feature(of(k)) < cut.at).count() == 1
            };
            let once = (0..DRAWS).filter(|&draw| alone(draw, draw as u64)).count();
            let ten = (0..DRAWS).filter(|&draw| (0..10).any(|feature| alone(draw, 1000 + feature))).count();
            let percent = |count: usize| 100.0 * count as f64 / DRAWS as f64;
            println!("| {name} | {size} | {:.0} % | {:.0} % |", percent(once), percent(ten));
        }
    }
    Ok(())
}

fn bins(data: &DataSet) -> Result<(), Box<dyn Error>> {
    println!("| model | weights | batch | patches back, in % |");
    println!("|---|---|---|---|");
    for (preset, name, start) in [
        (VitPreset::Nano, "fresh", None),
        (VitPreset::Nano, "trained", Some(trained(VitPreset::Nano)?)),
        (VitPreset::Lab, "fresh", None),
    ] {
        let architecture = Architecture::from(preset);
        let config = architecture.vit().ok_or("the model must be a ViT")?;
        let network = Network::new(architecture, OpenDevice::cpu().device())?;
        let public: Vec<Vec<f32>> = (0..300).filter_map(|k| data.train.chw(k)).collect();
        for size in [1, 4, 16, 64] {
            let mut shares = Vec::new();
            for seed in 1..=SEEDS {
                let honest = start.clone().unwrap_or_else(|| architecture.initial(seed));
                let sent = imprint(&config, &honest.weights, &public, seed)?;
                let chosen = (0..size).map(|k| (k + seed as usize * 1999) % data.test.len());
                let images: Vec<Vec<f32>> = chosen.clone().filter_map(|k| data.test.chw(k)).collect();
                let labels: Vec<usize> = chosen.map(|k| data.test.labels()[k].into()).collect();
                let state = ModelState::from_weights(sent.clone());
                let step = network.loss_and_gradient_blocking(&state, &images.concat(), &labels)?;
                let found = imprinted(&config, &sent, &step.gradient)?;
                let (patch, side, grid) = (config.patch, config.image, config.grid());
                let is_of = |image: &Vec<f32>, it: &unmask_attack::ImprintedPatch| {
                    it.values.iter().enumerate().all(|(at, value)| {
                        let (channel, row, column) = (at / (patch * patch), at / patch % patch, at % patch);
                        let (y, x) = (it.position / grid * patch + row, it.position % grid * patch + column);
                        (image[channel * side * side + y * side + x] - value).abs() < 0.5 / 255.0
                    })
                };
                let back = found.iter().filter(|it| images.iter().any(|image| is_of(image, it))).count();
                shares.push(100.0 * back as f64 / (size * config.patches()) as f64);
            }
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (shares.len() - 1) as f64;
            let half = 2.776 * (variance / shares.len() as f64).sqrt();
            println!("| {architecture} | {name} | {size} | {mean:.1} ± {half:.1} |");
        }
    }
    Ok(())
}
