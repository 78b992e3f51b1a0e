//! Labels read off the head.

use unmask_attack::LabelReading;
use unmask_core::ClientId;
use unmask_wire::view::LabelView;

use super::about::About;

/// Energies closer than this ratio leave the choice open.
const CLOSE: f64 = 2.0;

/// What the head's gradients told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Labels {
    /// Pictures of each class.
    pub(crate) counts: Vec<usize>,
    /// What each class has of the evidence, adding up to 1.
    pub(crate) shares: Vec<f64>,
    /// What to know about it.
    pub(crate) remark: Option<String>,
}

/// What the head tells, and what to know about it.
pub(super) fn with_remarks(LabelReading { counts, shares, margin }: LabelReading, about: &About) -> Labels {
    let doubt = match margin {
        Some(margin) => (margin < CLOSE).then_some("Two classes have nearly the same evidence."),
        None => Some("Counted as if the model still found all classes equally likely."),
    };
    let noise =
        about.defence.noise().is_some().then_some("Noise was added to this update: what stands out may be the noise.");
    let plain =
        about.defence.is_encrypted().then_some("The head is not encrypted: the key covers the embeddings alone.");
    let remarks: Vec<&str> = [doubt, noise, plain].into_iter().flatten().collect();
    Labels { counts, shares, remark: (!remarks.is_empty()).then(|| remarks.join(" ")) }
}

/// What the room shows of them.
#[derive(Debug, Default)]
pub(super) struct LabelCard {
    view: Option<LabelView>,
    /// Number of the update that they were last told of.
    serial: u64,
}

impl LabelCard {
    /// What was told last.
    pub(super) fn view(&self) -> Option<&LabelView> {
        self.view.as_ref()
    }

    /// A new model begins.
    pub(super) fn forget(&mut self) {
        self.view = None;
    }

    /// Forgets what was told of this client.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.view.take_if(|view| view.client == client);
    }

    /// Takes what was told of an update, unless something was told of a newer one.
    pub(super) fn told(&mut self, about: &About, outcome: Result<Labels, String>, nickname: String) {
        if about.serial < self.serial {
            return;
        }
        self.serial = about.serial;
        let (counts, shares, remark) = match outcome {
            Ok(Labels { counts, shares, remark }) => {
                (counts.into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect(), shares, remark)
            }
            Err(reason) => (Vec::new(), Vec::new(), Some(format!("Cannot, because {reason}."))),
        };
        self.view = Some(LabelView {
            round: about.round,
            client: about.client,
            nickname,
            defence: about.defence,
            samples: about.samples,
            counts,
            shares,
            remark,
        });
    }
}
