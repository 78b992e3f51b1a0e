//! The picture that the teacher dropped: was it the client's?

use unmask_wire::view::MembershipView;

use super::{Actor, attacking::blank};
use crate::attacks::{About, Candidate, MembershipAnswer};

/// A picture as the model sees it.
#[derive(Debug)]
pub(crate) struct CandidatePicture {
    /// `[side, side, 3]` in [0, 1].
    pub(crate) values: Vec<f32>,
    pub(crate) png: Vec<u8>,
}

impl Actor {
    /// Asks for this picture from now on, in place of the one before.
    pub(super) fn take_candidate(&mut self, CandidatePicture { values, png }: CandidatePicture) -> Result<(), String> {
        let side = self.room.model().architecture.side();
        if values.len() != 3 * side * side {
            return Err(format!(
                "The picture has not the {side} x {side} pixels that the room's model sees; drop it again."
            ));
        }
        self.attacking.candidates += 1;
        let number = self.attacking.candidates;
        let path = self.attacking.pictures.keep_candidate(number, png);
        self.attacking.membership = Some(blank(path));
        self.attacking.attacker.ask(Some(Candidate { number, values }));
        self.say("The teacher dropped a picture: was it among those of the client under attack?".to_owned());
        Ok(())
    }

    pub(super) fn forget_candidate(&mut self) {
        self.attacking.attacker.ask(None);
        self.attacking.pictures.forget_candidate();
        self.attacking.membership = None;
    }

    /// Takes the answer on the picture of this number.
    pub(super) fn take_membership(&mut self, about: &About, number: u64, outcome: Result<MembershipAnswer, String>) {
        if number != self.attacking.candidates || about.serial < self.attacking.membership_of {
            return;
        }
        self.attacking.membership_of = about.serial;
        let Some(MembershipView { picture, .. }) = self.attacking.membership.take() else { return };
        let mut view = MembershipView {
            round: about.round,
            client: about.client,
            nickname: self.roster.name(about.client).to_owned(),
            defence: about.defence,
            ..blank(picture)
        };
        match outcome {
            Ok(MembershipAnswer { verdict, residual, interval, distractors, sentence }) => {
                view.verdict = Some(verdict);
                (view.residual, view.interval, view.distractors) = (Some(residual), Some(interval), distractors);
                view.remark = Some(sentence);
            }
            Err(reason) => view.remark = Some(format!("Cannot, because {reason}.")),
        }
        self.attacking.membership = Some(view);
    }
}
