//! Remarks beside the result of an attack.

use unmask_attack::{Concealment, Misfit};
use unmask_core::{AttackFamily, AttackMethod, Knowledge, Rule};

use super::job::Job;

const KEYLESS: &str = "The embeddings are encrypted, in the update and in the weights that the relay holds: this \
                       attacker has no key and takes ciphertext for values.";

const FROZEN: &str = "This mask is the same in every round, so more rounds show no further entries. If the model has \
                      moved between them, they still give further equations for the same picture, and are solved \
                      together if there are enough.";

/// Says how much a picture's own gradient leaves unexplained; `None` if that is not finite.
pub(super) fn unexplained(misfit: &Misfit) -> Option<String> {
    let percent = 100.0 * misfit.relative;
    percent.is_finite().then(|| format!("Its own gradient leaves {percent:.1} % of what arrived unexplained."))
}

pub(super) fn on(method: AttackMethod, job: &Job) -> Vec<String> {
    let mut remarks = Vec::new();
    let (about, is_search) = (&job.about, method.is_search());
    if let Rule::FedAvg { epochs, .. } = about.rule {
        let epochs = if epochs == 1 { "1 local epoch".to_owned() } else { format!("{epochs} local epochs") };
        // Measured for one step at rate 0.1 of vit_lab_patch4_32: 80 dB, against 99 dB from a gradient; and where the
        // equations are nearly singular (April block), 15 dB against 35 dB.
        remarks.push(format!(
            "Made from weight differences after {epochs} instead of a gradient; differences of rounded weights show \
             less detail than a gradient would."
        ));
    }
    let is_key = method.family() == AttackFamily::Key;
    if job.concealment == Concealment::Embeddings && !is_key {
        remarks.push(KEYLESS.to_owned());
    } else if job.concealment == Concealment::Nothing
        && !is_search
        && method != AttackMethod::Batch
        && method.knowledge() == Knowledge::Aware
    {
        remarks.push("No mask dropped anything here, so knowing masks adds nothing.".to_owned());
    }
    if method == AttackMethod::Rounds && about.defence.has_common_mask() {
        remarks.push(FROZEN.to_owned());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_unexplained_is_a_percentage() {
        let misfit = |relative| Misfit { relative, scale: 1.0, entries: 1 };
        let said = unexplained(&misfit(0.123)).unwrap();
        assert!(said.contains("12.3 %"), "{said}");
        assert_eq!(unexplained(&misfit(f64::NAN)), None);
    }
}
