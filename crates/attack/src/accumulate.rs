//! Several rounds of one client, combined.

use std::sync::Arc;

use faer::Mat;
use unmask_core::VitConfig;

use crate::{
    AttackError, Evidence, Tensors,
    model::{PATCH_BIAS, PATCH_WEIGHT, POSITION},
    observed::Observed,
};

/// Largest number of rounds kept apart. It bounds their memory to about that of one round of a model with many patches.
const MOST_APART: usize = 8;
/// Largest number of patches at which rounds are kept apart: solving them together needs an S x S matrix for each row.
const MOST_PATCHES_APART: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    Taken,
    /// The model has moved so far that another round would add more error to the mean than its new entries remove. All
    /// later rounds are rejected too.
    Drifted,
}

/// The embedding gradients of one client, each entry averaged over the rounds that kept it.
///
/// With a fresh mask each round, an entry stays hidden for K rounds with probability R^K. The model moves between
/// rounds, so their gradients differ: [`AccumulatedRounds::error`] says when adding stops.
#[derive(Debug, Clone)]
pub struct AccumulatedRounds {
    config: VitConfig,
    rounds: usize,
    /// Rounds offered, including those after the drift.
    seen: usize,
    /// Product of the shares that the rounds hid.
    expected_hidden: f64,
    has_drifted: bool,
    position: Pooled,
    patch: Pooled,
    bias: Pooled,
    /// Individual rounds, including those after the drift: all show the same picture, however far the model moved.
    apart: Vec<Arc<Round>>,
}

/// One round: G_pos without the class row `[S, D]`, G_E `[D, L]` and b_E `[D, 1]`.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) position: Observed,
    pub(crate) patch: Observed,
    pub(crate) bias: Observed,
}

#[derive(Debug, Clone)]
struct Pooled {
    mean: Observed,
    deviation: Mat<f64>,
}

impl Pooled {
    fn new(rows: usize, columns: usize) -> Self {
        Self { mean: Observed::unknown(rows, columns), deviation: Mat::zeros(rows, columns) }
    }

    fn add(&mut self, round: &Observed) {
        for column in 0..round.ncols() {
            for row in (0..round.nrows()).filter(|&row| round.is_known(row, column)) {
                let at = (row, column);
                let difference = round.values[at] - self.mean.values[at];
                self.mean.weights[at] += 1.0;
                self.mean.values[at] += difference / self.mean.weights[at];
                self.deviation[at] += difference * (round.values[at] - self.mean.values[at]);
            }
        }
    }

    /// Sum of squared deviations over degrees of freedom, relative to the mean square. It is 0 if no entry was seen
    /// twice.
    fn drift(&self) -> f64 {
        let seen_again = |weight: &f64| (weight - 1.0).max(0.0);
        let freedom: f64 = self.mean.weights.col_iter().map(|column| column.iter().map(seen_again).sum::<f64>()).sum();
        let power = self.mean.mean_square();
        if freedom == 0.0 || power == 0.0 { 0.0 } else { self.deviation.sum() / freedom / power }
    }

    /// Expected squared error of each column's entries, relative to the mean square of the whole matrix.
    fn column_errors(&self) -> Vec<f64> {
        let drift = self.drift();
        let rows = self.mean.nrows() as f64;
        let error = |&weight: &f64| if weight > 0.0 { drift / weight } else { 1.0 };
        self.mean.weights.col_iter().map(|column| column.iter().map(error).sum::<f64>() / rows).collect()
    }

    fn error(&self) -> f64 {
        self.column_errors().iter().sum::<f64>() / self.mean.ncols() as f64
    }
}

impl AccumulatedRounds {
    pub fn new(config: &VitConfig) -> Self {
        let (s, d, l) = (config.patches(), config.dim, config.patch_len());
        Self {
            config: *config,
            rounds: 0,
            seen: 0,
            expected_hidden: 1.0,
            has_drifted: false,
            position: Pooled::new(s, d),
            patch: Pooled::new(d, l),
            bias: Pooled::new(d, 1),
            apart: Vec::new(),
        }
    }

