//! What a client can check about a plan before it trains: doctored weights leave traces that training does not.
//!
//! The bounds are far above what honest rounds do. They catch the known ways of doctoring, not every possible one: a relay
//! that moves the weights slowly enough stays below them.

use unmask_core::{Architecture, OptimiserKind, Param, Rule};

/// Largest step of Adam for one weight, in units of its rate: (1 - β₁) / sqrt((1 - β₂) (1 - β₁² / β₂)).
const ADAM: f64 = 7.3;
/// How far above a proven bound a change may lie. Masks let each entry of a mean come from other clients.
const SLACK: f64 = 4.0;
/// Largest gradient of one layer that counts as possible. In honest rooms whose settings change all the time, a few reach
/// 500.
const GRADIENT: f64 = 1000.0;
/// Standard deviations of announced noise that a change may have.
const DEVIATIONS: f64 = 8.0;
/// Largest change that counts as rounding, relative to a layer's size.
const ROUNDING: f64 = 1e-3;
/// Largest weight that counts as possible.
const WEIGHT: f64 = 1000.0;
/// Largest difference of two of the head's biases.
const BIASES: f64 = 50.0;
/// How many times the head's second largest row the largest may be.
const ROWS: f64 = 20.0;
/// Loss from which a picture teaches something.
const LOSS: f64 = 0.1;
/// Slope of the loss before the head below which a picture teaches nothing.
const SLOPE: f64 = 1e-4;

/// What the room announced about the steps since the plan before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Announced {
    pub rule: Rule,
    pub optimiser: OptimiserKind,
    /// Rounds that closed since then.
    pub rounds: u32,
    /// The most local steps that a client may take in a round; 1 under FedSGD.
    pub steps: u64,
    /// Standard deviation of the noise that a client adds to each value; 0 for none.
    pub noise: f64,
}

/// A plan's weights, and those of the plan before if there is one.
#[derive(Debug, Clone, Copy)]
pub struct PlanCheck<'a> {
    pub architecture: Architecture,
    /// `[P]`; `None` for a client's first plan and for a new model.
    pub before: Option<&'a [f32]>,
    /// `[P]`.
    pub now: &'a [f32],
    pub announced: Announced,
}

/// The loss of one picture, and how it changes before the head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PictureLoss {
    pub loss: f64,
    /// Length of dl/dh = (p - y) W, where h is what the head reads.
    pub slope: f64,
}

/// A trace of doctored weights.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Doubt {
    #[error("the plan has {found} weights, the model {expected}")]
    Length { found: usize, expected: usize },
    #[error("{layer} moved by {moved:.3}, and the announced rule moves it by at most {most:.3}")]
    Jump { layer: String, moved: f64, most: f64 },
    #[error("{layer} holds {value}, and trained weights stay below {WEIGHT}")]
    Size { layer: String, value: f32 },
    #[error("the head's biases lie {apart:.1} apart, so that the model is sure of a class before it sees the picture")]
    Biases { apart: f64 },
    #[error("one row of the head is {times:.0} times as large as any other, so that only one class would be learnt")]
    Rows { times: f64 },
    #[error("the head is all zero, so that no picture would teach the model anything")]
    ZeroHead,
    #[error("{flat} of {pictures} pictures teach the model nothing although it gets them wrong")]
    Flat { flat: usize, pictures: usize },
}

