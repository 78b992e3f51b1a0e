//! Distance between a picture's gradient and the received one.

use std::ops::Range;

use unmask_attack::{AttackError, Misfit};
use unmask_core::{ParamLayout, VitConfig};

use crate::ReceivedGradient;

/// The compared quantities. The mask M of the evidence multiplies both sides of every term.
#[derive(Debug, Clone, PartialEq)]
pub enum Objective {
    Tokens(Tokens),
    /// 1 - cos of all gradients as one vector (Inverting Gradients, Eq. 4).
    Cosine,
}

/// Positions of token matching's terms in the flat vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Tokens {
    /// One row per token, the class token's first. `None` omits the term.
    rows: Option<Vec<Range<usize>>>,
    patch: Range<usize>,
    /// Parameters compared as one vector.
    others: Vec<Range<usize>>,
    position: Range<usize>,
}

/// The terms of an objective, without total variation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Terms {
    /// Mean over tokens of 1 - cos of the position embedding's gradient; 0 if the term is omitted.
    pub token: f64,
    /// ||dG_E||^2 / ||G_E||^2 of the patch embedding's weight; 0 under [`Objective::Cosine`].
    pub patch: f64,
    /// 1 - cos of all compared gradients as one vector. Token matching excludes the position embedding's.
    pub rest: f64,
}

impl Terms {
    pub fn sum(self) -> f64 {
        self.token + self.patch + self.rest
    }
}

impl Objective {
    /// Token matching: mean over tokens, including the class token, of [1 - cos(G_pos_i)] + ||dG_E||^2 / ||G_E||^2 +
    /// [1 - cos(all gradients except G_pos up to block 0 as one vector)].
    ///
    /// As in the reference, G_E counts in the last term as well.
    pub fn tokens(config: &VitConfig) -> Self {
        Self::of_tokens(config, true)
    }

    /// Token matching without its first term, for updates with a fixed position embedding. The order of the patches is
    /// then unknown, and the result shows them in a random order: a jigsaw.
    pub fn tokens_without_position(config: &VitConfig) -> Self {
        Self::of_tokens(config, false)
    }

    fn of_tokens(config: &VitConfig, with_position: bool) -> Self {
        let layout = ParamLayout::vit(config);
        let range = |name: &str| layout.get(name).map_or(0..0, |param| param.range.clone());
        let (position, patch) = (range("pos_embed"), range("patch_embed.proj.weight"));
        let of_block_0 = |name: &str| !name.starts_with("blocks.") || name.starts_with("blocks.0.");
        let others = layout
            .iter()
            .filter(|param| param.range != position)
            .filter(|param| {
                of_block_0(&param.name) && !param.name.starts_with("norm.") && !param.name.starts_with("head.")
            })
            .map(|param| param.range.clone())
            .collect();
        let row = |token: usize| position.start + token * config.dim..position.start + (token + 1) * config.dim;
        let rows = with_position.then(|| (0..config.tokens()).map(row).collect());
        Self::Tokens(Tokens { rows, patch, others, position })
    }

    /// Returns the [`Misfit`] of `gradient` over the compared entries. A search ends with the picture that minimises
    /// it.
    pub(crate) fn misfit(&self, gradient: &[f64], evidence: &ReceivedGradient) -> f64 {
        let whole = 0..gradient.len();
        let ranges: Vec<&Range<usize>> = match self {
            Self::Cosine => vec![&whole],
            Self::Tokens(tokens) => tokens.others.iter().chain(tokens.rows.iter().flatten()).collect(),
        };
        let entries = ranges.into_iter().flat_map(Range::clone).map(|index| {
            let mask = evidence.mask()[index];
            (mask * gradient[index], evidence.values()[index])
        });
        Misfit::between(entries).map_or(1.0, |misfit| misfit.relative)
    }

    /// The smallest number of flat entries that a network must provide.
    pub(crate) fn reach(&self) -> usize {
        match self {
            Self::Tokens(tokens) => tokens.others.iter().map(|range| range.end).max().unwrap_or(0),
            Self::Cosine => 0,
        }
    }

