//! Labels read from the head's gradients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unmask_attack::LabelReading;
use unmask_core::ClientId;
use unmask_wire::view::LabelView;

use super::{
    about::About,
    report::{Failure, NoResult},
};

/// If two energies differ by less than this factor, either class may be the right one.
const CLOSE: f64 = 2.0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    /// Number of pictures in each class.
    pub(crate) counts: Vec<usize>,
    /// Each class's share of the evidence; the shares add up to 1.
    pub(crate) shares: Vec<f64>,
    pub(crate) remark: Option<String>,
}

pub(super) fn with_remarks(LabelReading { counts, shares, margin }: LabelReading, about: &About) -> Labels {
    let doubt = match margin {
        Some(margin) => (margin < CLOSE).then_some("Two classes have nearly the same evidence."),
        None => Some("Counted as if the model still found all classes equally likely."),
    };
    let noise =
        about.defence.noise().is_some().then_some("Noise was added to this update: what stands out may be the noise.");
    let plain =
        about.defence.is_encrypted().then_some("The head is not encrypted: the key covers only the embeddings.");
    let remarks: Vec<&str> = [doubt, noise, plain].into_iter().flatten().collect();
    Labels { counts, shares, remark: (!remarks.is_empty()).then(|| remarks.join(" ")) }
}

/// The card that shows the labels.
#[derive(Debug, Default)]
pub(super) struct LabelCard {
    view: Option<LabelView>,
    /// Number of the update behind the card.
    serial: u64,
    /// The last update that was made from shared pictures.
    last_shared: u64,
    /// The last update before each client came, maybe with another picture.
    came_after: BTreeMap<ClientId, u64>,
}

impl LabelCard {
    pub(super) fn view(&self) -> Option<&LabelView> {
        self.view.as_ref()
    }

    /// The class of a client's own picture, as its last update showed it.
    pub(super) fn class_of(&self, client: ClientId) -> Option<u16> {
        let before = self.came_after.get(&client).copied().unwrap_or_default().max(self.last_shared);
        self.view.as_ref().filter(|view| view.client == client && self.serial > before)?.only_class()
    }

    /// A client came after this update, maybe with another picture.
    pub(super) fn came(&mut self, client: ClientId, serial: u64) {
        self.came_after.insert(client, serial);
    }

    /// This update is of shared pictures.
    pub(super) fn is_of_shared_pictures(&mut self, serial: u64) {
        self.last_shared = serial;
    }

    pub(super) fn forget(&mut self) {
        self.view = None;
    }

    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.view.take_if(|view| view.client == client);
        self.came_after.remove(&client);
    }

    /// Shows an update's labels, unless the card shows a newer update's.
    pub(super) fn show(&mut self, about: &About, outcome: Result<Labels, Failure>, nickname: String) {
        if about.serial < self.serial {
            return;
        }
        self.serial = about.serial;
        let (counts, shares, remark) = match outcome {
            Ok(Labels { counts, shares, remark }) => {
                (counts.into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect(), shares, remark)
            }
            Err(reason) => (Vec::new(), Vec::new(), Some(NoResult::Cannot(reason).to_string())),
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

#[cfg(test)]
mod tests {
    use unmask_core::{Defence, Rule};

    use super::*;

    fn remark(margin: Option<f64>, defence: Defence) -> Option<String> {
        let (epoch, serial, gathering, round, samples) = (0, 1, 0, 1, 1);
        let about =
            About { epoch, serial, gathering, client: ClientId(1), round, defence, rule: Rule::FedSgd, samples };
        with_remarks(LabelReading { counts: vec![1, 0], shares: vec![0.5; 2], margin }, &about).remark
    }

    #[test]
    fn doubts_are_told() {
        assert_eq!(remark(Some(CLOSE), Defence::None), None);
        let noise = "gaussian:eps=1,delta=0.5,clip=1".parse().unwrap();
        for (margin, defence, part) in [
            (Some(1.9), Defence::None, "nearly the same evidence"),
            (None, Defence::None, "equally likely"),
            (Some(CLOSE), noise, "may be the noise"),
        ] {
            assert!(remark(margin, defence).is_some_and(|remark| remark.contains(part)), "{part}");
        }
    }
}
