//! Puts a guarantee into words.

/// Above it, the odds may shift so far that the guarantee means nothing.
const LARGEST_EPSILON: f64 = 10.0;
/// Above it, even the number means nothing.
const LARGEST_TOLD: f64 = 1000.0;
/// Smaller values are rounded up to it.
const LEAST_TOLD: f64 = 1e-6;
/// From here on, "publish every picture with probability delta" is clearly no protection.
const VAIN_DELTA: f64 = 0.01;

/// Says what `epsilon` at `delta` promises after `rounds`. Also says if the `asked` delta is too large, or updates are
/// not clipped.
pub fn sentence(rounds: u32, epsilon: Option<f64>, delta: f64, asked: f64, is_clipped: bool) -> String {
    if rounds == 0 {
        return "No update with noise has left a device yet, so there is nothing to learn from one.".to_owned();
    }
    let after = if rounds == 1 { "after 1 round".to_owned() } else { format!("after {rounds} rounds") };
    let vain = (asked >= VAIN_DELTA).then(|| {
        format!("a mechanism that publishes every picture with probability {asked} satisfies delta = {asked}")
    });
    let meaningless = |reason: String| {
        let reasons: Vec<String> = vain.iter().cloned().chain([reason]).collect();
        format!("This gives no meaningful guarantee: {}.", reasons.join(", and "))
    };
    match epsilon {
        _ if !is_clipped => meaningless(
            "updates are not clipped, so a single picture may move one by more than any noise hides".to_owned(),
        ),
        None => meaningless(format!("{after} OpenDP finds no epsilon at delta = {delta:e}, as if there were no noise")),
        Some(epsilon) if epsilon > LARGEST_TOLD => meaningless(format!(
            "{after} epsilon is beyond {LARGEST_TOLD} at delta = {delta:e}, next to no noise at all"
        )),
        Some(epsilon) if epsilon > LARGEST_EPSILON => {
            let powers_of_ten = (epsilon / std::f64::consts::LN_10).floor();
            meaningless(format!(
                "{after} epsilon = {} at delta = {delta:e} lets the odds between two pictures shift by a factor of \
                 e^{}, more than 10^{powers_of_ten}",
                short(epsilon),
                short(epsilon),
            ))
        }
        Some(epsilon) => {
            let promise = format!(
                "{} epsilon = {} at delta = {delta:e} holds: everything the relay received from a student shifts the \
                 odds between two pictures by a factor of at most {}, except with probability {delta:e}.",
                after.replacen('a', "A", 1),
                short(epsilon),
                short(epsilon.exp()),
            );
            match vain {
                Some(vain) => format!("{promise} On its own, a delta of {asked} would promise nothing: {vain}."),
                None => promise,
            }
        }
    }
}

