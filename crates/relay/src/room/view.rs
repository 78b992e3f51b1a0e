//! The room as everybody may see it.

use std::sync::Arc;

use unmask_federation::{MemberState, OptimiserKind, Phase as RoomPhase};
use unmask_wire::view::{ClientState, ClientView, Phase, RoomView};

use super::Actor;
use crate::{roster::Entry, snapshot::Snapshot};

/// What never changes in the view.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// Address students open, over plain HTTP.
    pub(crate) http_address: String,
    /// The same over HTTPS.
    pub(crate) https_address: String,
    /// QR code of the latter.
    pub(crate) qr_svg: String,
}

impl Actor {
    /// Publishes the room as it is now.
    pub(super) fn publish(&self) {
        let deadline = self.deadline.as_ref().map(|(at, _)| *at);
        self.snapshots.send_replace(Snapshot { view: Arc::new(self.view()), deadline });
    }

    fn view(&self) -> RoomView {
        let model = self.room.model();
        RoomView {
            phase: match self.room.phase() {
                RoomPhase::Paused => Phase::Paused,
                RoomPhase::Waiting => Phase::Waiting,
                RoomPhase::Training => Phase::Training,
                RoomPhase::Between => Phase::Between,
            },
            round: self.room.round(),
            deadline_seconds: None,
            model: model.spec.preset.name().to_owned(),
            april_block: model.spec.april_block,
            parameters: model.weights.len(),
            rule: "FedSGD".to_owned(),
            optimiser: match self.room.optimiser() {
                OptimiserKind::Sgd { rate } => format!("SGD, {rate}"),
                OptimiserKind::Adam { rate } => format!("Adam, {rate}"),
            },
            defence: self.room.defence().to_string(),
            next: self.next(),
            http_address: self.standing.http_address.clone(),
            https_address: self.standing.https_address.clone(),
            qr_svg: self.standing.qr_svg.clone(),
            clients: self.roster.iter().map(|entry| self.client(entry)).collect(),
            losses: self.losses.iter().cloned().collect(),
            target: self.room.target().map(|client| client.0),
            attacks: self.attacked.views().cloned().collect(),
            log: self.log.iter().cloned().collect(),
        }
    }

    /// What was chosen for the next round; a defence alone in its string form.
    fn next(&self) -> Option<String> {
        let block = self.room.next_model().map(|spec| {
            let block = if spec.april_block { "April block" } else { "standard block" };
            format!("{block}, new weights")
        });
        let defence = self.room.next_defence().map(|defence| defence.to_string());
        match (block, defence) {
            (Some(block), Some(defence)) => Some(format!("{block}; {defence}")),
            (block, defence) => block.or(defence),
        }
    }

    fn client(&self, entry: &Entry) -> ClientView {
        ClientView {
            id: entry.id.0,
            nickname: entry.nickname.clone(),
            device: entry.device.clone(),
            state: match (&entry.link, self.room.member(entry.id)) {
                (None, _) | (Some(_), None) => ClientState::Gone,
                (Some(_), Some(MemberState::Joined)) => ClientState::Joined,
                (Some(_), Some(MemberState::Training)) => ClientState::Training,
                (Some(_), Some(MemberState::Sent)) => ClientState::Sent,
                (Some(_), Some(MemberState::Late)) => ClientState::Late,
            },
            loss: entry.loss,
            bytes_sent: entry.bytes_sent,
            updates: entry.updates,
        }
    }
}
