//! Differential privacy as it is claimed, and what the claim is of.

use serde::Serialize;
use unmask_core::{GaussianNoise, NoiseUnit};

/// Above this delta a guarantee may fail for somebody in a large school.
const LARGE_DELTA: f64 = 1e-5;

/// A claim of differential privacy, with nothing rounded.
#[derive(Debug, Clone, Serialize)]
pub struct PrivacyClaim {
    /// As asked for one round.
    pub epsilon: f64,
    pub delta: f64,
    /// S_f.
    pub sensitivity: f64,
    pub is_clipped: bool,
    /// What the claim is of, and what it lacks: sentences.
    pub remarks: Vec<String>,
    /// What holds after some rounds, if an accountant computed it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<Guarantee>,
    /// What trials show of one round, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<TriedBound>,
}

/// A lower bound of epsilon from trials: somebody who knows everything but one picture guesses which of two it was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TriedBound {
    pub trials: u32,
    pub right: u32,
    /// At least this epsilon, at `delta` and with `confidence`.
    pub epsilon: f64,
    pub delta: f64,
    pub confidence: f64,
}

/// What holds for one client against the server after this many of its updates.
#[derive(Debug, Clone, Serialize)]
pub struct Guarantee {
    pub rounds: u32,
    /// Absent if there is none.
    pub epsilon: Option<f64>,
    pub delta: f64,
}

impl PrivacyClaim {
    pub fn new(noise: &GaussianNoise) -> Self {
        let (epsilon, delta, sensitivity) = (noise.epsilon(), noise.delta(), noise.sensitivity());
        let unit = match noise.unit() {
            NoiseUnit::Update => "It is of a client: of one client's whole update, with all its pictures.",
            NoiseUnit::Picture => "It is of a picture: another picture in its place, among all others of the client.",
        };
        let mut remarks = vec![
            unit.to_owned(),
            "It is of one round: every further update of the same client adds to epsilon.".to_owned(),
        ];
        if noise.clip().is_none() {
            remarks.push("Updates are not clipped, so that one picture can change an update without limit: the claim guarantees nothing.".to_owned());
        } else {
            remarks.push(format!(
                "The noise is calibrated to S_f = {sensitivity}. Another picture can turn a clipped update around, which is a change of 2 \
                 S_f: what holds is weaker than what is claimed."
            ));
        }
        if epsilon > 1.0 {
            remarks.push("The classical formula for the noise is proved for epsilon up to 1 only.".to_owned());
        }
        if delta > LARGE_DELTA {
            remarks.push(format!(
                "Delta is {delta}: a mechanism that publishes each client's data with that probability would satisfy it."
            ));
        }
        Self {
            epsilon,
            delta,
            sensitivity,
            is_clipped: noise.clip().is_some(),
            remarks,
            holds: Vec::new(),
            tried: None,
        }
    }

    /// Whether trials show more than what is said to hold after one round.
    pub fn is_contradicted(&self) -> bool {
        let holds = self.holds.iter().find(|held| held.rounds == 1).and_then(|held| held.epsilon);
        self.tried.zip(holds).is_some_and(|(tried, holds)| tried.epsilon > holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_not_rounded_and_says_what_it_lacks() {
        let noise: GaussianNoise = "eps=1.23456789,delta=0.5,unclipped=0.5".parse().unwrap();
        let claim = PrivacyClaim::new(&noise);
        assert!(serde_json::to_string(&claim).unwrap().contains("1.23456789"));
        let remarks = claim.remarks.join(" ");
        for part in ["not clipped", "with that probability", "up to 1 only", "one client's whole update"] {
            assert!(remarks.contains(part), "{part}: {remarks}");
        }
    }
}
