//! The rounds that the room runs for an outer federation.

use std::sync::Arc;

use unmask_core::ModelState;
use unmask_federation::{Event, RoomPhase};

use super::{
    Classroom,
    evaluation::HeldOut,
    measuring::NotMeasured,
    outer::{Contribution, Done, NoContribution, OuterInput, TrainRequest},
};

impl Classroom {
    pub(super) fn hear_outer(&mut self, input: OuterInput) {
        match input {
            OuterInput::Link { link, remark } => {
                if let Some(line) = self.outer.linked(link, remark) {
                    self.say(line);
                }
            }
            OuterInput::Train(request) => self.train_for_outer(request),
            OuterInput::GiveUp { number } if self.outer.is_at(number) => {
                let is_empty = self.roster.present().next().is_none();
                let reason = if is_empty { NoContribution::NobodyHere } else { self.outer.late() };
                self.give_up(&format!("The time for the federation's work is up: {reason}."), reason);
            }
            // The work finished in the meantime, or another request has replaced it.
            OuterInput::GiveUp { .. } => {}
            OuterInput::Abandon if self.outer.has_job() => {
                self.give_up("Nobody is waiting for the federation's work any more.", NoContribution::Abandoned);
            }
            OuterInput::Abandon => {}
            // The requester may be gone.
            OuterInput::HeldOut { reply } => reply.send(self.held_out()),
        }
    }

    fn train_for_outer(&mut self, TrainRequest { number, state, rounds, round, reply }: TrainRequest) {
        if let Err(reason) = self.may_train(&state) {
            self.say(format!("The federation's work is refused: {reason}."));
            return reply.send(Err(reason));
        }
        self.outer.begin(number, rounds, round, reply);
        let which = round.map_or_else(String::new, |round| format!(" for its round {round}"));
        let long = if rounds == 1 { "one round".to_owned() } else { format!("{rounds} rounds") };
        self.say(format!("The federation has sent weights{which}; the room trains them for {long}."));
        self.weights_begin_again();
        self.handle(Event::SetWeights(Some(state)));
    }

    fn may_train(&self, state: &ModelState) -> Result<(), NoContribution> {
        if self.room.coming().encryption().is_some() || self.room.seal().is_some() {
            return Err(NoContribution::Encrypted);
        }
        let (model, coming) = (self.room.model(), self.coming_architecture());
        let lengths = |state: &ModelState| (state.weights.len(), state.statistics.len());
        if coming != model.architecture || lengths(state) != lengths(&model.state) {
            return Err(NoContribution::OtherModel { coming });
        }
        Ok(())
    }

    /// Runs the next round for the outer federation, unless a round is running or due anyway.
    pub(super) fn work_for_outer(&mut self) {
        if self.outer.wants_round() && self.room.phase() == RoomPhase::Paused {
            self.feed(Event::OneRound);
        }
    }