    /// Accumulates `rounds` in order.
    ///
    /// # Errors
    /// As [`AccumulatedRounds::add`], or `rounds` is empty.
    pub fn gather<'a>(rounds: impl IntoIterator<Item = &'a Evidence>) -> Result<Self, AttackError> {
        let mut rounds = rounds.into_iter();
        let mut gathered = Self::of(rounds.next().ok_or(AttackError::NoRounds)?)?;
        for round in rounds {
            gathered.add(round)?;
        }
        Ok(gathered)
    }

    /// Starts from a single round.
    ///
    /// # Errors
    /// As [`AccumulatedRounds::add`].
    pub fn of(evidence: &Evidence) -> Result<Self, AttackError> {
        let mut alone = Self::new(&evidence.gradients.vit()?);
        alone.add(evidence)?;
        Ok(alone)
    }

    /// Adds a round of the same pictures unless the model has drifted too far. The gradient of the patch embedding's
    /// bias is optional.
    ///
    /// # Errors
    /// The evidence is from another model, lacks the gradient of the patch embedding or of the position embedding, or
    /// all their kept entries are zero.
    pub fn add(&mut self, evidence: &Evidence) -> Result<Added, AttackError> {
        let gradients = &evidence.gradients;
        if gradients.vit()? != self.config {
            return Err(AttackError::OtherModel { rounds: self.rounds });
        }
        let round = Arc::new(self.read(gradients)?);
        self.seen += 1;
        if self.apart.len() < MOST_APART && self.config.patches() <= MOST_PATCHES_APART {
            self.apart.push(Arc::clone(&round));
        }
        if self.has_drifted {
            return Ok(Added::Drifted);
        }
        let Round { position, patch, bias } = &*round;
        let mut with = self.position.clone();
        with.add(position);
        if self.rounds > 0 && with.error() > self.error() {
            self.has_drifted = true;
            return Ok(Added::Drifted);
        }
        let seen = position.known() + patch.known() + bias.known();
        self.rounds += 1;
        self.expected_hidden *= 1.0 - seen as f64 / self.len() as f64;
        self.position = with;
        self.patch.add(patch);
        self.bias.add(bias);
        Ok(Added::Taken)
    }

    fn read(&self, gradients: &Tensors) -> Result<Round, AttackError> {
        let (s, d) = (self.config.patches(), self.config.dim);
        let values = gradients.get(POSITION)?;
        let position = Observed::new(s, &values[d..], gradients.kept(POSITION).map(|kept| &kept[d..]));
        let patch = gradients.observed(PATCH_WEIGHT, d)?;
        for (name, observed, refusal) in [
            (POSITION, &position, AttackError::FixedPosition),
            (PATCH_WEIGHT, &patch, AttackError::ZeroGradient { name: PATCH_WEIGHT }),
        ] {
            if observed.known() == 0 {
                return Err(AttackError::NothingKept { name });
            }
            if observed.is_zero() {
                return Err(refusal);
            }
        }
        let bias = gradients.observed(PATCH_BIAS, d).unwrap_or_else(|_| Observed::unknown(d, 1));
        Ok(Round { position, patch, bias })
    }

    fn len(&self) -> usize {
        self.position.mean.len() + self.patch.mean.len() + self.bias.mean.len()
    }

    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Number of rounds offered, including those after the drift.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Share of entries that no round kept.
    pub fn hidden_share(&self) -> f64 {
        let known: usize = [&self.position, &self.patch, &self.bias].iter().map(|pooled| pooled.mean.known()).sum();
        1.0 - known as f64 / self.len() as f64
    }

    /// Share that independent masks would leave hidden: the product of what each round hid, R^K at a constant rate.
    pub fn expected_hidden_share(&self) -> f64 {
        self.expected_hidden
    }

    /// Number of the D equations `G_E[d] = sum_s G_pos[s, d] x_s` with all S coefficients known.
    pub fn whole_equations(&self) -> usize {
        let s = self.config.patches();
        (0..self.config.dim).filter(|&column| self.position.mean.known_in_column(column) == s).count()
    }

    /// Number of rounds after which least squares should become possible: D (1 - R^K)^S >= S, with R the mean share
    /// hidden so far.
    ///
    /// `None` before the first round, and if 10,000 rounds are not enough.
    pub fn rounds_until_solvable(&self) -> Option<usize> {
        const LONGEST: usize = 10_000;
        let (s, d) = (self.config.patches() as f64, self.config.dim as f64);
        let rate = self.expected_hidden.powf(1.0 / self.rounds.max(1) as f64);
        if self.rounds == 0 || d < s || rate >= 1.0 {
            return None;
        }
        (1..=LONGEST).find(|&k| d * (1.0 - rate.powi(k as i32)).powf(s) >= s)
    }

    /// Variance of an entry over the rounds that kept it, relative to the position gradient's mean square.
    pub fn drift(&self) -> f64 {
        self.position.drift()
    }

    pub fn has_drifted(&self) -> bool {
        self.has_drifted
    }

    /// Expected squared error of an entry of the position gradient, relative to its mean square.
    ///
    /// An entry that is still hidden counts 1, and a mean over n rounds counts drift / n. The first part falls as R^K.
    /// The second grows as the model moves: under steady movement the variance over K rounds grows as K^2, and
    /// averaging divides it only by K. Adding stops when the sum stops falling.
    pub fn error(&self) -> f64 {
        self.position.error()
    }

    /// The mean of [`error`](Self::error) over the S coefficients of each of the D equations.
    pub(crate) fn equation_errors(&self) -> Vec<f64> {
        self.position.column_errors()
    }

    pub(crate) fn apart(&self) -> &[Arc<Round>] {
        &self.apart
    }

    /// Number of rounds kept apart, which are solved together.
    pub fn kept_apart(&self) -> usize {
        self.apart.len()
    }

    pub fn config(&self) -> &VitConfig {
        &self.config
    }

    /// G_pos without the class row `[S, D]`.
    pub(crate) fn position(&self) -> &Observed {
        &self.position.mean
    }

    /// G_E `[D, L]`.
    pub(crate) fn patch(&self) -> &Observed {
        &self.patch.mean
    }

    /// b_E `[D, 1]`.
    pub(crate) fn bias(&self) -> &Observed {
        &self.bias.mean
    }
}