impl PlanCheck<'_> {
    /// Every doubt about the weights; none for an honest plan.
    pub fn doubts(&self) -> Vec<Doubt> {
        let layout = self.architecture.layout();
        let expected = layout.len();
        let lengths = [Some(self.now.len()), self.before.map(<[f32]>::len)];
        if let Some(found) = lengths.into_iter().flatten().find(|&found| found != expected) {
            return vec![Doubt::Length { found, expected }];
        }
        let mut doubts = Vec::new();
        for param in &layout {
            let now = &self.now[param.range.clone()];
            if let Some(&value) = now.iter().find(|value| value.is_nan() || f64::from(value.abs()) >= WEIGHT) {
                doubts.push(Doubt::Size { layer: param.name.clone(), value });
            }
            doubts.extend(self.before.and_then(|before| self.jump(param, &before[param.range.clone()], now)));
        }
        doubts.extend(self.head());
        doubts
    }

    /// The change of a layer, if it is larger than possible.
    fn jump(&self, param: &Param, before: &[f32], now: &[f32]) -> Option<Doubt> {
        let Announced { rule, optimiser, rounds, steps, noise } = self.announced;
        let changes = || before.iter().zip(now).map(|(before, now)| f64::from(*now) - f64::from(*before));
        let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
        let root = (before.len() as f64).sqrt();
        let rounding = ROUNDING * norm(&mut before.iter().map(|&value| f64::from(value)));
        let rounds = f64::from(rounds);
        let doubt = |moved: f64, most: f64| {
            (moved.is_nan() || moved > most).then(|| Doubt::Jump { layer: param.name.clone(), moved, most })
        };
        let moved = norm(&mut changes());
        let (reach, noise) = match (rule, optimiser) {
            // Adam bounds every weight by itself, however noisy the gradient.
            (Rule::FedSgd, OptimiserKind::Adam { rate }) => {
                return doubt(moved, ADAM * f64::from(rate) * rounds * root + rounding);
            }
            (Rule::FedSgd, OptimiserKind::Sgd { rate }) => (f64::from(rate) * rounds, noise * f64::from(rate) * rounds),
            (Rule::FedAvg { rate, .. }, _) => (f64::from(rate) * steps as f64 * rounds, noise * rounds),
        };
        let gradient = match param.name.as_str() {
            // Each entry of p - y lies between -1 and 1.
            "head.bias" | "fc.bias" => SLACK * root,
            "head.weight" => self.feature().map_or(GRADIENT, |feature| {
                let classes = self.architecture.classes() as f64;
                SLACK * feature * classes.sqrt()
            }),
            _ => GRADIENT,
        };
        doubt(moved, reach * gradient + DEVIATIONS * noise * root + rounding)
    }

    /// Largest length of what a ViT's head reads: the final norm bounds it.
    fn feature(&self) -> Option<f64> {
        let layout = self.architecture.layout();
        let config = self.architecture.vit()?;
        let [weight, bias] = ["norm.weight", "norm.bias"].map(|name| layout.slice(self.now, name));
        let most = weight?.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let shift = bias?.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        Some((config.dim as f64).sqrt() * f64::from(most) + shift)
    }

    /// What the head alone shows.
    fn head(&self) -> Vec<Doubt> {
        let layout = self.architecture.layout();
        let slice = |names: [&str; 2]| names.into_iter().find_map(|name| layout.slice(self.now, name));
        let (Some(weight), Some(bias)) = (slice(["head.weight", "fc.weight"]), slice(["head.bias", "fc.bias"])) else {
            return Vec::new();
        };
        let classes = bias.len().max(1);
        let row = |row: &[f32]| row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        let mut sizes: Vec<f64> = weight.chunks(weight.len().div_ceil(classes).max(1)).map(row).collect();
        sizes.sort_by(|a, b| b.total_cmp(a));
        let mut doubts = Vec::new();
        match sizes.as_slice() {
            [largest, ..] if *largest == 0.0 => doubts.push(Doubt::ZeroHead),
            [largest, second, ..] if *largest > ROWS * second => {
                doubts.push(Doubt::Rows { times: largest / second });
            }
            _ => (),
        }
        let (least, most) = bias
            .iter()
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), &value| (least.min(value), most.max(value)));
        let apart = f64::from(most) - f64::from(least);
        if apart > BIASES {
            doubts.push(Doubt::Biases { apart });
        }
        doubts
    }
}

/// The loss of each picture and its slope, from `logits` `[batch, classes]`, `labels` `[batch]` and the head's weight
/// `[classes, D]`, all row-major. Empty if they do not fit.
pub fn picture_losses(logits: &[f32], labels: &[usize], head: &[f32]) -> Vec<PictureLoss> {
    let classes = logits.len() / labels.len().max(1);
    if classes == 0 || !head.len().is_multiple_of(classes) || labels.iter().any(|&label| label >= classes) {
        return Vec::new();
    }
    let dim = head.len() / classes;
    let of = |(logits, &label): (&[f32], &usize)| {
        let most = logits.iter().fold(f32::NEG_INFINITY, |most, &value| most.max(value));
        let powers: Vec<f64> = logits.iter().map(|&value| f64::from(value - most).exp()).collect();
        let sum: f64 = powers.iter().sum();
        let slope = |d: usize| {
            let part =
                |class: usize| (powers[class] / sum - f64::from(class == label)) * f64::from(head[class * dim + d]);
            (0..classes).map(part).sum::<f64>()
        };
        let slope = (0..dim).map(|d| slope(d).powi(2)).sum::<f64>().sqrt();
        PictureLoss { loss: sum.ln() + f64::from(most - logits[label]), slope }
    };
    logits.chunks_exact(classes).zip(labels).map(of).collect()
}