    /// Sends the weights back to the federation, whose work is done. The next round does not change them.
    pub(super) fn contribute(&mut self, Done { samples, reply }: Done, clients: u32, loss: Option<f32>) {
        if self.room.seal().is_some() {
            return reply.send(Err(NoContribution::EncryptedMeanwhile));
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
        reply.send(Ok(contribution));
    }

    fn give_up(&mut self, line: &str, reason: NoContribution) {
        // Stop waiting for clients for the federation's round; a running round still ends.
        if self.room.phase() == RoomPhase::Waiting && self.room.is_for_one_round() {
            self.handle(Event::Pause);
        }
        self.handle(Event::SetWeights(None));
        self.say(line);
        self.outer.fail(reason);
    }

    fn held_out(&self) -> Result<HeldOut, NotMeasured> {
        self.measuring.held_out(&self.room, &self.sharing)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::Receiver, time::Duration};

    use unmask_core::{Architecture, UpdateForm, VitPreset};
    use unmask_wire::{ClientMessage, RelayMessage, frames, view::Control};

    use super::*;
    use crate::{
        bench::{Bench, Sent, Surroundings, reply},
        config::RoomConfig,
        input::Input,
    };

    type Answer = Receiver<Result<Contribution, NoContribution>>;

    /// A room in an outer federation, driven in place of the server.
    struct Member {
        bench: Bench,
        client: Option<usize>,
    }

    impl Member {
        fn new() -> Self {
            let config = RoomConfig {
                architecture: model(),
                pace: Duration::ZERO,
                attack_budget: Duration::ZERO,
                ..RoomConfig::default()
            };
            let federation = Some("http://flower.test:9092".to_owned());
            let bench = Bench::open(config, Surroundings { federation, ..Surroundings::default() }).unwrap();
            Self { bench, client: None }
        }

        fn join(&mut self) {
            let client = self.bench.connect();
            let (nickname, device) = ("Ada".to_owned(), "CPU".to_owned());
            self.say(
                client,
                &ClientMessage::Hello {
                    nickname,
                    resume: None,
                    device,
                    may_show: true,
                    may_lend: false,
                    is_robot: false,
                    commitment: [0; 32],
                    page: [0; 32],
                },
                &[],
            );
            self.client = Some(client);
        }

        fn say(&mut self, client: usize, message: &ClientMessage, values: &[f32]) {
            frames(message, values).unwrap().iter().for_each(|frame| self.bench.receive(client, frame));
        }

        fn tell(&mut self, input: OuterInput) {
            self.bench.tell(Input::Outer(input));
            self.bench.pass(Duration::from_millis(20));
        }

        /// Requests `rounds` rounds from weights of this value, as the server does.
        fn ask(&mut self, number: u64, rounds: u32, value: f32) -> Answer {
            let layout = model().layout();
            let state = ModelState { weights: vec![value; layout.len()], statistics: Vec::new() };
            self.ask_from(number, rounds, state)
        }

        fn ask_from(&mut self, number: u64, rounds: u32, state: ModelState) -> Answer {
            let (reply, answer) = reply();
            self.tell(OuterInput::Train(TrainRequest { number, state, rounds, round: Some(1), reply }));
            answer
        }

        /// Answers the client's newest plan with an update of zeros, which moves no weight. Returns the first weight in
        /// that plan, if there was one.
        fn train(&mut self) -> Option<f32> {
            let client = self.client?;
            let asked = self.bench.sent(client).into_iter().filter_map(|sent| match sent {
                Sent::Model(message, state) => match message.as_ref() {
                    RelayMessage::Plan(plan) => Some((plan.round, plan.policy, state.weights[0])),
                    _ => None,
                },
                _ => None,
            });
            let (round, policy, weight) = asked.last()?;
            let update =
                ClientMessage::Update { round, policy, loss: 2.0, samples: 1, form: UpdateForm::Dense, draw: None };
            self.say(client, &update, &vec![0.0; model().layout().len()]);
            self.bench.pass(Duration::from_millis(20));
            Some(weight)
        }

        fn control(&mut self, control: Control) {
            self.bench.control(control).unwrap();
            self.bench.pass(Duration::from_millis(20));
        }

        fn is_held(&self) -> bool {
            self.bench.view().federation.as_ref().unwrap().is_held
        }
    }

    fn model() -> Architecture {
        VitPreset::Pico.into()
    }

    fn refusal(answer: &Answer) -> String {
        answer.try_recv().expect("an answer").unwrap_err().to_string()
    }

    #[test]
    fn a_room_that_nobody_started_trains_as_often_as_it_is_asked() {
        let mut member = Member::new();
        member.join();
        let answer = member.ask(1, 2, 0.5);
        assert_eq!((member.train(), answer.try_recv().is_err()), (Some(0.5), true), "one of two rounds");
        assert_eq!(member.train(), Some(0.5));
        let contribution = answer.try_recv().unwrap().unwrap();
        assert_eq!((contribution.samples, contribution.clients), (2, 1));
        assert!(contribution.model.state.weights.iter().all(|weight| *weight == 0.5));
        assert_eq!(member.train(), None, "it pauses again");
    }

    #[test]
    fn a_newer_request_takes_the_place_of_an_older_one() {
        let mut member = Member::new();
        member.join();
        let older = member.ask(1, 1, 0.5);
        let newer = member.ask(2, 1, 0.25);
        assert!(refusal(&older).contains("something else"));
        // The older request's time limit does not affect the newer one.
        member.tell(OuterInput::GiveUp { number: 1 });
        assert!(newer.try_recv().is_err());
        while let Some(weight) = member.train() {
            assert!(weight == 0.5 || weight == 0.25, "{weight}");
        }
        assert!(newer.try_recv().unwrap().unwrap().model.state.weights.iter().all(|weight| *weight == 0.25));
    }

    #[test]
    fn nobody_there_is_said_when_the_time_is_up() {
        let mut member = Member::new();
        let answer = member.ask(1, 1, 0.5);
        assert!(answer.try_recv().is_err(), "it waits for somebody");
        member.tell(OuterInput::GiveUp { number: 1 });
        assert_eq!(refusal(&answer), "nobody is in the room");
        member.join();
        assert_eq!(member.train(), None, "what nobody waits for is not trained");
    }

    #[test]
    fn a_paused_room_holds_the_federation_and_says_so() {
        let mut member = Member::new();
        member.join();
        member.control(Control::Pause);
        let answer = member.ask(1, 1, 0.5);
        assert_eq!((member.train(), member.is_held()), (None, true));
        member.tell(OuterInput::GiveUp { number: 1 });
        assert_eq!(refusal(&answer), "0 of 1 rounds were done in time, because the room is paused");
        let answer = member.ask(2, 1, 0.25);
        member.control(Control::Start);
        assert_eq!((member.train(), member.is_held()), (Some(0.25), false));
        assert!(answer.try_recv().unwrap().is_ok());
    }

    #[test]
    fn work_that_nobody_waits_for_ends() {
        let mut member = Member::new();
        let answer = member.ask(1, 1, 0.5);
        member.tell(OuterInput::Abandon);
        assert!(refusal(&answer).contains("nobody is waiting"));
        member.tell(OuterInput::Abandon);
        member.join();
        assert_eq!(member.train(), None);
    }

    #[test]
    fn what_a_room_cannot_train_is_refused_at_once() {
        let mut member = Member::new();
        let short = ModelState { weights: vec![0.5; 3], statistics: Vec::new() };
        assert!(refusal(&member.ask_from(1, 1, short)).contains("another model"));
        member.control(Control::Optimiser { optimiser: "sgd:0.1".parse().unwrap() });
        member.control(Control::Defence { defence: "encrypted".parse().unwrap() });
        assert!(refusal(&member.ask(2, 1, 0.5)).contains("encrypted"));
    }

    #[test]
    fn nothing_ends_where_nothing_was_asked() {
        let mut member = Member::new();
        member.tell(OuterInput::Abandon);
        let view = member.bench.view();
        assert!(!view.log.iter().any(|line| line.text.contains("Nobody is waiting")), "{:?}", view.log);
    }
}