/// Rounds up to three significant digits, so that the statement holds.
fn short(number: f64) -> String {
    if number <= 0.0 {
        return "0".to_owned();
    }
    let number = number.max(LEAST_TOLD);
    let digits = (2.0 - number.log10().floor()).max(0.0);
    let scale = 10f64.powf(digits);
    let text = format!("{:.*}", digits as usize, (number * scale).ceil() / scale);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use crate::privacy::{Mechanism, guarantee};

    use super::*;

    /// Clip to 0.5 and the papers' sigma = sqrt(2 ln(1.25 / delta)) / epsilon.
    fn papers(epsilon: f64, delta: f64) -> Mechanism {
        Mechanism { clip: Some(0.5), deviation: 0.5 * (2.0 * (1.25 / delta).ln()).sqrt() / epsilon }
    }

    #[test]
    fn a_delta_of_one_half_is_no_guarantee() {
        let guarantee = guarantee(papers(4.0, 0.5), 12, 0.5);
        assert_eq!(guarantee.delta, 1e-5);
        assert!(guarantee.epsilon.unwrap() > 200.0);
        assert!(
            guarantee.sentence.starts_with(
                "This gives no meaningful guarantee: a mechanism that publishes every picture with probability 0.5 \
                 satisfies delta = 0.5, and after 12 rounds epsilon = "
            ),
            "{}",
            guarantee.sentence
        );
    }

    #[test]
    fn tiny_noise_is_no_guarantee() {
        let of_noise = |deviation| guarantee(Mechanism { clip: Some(1.0), deviation }, 3, 1e-5);
        let none = of_noise(0.0);
        assert_eq!(none.epsilon, None);
        assert_eq!(of_noise(1e-6), none);
        assert_eq!(
            none.sentence,
            "This gives no meaningful guarantee: after 3 rounds OpenDP finds no epsilon at delta = 1e-5, as if there \
             were no noise."
        );
        let tiny = of_noise(0.02);
        assert!(tiny.epsilon.unwrap() > 10_000.0);
        assert_eq!(
            tiny.sentence,
            "This gives no meaningful guarantee: after 3 rounds epsilon is beyond 1000 at delta = 1e-5, next to no \
             noise at all."
        );
    }

    /// rho = 8, where the least delta(25.9194) over the Renyi order is 1e-5 by the formula and Python's `math`.
    #[test]
    fn little_noise_is_no_guarantee() {
        let small = guarantee(Mechanism { clip: Some(1.0), deviation: 0.5 }, 1, 1e-5);
        assert!((small.epsilon.unwrap() - 25.919_351_682_466).abs() < 1e-9, "{:?}", small.epsilon);
        assert_eq!(
            small.sentence,
            "This gives no meaningful guarantee: after 1 round epsilon = 26 at delta = 1e-5 lets the odds between two \
             pictures shift by a factor of e^26, more than 10^11."
        );
    }

    /// The papers calibrate for a sensitivity of S_f and one round, so even one round costs more than their epsilon.
    #[test]
    fn one_round_costs_more_than_the_papers_epsilon() {
        let one = guarantee(papers(1.0, 1e-5), 1, 1e-5);
        assert!(one.epsilon.unwrap() > 1.5, "{:?}", one.epsilon);
    }

    #[test]
    fn ample_noise_holds_in_words() {
        let ample = guarantee(Mechanism { clip: Some(0.5), deviation: 10.0 }, 4, 1e-6);
        assert_eq!((ample.rounds, ample.delta), (4, 1e-6));
        assert_eq!(
            ample.sentence,
            "After 4 rounds epsilon = 0.9 at delta = 1e-6 holds: everything the relay received from a student shifts \
             the odds between two pictures by a factor of at most 2.46, except with probability 1e-6."
        );
        let asked_in_vain = guarantee(Mechanism { clip: Some(0.5), deviation: 10.0 }, 4, 0.5);
        assert!(asked_in_vain.sentence.starts_with("After 4 rounds epsilon = "));
        assert!(
            asked_in_vain.sentence.ends_with("publishes every picture with probability 0.5 satisfies delta = 0.5.")
        );
    }

    #[test]
    fn without_clipping_no_noise_is_a_guarantee() {
        let unbounded = guarantee(Mechanism { clip: None, deviation: 1e6 }, 1, 1e-5);
        assert_eq!(unbounded.epsilon, None);
        assert_eq!(
            unbounded.sentence,
            "This gives no meaningful guarantee: updates are not clipped, so a single picture may move one by more \
             than any noise hides."
        );
    }

    #[test]
    fn nothing_is_learnt_before_the_first_round() {
        let none = guarantee(papers(1.0, 1e-5), 0, 1e-5);
        assert_eq!(none.epsilon, Some(0.0));
        assert!(none.sentence.starts_with("No update"));
    }

    #[test]
    fn numbers_are_rounded_up() {
        for (number, text) in [
            (0.1234, "0.124"),
            (0.88, "0.88"),
            (3.0, "3"),
            (31.41, "31.5"),
            (5475.8, "5476"),
            (1e-300, "0.000001"),
            (0.0, "0"),
        ] {
            assert_eq!(short(number), text);
        }
    }
}