/// A doubt about pictures that teach nothing although the model gets them wrong. A picture that the model is rightly sure of
/// is flat, too, and raises none.
pub fn flat_pictures(losses: &[PictureLoss]) -> Option<Doubt> {
    let flat = losses.iter().filter(|picture| picture.slope < SLOPE && picture.loss > LOSS).count();
    (flat > 0).then_some(Doubt::Flat { flat, pictures: losses.len() })
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;

    const SGD: Announced =
        Announced { rule: Rule::FedSgd, optimiser: OptimiserKind::Sgd { rate: 0.1 }, rounds: 1, steps: 1, noise: 0.0 };

    fn check(change: impl Fn(&mut [f32], &dyn Fn(&str) -> std::ops::Range<usize>), announced: Announced) -> Vec<Doubt> {
        let architecture = Architecture::from(VitPreset::Pico);
        let layout = architecture.layout();
        let before = architecture.initial(1).weights;
        let mut now = before.clone();
        change(&mut now, &|name| layout.get(name).unwrap().range.clone());
        PlanCheck { architecture, before: Some(&before), now: &now, announced }.doubts()
    }

    #[test]
    fn an_unmoved_model_raises_no_doubt() {
        assert_eq!(check(|_, _| (), SGD), []);
    }

    #[test]
    fn what_no_step_can_do_is_named() {
        let moved = |by: f32| check(|now, at| now[at("head.bias")].fill(by), SGD);
        assert_eq!(moved(0.1), []);
        assert!(matches!(&moved(2.0)[..], [Doubt::Jump { layer, .. }] if layer == "head.bias"), "{:?}", moved(2.0));
        // Three rounds may do three times as much.
        let three = Announced { rounds: 5, ..SGD };
        assert_eq!(check(|now, at| now[at("head.bias")].fill(1.9), three), []);
        let adam = Announced { optimiser: OptimiserKind::Adam { rate: 1e-3 }, ..SGD };
        let zeroed = check(|now, at| now[at("blocks.0.attn.proj.weight")].fill(0.0), adam);
        assert!(matches!(&zeroed[..], [Doubt::Jump { layer, .. }] if layer.contains("proj")), "{zeroed:?}");
        let infinite = check(|now, at| now[at("pos_embed").start] = f32::NAN, SGD);
        assert!(infinite.iter().any(|doubt| matches!(doubt, Doubt::Size { .. })), "{infinite:?}");
    }

    #[test]
    fn a_picture_that_is_known_is_flat_without_a_doubt() {
        let head = [1.0, 0.0, 0.0, 1.0];
        let sure = picture_losses(&[40.0, 0.0], &[0], &head);
        assert!(sure[0].slope < SLOPE && sure[0].loss < 1e-6, "{sure:?}");
        assert_eq!(flat_pictures(&sure), None);
        let wrong = picture_losses(&[0.0, 40.0], &[0], &head);
        assert_eq!(flat_pictures(&wrong), None, "wrong, and it teaches");
        let zero = picture_losses(&[0.0, 0.0, 0.0, 0.0], &[0, 1], &[0.0; 4]);
        assert!((zero[0].loss - 2f64.ln()).abs() < 1e-12);
        assert_eq!(flat_pictures(&zero), Some(Doubt::Flat { flat: 2, pictures: 2 }));
        assert!(picture_losses(&[1.0, 2.0], &[5], &head).is_empty());
    }

    #[test]
    fn another_model_is_no_plan() {
        let architecture = Architecture::from(VitPreset::Pico);
        let doubts = PlanCheck { architecture, before: None, now: &[0.0; 3], announced: SGD }.doubts();
        assert!(matches!(doubts[..], [Doubt::Length { found: 3, .. }]), "{doubts:?}");
    }
}
