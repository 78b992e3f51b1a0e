//! What the room does for the federation of rooms that it is in.

use std::sync::Arc;

use unmask_core::ModelState;
use unmask_federation::{Event, RoomPhase};

use super::{
    Actor,
    evaluation::HeldOut,
    federation::{Contribution, Done, FederationInput, TrainRequest},
};

impl Actor {
    pub(super) fn hear_federation(&mut self, input: FederationInput) {
        match input {
            FederationInput::Link { link, remark } => {
                if let Some(line) = self.federation.linked(link, remark) {
                    self.say(line);
                }
            }
            FederationInput::Train(request) => self.train_for_federation(request),
            FederationInput::GiveUp { number } if self.federation.is_at(number) => {
                let reason = if self.roster.present().next().is_none() {
                    "nobody is in the room".to_owned()
                } else {
                    self.federation.progress()
                };
                self.give_up(&format!("The time for the federation's work is up: {reason}."), &reason);
            }
            // It was done at that very moment, or another request has taken its place.
            FederationInput::GiveUp { .. } => {}
            FederationInput::Abandon if self.federation.has_job() => {
                self.give_up("Nobody waits any more for the federation's work.", "nobody waits for it any more");
            }
            FederationInput::Abandon => {}
            // Whoever asked may have gone.
            FederationInput::HeldOut { reply } => drop(reply.send(self.held_out())),
        }
    }

    fn train_for_federation(&mut self, TrainRequest { number, state, rounds, round, reply }: TrainRequest) {
        if let Err(reason) = self.may_train(&state) {
            self.say(format!("The federation's work is refused: {reason}."));
            return drop(reply.send(Err(reason)));
        }
        self.federation.begin(number, rounds, round, reply);
        let which = round.map_or_else(String::new, |round| format!(" for its round {round}"));
        let long = if rounds == 1 { "one round".to_owned() } else { format!("{rounds} rounds") };
        self.say(format!("The federation has sent weights{which}; the room trains them for {long}."));
        self.handle(Event::SetWeights(Some(state)));
    }

    fn may_train(&self, state: &ModelState) -> Result<(), String> {
        if self.room.coming().encryption().is_some() || self.room.seal().is_some() {
            return Err(
                "the room's rounds are encrypted, and nobody outside of it could use their weights; choose another \
                        defence"
                    .to_owned(),
            );
        }
        let (model, coming) = (self.room.model(), self.coming_architecture());
        let lengths = |state: &ModelState| (state.weights.len(), state.statistics.len());
        if coming != model.architecture || lengths(state) != lengths(&model.state) {
            return Err(format!("the room begins with another model, {coming}"));
        }
        Ok(())
    }

    /// Runs the next round for the federation, unless one runs or is to come anyway.
    pub(super) fn federate(&mut self) {
        if self.federation.wants_round() && self.room.phase() == RoomPhase::Paused {
            self.feed(Event::OneRound);
        }
    }

    /// The federation's work is done: its weights go back. The next round leaves them as they are.
    pub(super) fn contribute(&mut self, Done { samples, reply }: Done, clients: u32, loss: Option<f32>) {
        if self.room.seal().is_some() {
            return drop(reply.send(Err("the room's model was encrypted meanwhile".to_owned())));
        }
        let contribution = Contribution {
            model: Arc::clone(self.room.model()),
            samples,
            clients,
            loss,
            settings: self.room.settings(),
            held_out: self.held_out(),
        };
        self.say("The room's weights go back to the federation.");
        drop(reply.send(Ok(contribution)));
    }

    fn give_up(&mut self, line: &str, reason: &str) {
        // A round that waits for somebody waits in vain; one that runs still ends.
        if self.room.phase() == RoomPhase::Waiting && self.room.is_for_one_round() {
            self.handle(Event::Pause);
        }
        self.handle(Event::SetWeights(None));
        self.say(line);
        self.federation.fail(reason);
    }

    fn held_out(&self) -> Result<HeldOut, String> {
        self.measuring.held_out(&self.room, &self.sharing)
    }
}
