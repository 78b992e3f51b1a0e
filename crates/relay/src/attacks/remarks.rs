//! What to know about whatever an attack makes of an update.

use unmask_attack::{Concealment, Misfit};
use unmask_core::{AttackFamily, AttackMethod, Knowledge, Rule};

use super::job::Job;

/// What stands beside a picture made of ciphertext.
const KEYLESS: &str = "The embeddings are encrypted, in the update and in the weights that the relay holds: this attacker has \
                       no key and takes ciphertext for values.";

/// What stands beside rounds under one mask.
const FROZEN: &str = "This mask is the same in every round, so that more rounds show no further entries. Where the model has moved \
                      between them, they are further equations for the same picture all the same, and are solved together where \
                      counting allows.";

/// What a picture's own gradient says of it; nothing where it is beyond numbers.
pub(super) fn unexplained(misfit: &Misfit) -> Option<String> {
    let percent = 100.0 * misfit.relative;
    percent.is_finite().then(|| format!("Its own gradient leaves {percent:.1} % of what arrived unexplained."))
}

/// The remarks on a picture by `method`.
pub(super) fn on(method: AttackMethod, job: &Job) -> Vec<String> {
    let mut remarks = Vec::new();
    let (about, is_search) = (&job.about, method.is_search());
    if let Rule::FedAvg { epochs, .. } = about.rule {
        let epochs = if epochs == 1 { "1 local epoch".to_owned() } else { format!("{epochs} local epochs") };
        // Measured on one step at rate 0.1 of vit_lab_patch4_32: 80 dB where a gradient gives 99 dB, and, where the
        // equations are nearly singular (April block), 15 dB for 35 dB.
        remarks.push(format!(
            "From weight differences after {epochs}, which stand for a gradient; as differences of rounded weights they \
             show less detail than a gradient would."
        ));
    }
    let is_key = method.family() == AttackFamily::Key;
    if job.concealment == Concealment::Embeddings && !is_key {
        remarks.push(KEYLESS.to_owned());
    } else if job.concealment == Concealment::Nothing && !is_search && method.knowledge() == Knowledge::Aware {
        remarks.push("No mask dropped anything here, so that knowing masks adds nothing.".to_owned());
    }
    if method == AttackMethod::Rounds && about.defence.has_common_mask() {
        remarks.push(FROZEN.to_owned());
    }
    remarks
}
