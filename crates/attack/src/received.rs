//! From an update, as a client sent it, to a gradient and to which of its entries arrived. All attackers read updates
//! this way: the relay, a tab that attacks itself, the experiments, and the inversion of dumped files.

use std::ops::Range;

use unmask_core::{Param, Rule};

use crate::{AttackError, Evidence, ModelShape, Needs, Rounding, TensorSource, Tensors};

/// How the values of an update become a gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UpdateScale {
    /// The values are a gradient.
    Gradient,
    /// The values are weights W_n after several local steps at one rate, so (w - W_n) / (rate steps) is the mean
    /// gradient of the steps. The closed forms do not depend on the factor; label counts and searches do.
    Weights {
        /// rate * steps.
        moved: f64,
    },
}

impl UpdateScale {
    /// The scale of an update made from `samples`, at most `batch` a step.
    pub fn of(rule: Rule, samples: u32, batch: u16) -> Self {
        match rule {
            Rule::FedSgd => Self::Gradient,
            Rule::FedAvg { rate, .. } => Self::after(f64::from(rate), rule.local_steps(samples, batch)),
        }
    }

    /// The scale of weights after `steps` local steps.
    pub fn after(rate: f64, steps: u64) -> Self {
        Self::Weights { moved: rate * steps as f64 }
    }

    /// The gradient behind a value that was sent, for a parameter that had this weight before.
    fn gradient(self, sent: f64, weight: f64) -> f64 {
        match self {
            Self::Gradient => sent,
            Self::Weights { moved } => (weight - sent) / moved,
        }
    }
}

/// An update with what is needed to read it.
#[derive(Debug, Clone)]
pub struct Received<'a, W> {
    pub model: ModelShape,
    /// The weights w for which the client made the update, `[P]`.
    pub weights: &'a [f32],
    /// The values of the entries that arrived, in layout order.
    pub values: &'a [f32],
    /// Which entries arrived, as `(word, number of entries)` in layout order: bit `i` of a word is its entry `i`. `None`
    /// if all did.
    pub words: Option<W>,
    pub scale: UpdateScale,
}

/// Consecutive entries of an update.
struct Part {
    /// As sent; 0 where dropped.
    values: Vec<f32>,
    kept: Option<Vec<bool>>,
}

impl<W: Iterator<Item = (u64, usize)> + Clone> Received<'_, W> {
    /// Copies the tensors that `needs` names. Entries that did not arrive are marked, under any rule.
    ///
    /// # Errors
    /// The update or the weights do not fit the model, or a tensor holds NaN or infinity.
    pub fn evidence(&self, needs: &Needs) -> Result<Evidence, AttackError> {
        let weights = Tensors::from_flat(TensorSource::Weights, self.model, self.weights, None, &needs.weights.all())?;
        let mut gradients = Tensors::new(TensorSource::Gradients, self.model, Rounding::F32);
        let (layout, names) = (self.model.layout(), needs.gradients.all());
        let params: Vec<&Param> = layout.iter().filter(|param| names.contains(&param.name.as_str())).collect();
        let ranges: Vec<Range<usize>> = params.iter().map(|param| param.range.clone()).collect();
        for (param, Part { values, kept }) in params.into_iter().zip(self.parts(&ranges)) {
            let before = slice(self.weights, &param.range);
            let gradient = |(&sent, &before): (&f32, &f32)| self.scale.gradient(sent.into(), before.into());
            let values = values.iter().zip(before).map(gradient).collect();
            match kept {
                None => gradients.insert(&param.name, &param.shape, values),
                Some(kept) => gradients.insert_kept(&param.name, &param.shape, values, kept),
            }?;
        }
        Ok(Evidence { weights, gradients })
    }

    /// Returns the gradient of the first `len` parameters, 0 where an entry did not arrive, and which arrived; `None` if
    /// all did.
    pub fn gradient(&self, len: usize) -> (Vec<f32>, Option<Vec<bool>>) {
        let mut parts = self.parts(std::slice::from_ref(&(0..len)));
        let Part { mut values, kept } = parts.pop().unwrap_or(Part { values: Vec::new(), kept: None });
        if self.scale != UpdateScale::Gradient {
            for (i, (value, &before)) in values.iter_mut().zip(self.weights).enumerate() {
                let is_kept = kept.as_ref().is_none_or(|kept| kept[i]);
                *value = if is_kept { self.scale.gradient((*value).into(), before.into()) as f32 } else { 0.0 };
            }
        }
        (values, kept)
    }

    /// Returns the entries sent in `ranges`, which must ascend without overlap. Reads the mask once, up to the end of the
    /// last range.
    fn parts(&self, ranges: &[Range<usize>]) -> Vec<Part> {
        let Some(words) = self.words.clone() else {
            return ranges
                .iter()
                .map(|range| Part { values: slice(self.values, range).to_vec(), kept: None })
                .collect();
        };
        let nothing = |range: &Range<usize>| (vec![0.0; range.len()], vec![false; range.len()]);
        let mut parts: Vec<_> = ranges.iter().map(nothing).collect();
        let (mut start, mut rest, mut first) = (0, self.values, 0);
        for (mut word, len) in words {
            while ranges.get(first).is_some_and(|range| range.end <= start) {
                first += 1;
            }
            let Some(next) = ranges.get(first) else { break };
            let (values, others) = rest.split_at(rest.len().min(word.count_ones() as usize));
            if next.start < start + len {
                let mut at = first;
                for &value in values {
                    let position = start + word.trailing_zeros() as usize;
                    word &= word.wrapping_sub(1);
                    while ranges.get(at).is_some_and(|range| range.end <= position) {
                        at += 1;
                    }
                    if let (Some(range), Some((values, kept))) = (ranges.get(at), parts.get_mut(at))
                        && range.contains(&position)
                    {
                        values[position - range.start] = value;
                        kept[position - range.start] = true;
                    }
                }
            }
            (start, rest) = (start + len, others);
        }
        parts.into_iter().map(|(values, kept)| Part { values, kept: Some(kept) }).collect()
    }
}

impl Tensors {
    /// Reads weights after local training as a gradient; these are the values sent, and `before` the weights before.
    /// Entries that did not arrive stay unknown. Tensors that are in only one of the two are left out.
    ///
    /// # Errors
    /// [`AttackError::OtherWeights`] if these are not near `before`, unless they are a head alone.
    pub fn decrease_from(&self, before: &Self, scale: UpdateScale) -> Result<Self, AttackError> {
        // A head begins near zero, so that a few steps carry it far.
        let is_head_alone = self.names().iter().all(|name| self.model().head().contains(&name.as_str()));
        if !is_head_alone && !self.are_near(before) {
            return Err(AttackError::OtherWeights);
        }
        let layout = self.model().layout();
        let mut difference = Self::new(TensorSource::Gradients, self.model(), self.rounding());
        for param in layout.iter() {
            let (Some(own), Some(held)) = (self.values(&param.name), before.values(&param.name)) else { continue };
            let values = own.iter().zip(held).map(|(&sent, &before)| scale.gradient(sent, before)).collect();
            match self.kept(&param.name) {
                Some(kept) => difference.insert_kept(&param.name, &param.shape, values, kept.to_vec())?,
                None => difference.insert(&param.name, &param.shape, values)?,
            }
        }
        Ok(difference)
    }
}

fn slice<'a>(values: &'a [f32], range: &Range<usize>) -> &'a [f32] {
    values.get(range.clone()).unwrap_or_default()
}