    /// Rejects evidence that leaves a term with nothing to compare.
    pub(crate) fn check(&self, evidence: &ReceivedGradient) -> Result<(), AttackError> {
        let nothing = |range: Range<usize>| evidence.values()[range].iter().all(|&value| value == 0.0);
        match self {
            Self::Tokens(tokens) => {
                if tokens.rows.is_some() && nothing(tokens.position.clone()) {
                    return Err(AttackError::FixedPosition);
                }
                if nothing(tokens.patch.clone()) {
                    return Err(AttackError::NothingToMatch { part: "the patch embedding's gradient" });
                }
                if tokens.others.iter().cloned().all(nothing) {
                    return Err(AttackError::NothingToMatch { part: "the first block's gradient" });
                }
            }
            Self::Cosine if nothing(0..evidence.len()) => {
                return Err(AttackError::NothingToMatch { part: "the gradient" });
            }
            Self::Cosine => {}
        }
        Ok(())
    }

    /// Returns the terms for a picture with gradient `gradient`, and v = d(their sum)/d(gradient).
    pub(crate) fn evaluate(&self, gradient: &[f64], evidence: &ReceivedGradient) -> (Terms, Vec<f64>) {
        let mut slope = vec![0.0; gradient.len()];
        let mut terms = Terms::default();
        let whole = 0..gradient.len();
        match self {
            Self::Cosine => terms.rest = cosine(gradient, evidence, std::slice::from_ref(&whole), 1.0, &mut slope),
            Self::Tokens(tokens) => {
                if let Some(rows) = &tokens.rows {
                    let share = 1.0 / rows.len() as f64;
                    terms.token = rows
                        .iter()
                        .map(|row| cosine(gradient, evidence, std::slice::from_ref(row), share, &mut slope))
                        .sum();
                }
                terms.patch = relative_square(gradient, evidence, tokens.patch.clone(), &mut slope);
                terms.rest = cosine(gradient, evidence, &tokens.others, 1.0, &mut slope);
            }
        }
        (terms, slope)
    }
}

/// Returns `share` times 1 - cos of the entries in `ranges`, and adds its derivative to `slope`. If either side is all
/// zero, returns `share` with a zero derivative.
fn cosine(
    gradient: &[f64],
    evidence: &ReceivedGradient,
    ranges: &[Range<usize>],
    share: f64,
    slope: &mut [f64],
) -> f64 {
    let (mut dot, mut own, mut given) = (0.0, 0.0, 0.0);
    for range in ranges {
        let entries = gradient[range.clone()].iter().zip(&evidence.mask()[range.clone()]);
        for ((g, mask), value) in entries.zip(&evidence.values()[range.clone()]) {
            let g = g * mask;
            dot += g * value;
            own += g * g;
            given += value * value;
        }
    }
    let norms = (own * given).sqrt();
    if norms == 0.0 {
        return share;
    }
    // d(1 - cos)/dg = (cos g / ||g|| - value / ||value||) / ||g||
    let (along_own, along_given) = (share * dot / (norms * own), share / norms);
    for range in ranges {
        let entries = gradient[range.clone()].iter().zip(&evidence.mask()[range.clone()]);
        let entries = entries.zip(&evidence.values()[range.clone()]);
        for (slope, ((g, mask), value)) in slope[range.clone()].iter_mut().zip(entries) {
            *slope += mask * (along_own * g - along_given * value);
        }
    }
    share * (1.0 - dot / norms)
}

/// Returns ||M (g - value)||^2 / ||value||^2, and adds its derivative to `slope`.
fn relative_square(gradient: &[f64], evidence: &ReceivedGradient, range: Range<usize>, slope: &mut [f64]) -> f64 {
    let values = &evidence.values()[range.clone()];
    let scale = 1.0 / values.iter().map(|value| value * value).sum::<f64>();
    let entries = gradient[range.clone()].iter().zip(&evidence.mask()[range.clone()]).zip(values);
    let mut sum = 0.0;
    for (slope, ((g, mask), value)) in slope[range].iter_mut().zip(entries) {
        let difference = mask * (g - value);
        sum += difference * difference;
        *slope += 2.0 * scale * difference;
    }
    scale * sum
}
