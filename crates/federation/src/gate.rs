//! The losses and running statistics that clients report with their updates.

use unmask_core::{Aggregation, ClientId};

use crate::{WeightedMean, norm_gate::NormGate};

/// Clients' reports, in the order of their updates.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports(Vec<Report>);

#[derive(Debug, Clone)]
struct Report {
    client: ClientId,
    is_robot: bool,
    loss: f32,
    samples: u32,
}

impl Reports {
    /// A plausible loss is at most this many times the round's median. The median is clamped to between 1 and 100 times
    /// the loss of random guessing.
    const FACTOR: f32 = 10.0;

    pub(crate) fn add(&mut self, client: ClientId, is_robot: bool, loss: f32, samples: u32) {
        self.0.push(Report { client, is_robot, loss, samples });
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn has(&self, client: ClientId) -> bool {
        self.0.iter().any(|report| report.client == client)
    }

    /// Number of reports from people.
    pub(crate) fn people(&self) -> u32 {
        u32::try_from(self.0.iter().filter(|report| !report.is_robot).count()).unwrap_or(u32::MAX)
    }

    /// The clients at these positions.
    pub(crate) fn clients(&self, positions: &[usize]) -> Vec<ClientId> {
        positions.iter().filter_map(|position| self.0.get(*position)).map(|report| report.client).collect()
    }

    pub(crate) fn remove(&mut self, client: ClientId) {
        self.0.retain(|report| report.client != client);
    }

    /// Keeps the reports of these clients.
    pub(crate) fn keep(&mut self, clients: &[ClientId]) {
        self.0.retain(|report| clients.contains(&report.client));
    }

    pub(crate) fn without(self, left_out: &[usize]) -> Self {
        Self(without(self.0, left_out))
    }

    pub(crate) fn samples(&self) -> u64 {
        self.0.iter().map(|report| u64::from(report.samples)).sum()
    }

    /// The plausible losses for this number of classes. A cross-entropy is never negative, and random guessing gives
    /// ln(classes).
    pub(crate) fn plausible_losses(&self, classes: usize) -> Vec<(ClientId, f32)> {
        let mut losses: Vec<_> = self.0.iter().map(|report| (report.client, report.loss)).collect();
        losses.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let Some((_, median)) = losses.get(losses.len().saturating_sub(1) / 2) else { return Vec::new() };
        let guessing = (classes as f32).ln();
        let most = Self::FACTOR * median.clamp(guessing, 100.0 * guessing);
        losses.retain(|(_, loss)| (0.0..=most).contains(loss));
        losses
    }
}

fn without<T>(all: Vec<T>, left_out: &[usize]) -> Vec<T> {
    all.into_iter().enumerate().filter(|(position, _)| !left_out.contains(position)).map(|(_, one)| one).collect()
}

/// The mean of the reported losses, if any.
pub(crate) fn mean_loss(losses: &[(ClientId, f32)]) -> Option<f32> {
    let sum: f64 = losses.iter().map(|(_, loss)| f64::from(*loss)).sum();
    (!losses.is_empty()).then(|| (sum / losses.len() as f64) as f32)
}

/// Batch norm's running statistics of a round's clients, `[Q]` each: few enough to hold until the round closes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Statistics {
    norms: NormGate,
    held: Vec<(Vec<f32>, u32)>,
}

impl Statistics {
    /// Continues with the norms of earlier rounds.
    pub(crate) fn resumed(norms: NormGate) -> Self {
        Self { norms, held: Vec::new() }
    }

    /// The norms known from earlier rounds.
    pub(crate) fn norms(&self) -> &NormGate {
        &self.norms
    }

    pub(crate) fn restart(&mut self) {
        self.held.clear();
    }

    /// Adds one client's statistics; its weight is 1 under FedSGD and its number of samples under FedAvg.
    pub(crate) fn add(&mut self, statistics: Vec<f32>, weight: u32) {
        self.held.push((statistics, weight));
    }

    /// Drops the statistics at these positions, in order of arrival.
    pub(crate) fn leave_out(&mut self, left_out: &[usize]) {
        self.held = without(std::mem::take(&mut self.held), left_out);
    }

    /// The weighted mean. Except in the plain mean, statistics that moved much further from the `old` ones than the
    /// others are scaled back to a plausible distance.
    pub(crate) fn mean(&mut self, old: &[f32], aggregation: Aggregation) -> Vec<f32> {
        let square = |(&new, &old): (&f32, &f32)| (f64::from(new) - f64::from(old)).powi(2);
        let norm = |new: &[f32]| new.iter().zip(old).map(square).sum::<f64>().sqrt();
        let known = self.norms.bound();
        for (statistics, _) in &self.held {
            self.norms.accept(norm(statistics).min(known));
        }
        let bound = if aggregation == Aggregation::Mean { f64::INFINITY } else { self.norms.bound() };
        let mut mean = WeightedMean::new(old.len());
        for (mut statistics, weight) in self.held.drain(..) {
            let norm = norm(&statistics);
            if norm > bound {
                for (new, &old) in statistics.iter_mut().zip(old) {
                    *new = (f64::from(old) + bound / norm * (f64::from(*new) - f64::from(old))) as f32;
                }
            }
            mean.add(&statistics, weight);
        }
        mean.mean()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::norm_gate::CLIP_FACTOR;

    fn mean(losses: &[f32]) -> Option<f32> {
        let mut all = Reports::default();
        losses.iter().for_each(|&loss| all.add(ClientId(1), false, loss, 1));
        mean_loss(&all.plausible_losses(10))
    }

    #[test]
    fn an_implausible_loss_is_left_out() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[1e38]), None);
        assert_eq!(mean(&[300.0, 400.0]), Some(350.0), "training that diverges is shown");
        assert_eq!(mean(&[1000.0, 2000.0]), Some(1500.0), "so is a mean far from guessing");
        assert_eq!(mean(&[3000.0, 3000.0]), None, "but not any number");
        assert_eq!(mean(&[0.1, 0.1, 300.0, 300.0, 300.0]), Some(180.04), "most decide what is plausible");
        assert_eq!(mean(&[2.0, 1e38, 3.0]), Some(2.5));
        assert_eq!(mean(&[2.0, -1e38, 3.0]), Some(2.5));
        assert_eq!(mean(&[0.001, 20.0]), Some(10.0005), "a picture not learnt among pictures that are");
    }

    #[test]
    fn statistics_far_off_are_drawn_near() {
        let mut statistics = Statistics::default();
        for new in [[1.0, 0.0], [0.0, 1.0], [1e30, 0.0]] {
            statistics.add(new.to_vec(), 1);
        }
        let mean = statistics.mean(&[0.0, 0.0], Aggregation::Clipped);
        let bound = CLIP_FACTOR as f32;
        assert!((mean[0] - (1.0 + bound) / 3.0).abs() < 1e-6 && (mean[1] - 1.0 / 3.0).abs() < 1e-6, "{mean:?}");
        statistics.add(vec![1e30, 0.0], 1);
        statistics.add(vec![-1e30, 1.0], 1);
        statistics.leave_out(&[1]);
        assert_eq!(statistics.mean(&[0.0, 0.0], Aggregation::Mean), [1e30, 0.0]);
    }

    #[test]
    fn norms_of_earlier_rounds_bound_a_restored_rooms_statistics() {
        let known = NormGate::default().with([1.0; NormGate::ENOUGH].into_iter());
        let mut statistics = Statistics::resumed(known);
        statistics.add(vec![1e30, 0.0], 1);
        let mean = statistics.mean(&[0.0, 0.0], Aggregation::Clipped);
        assert!((mean[0] - CLIP_FACTOR as f32).abs() < 1e-6 && mean[1] == 0.0, "{mean:?}");
    }
}
