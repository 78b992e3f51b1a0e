//! Hands masked updates to the students who attack them, and their results.

use unmask_core::{ClientId, Defence, TrainingPictures, UpdateForm};
use unmask_defence::ProtectedUpdate;
use unmask_lesson::{Place, Question, uniform_rate};
use unmask_wire::{LoanHeader, PollState, RelayMessage, view::PodiumView};

use super::{
    Classroom,
    contest::{Contest, Dealt, Score},
    roster::Entry,
};
use crate::outbox::{OutboxMessage, Slot};

impl Classroom {
    /// Follows the class's question: a game begins with it, loses its updates when it is closed, and ends with it.
    pub(super) fn follow_question(&mut self) {
        let lesson = self.stage.state();
        let asked = lesson.poll.filter(|asked| asked.poll.question == Question::WhoseUpdate);
        let Some(asked) = asked else {
            self.take_back_loans();
            self.contest = None;
            return;
        };
        if self.contest.as_ref().is_none_or(|contest| contest.poll() != asked.number) {
            self.take_back_loans();
            self.contest = Some(self.new_contest(&asked));
        }
        if asked.is_open {
            return;
        }
        self.take_back_loans();
        let Some(contest) = &mut self.contest else { return };
        contest.close();
        if (Place { scene: lesson.scene, beat: lesson.beat }).tells(asked.poll.question) {
            for score in contest.tell() {
                self.tell_score(score);
            }
        }
    }

    /// Takes back a restored question about updates: they were nowhere but in the memory of the relay before, so a
    /// withdrawal would reach nobody. Phones drop what they borrowed with the question.
    pub(super) fn end_restored_game(&mut self) {
        if self.stage.drop_question(Question::WhoseUpdate) {
            self.say(
                "The game about each other's updates ended with the relay; from the beginning of the scene it can be played again.",
            );
        }
    }

    fn new_contest(&mut self, asked: &PollState) -> Contest {
        let suspects = asked.poll.suspects.iter().map(|suspect| suspect.client).collect();
        Contest::new(asked.number, suspects, self.room.round(), self.randomness.seed())
    }

    /// A copy of an update as its owner lends it; `None` unless the game waits for it, it is the masked gradient of
    /// private pictures, and its owner shows the picture that tells whose it is.
    pub(super) fn loan(
        &self,
        client: ClientId,
        (round, samples): (u32, u32),
        update: &ProtectedUpdate,
    ) -> Option<(LoanHeader, Vec<f32>)> {
        let contest = self.contest.as_ref()?;
        let settings = self.room.settings();
        let is_masked = matches!(update.form, UpdateForm::Masked { .. })
            && matches!(settings.defence(), Defence::RandomBinary { .. })
            && uniform_rate(settings.defence()).is_some_and(|rate| rate.get() > 0.0);
        let is_private_gradient = settings.pictures() == TrainingPictures::Private && !settings.rule().is_fedavg();
        let shows = self.pictures.original(client).is_some();
        let lends = is_masked && is_private_gradient && shows && self.roster.get(client).is_some_and(Entry::may_lend);
        if !lends || !contest.wants(client, round, update.values.len()) {
            return None;
        }
        let header = LoanHeader {
            poll: contest.poll(),
            round,
            model: self.room.model().architecture.into(),
            defence: settings.defence(),
            rule: settings.rule(),
            batch: settings.batch(),
            samples,
            form: update.form,
        };
        Some((header, update.values.clone()))
    }

    /// A round has closed: hands out its updates, if the game waits for them.
    pub(super) fn deal_loans(&mut self, round: u32) {
        let people: Vec<ClientId> = self.roster.present().filter(|entry| !entry.is_robot()).map(Entry::id).collect();
        let Some(dealt) = self.contest.as_mut().and_then(|contest| contest.closed(round, &people)) else { return };
        let loans = dealt.iter().filter(|dealt| dealt.loan.is_some()).count();
        if loans == 0 {
            self.say(format!(
                "Round {round} brought no update to attack: it needs a mask, a student who lends and shows the \
                 picture, and a model that phones can attack."
            ));
        } else {
            self.say(format!("{loans} clients got another client's masked update to attack."));
        }
        self.send_loans(dealt);
    }

    /// Sends a client that has joined or come back what the others have.
    pub(super) fn catch_up(&mut self, client: ClientId) {
        if self.roster.get(client).is_none_or(Entry::is_robot) {
            return;
        }
        let Some(contest) = &mut self.contest else { return };
        let (dealt, score) = (contest.joined(client), contest.told(client));
        self.send_loans(dealt.into_iter().collect());
        if let Some(score) = score {
            self.tell_score(score);
        }
    }

    /// A client lends its update no more: those who had it get another one.
    pub(super) fn stop_lending(&mut self, client: ClientId) {
        let Some(contest) = &mut self.contest else { return };
        let (is_open, dealt) = (contest.is_open(), contest.withdraw(client));
        for borrower in dealt.iter().filter(|_| is_open) {
            // It was about another update.
            self.stage.retract(borrower.to);
        }
        self.send_loans(dealt);
    }

    pub(super) fn podium(&self) -> Option<PodiumView> {
        let nickname = |client| self.roster.get(client).map(|entry| entry.nickname().to_owned());
        self.contest.as_ref()?.podium(nickname)
    }

    fn send_loans(&mut self, dealt: Vec<Dealt>) {
        let Some(poll) = self.contest.as_ref().map(Contest::poll) else { return };
        // Those with the same update share one encoded copy.
        let mut encoded: Vec<(ClientId, OutboxMessage)> = Vec::new();
        for Dealt { to, loan } in dealt {
            let Some(lent) = loan else {
                self.roster.take_back(to, Slot::Loan);
                self.send(to, Slot::LoanEnded, &RelayMessage::LoanEnded { poll }, &[]);
                continue;
            };
            let known = encoded.iter().find(|(owner, _)| *owner == lent.owner()).map(|(_, it)| it.clone());
            let message = known.or_else(|| {
                let message = RelayMessage::Loan(lent.header.clone());
                let message = OutboxMessage::encode(&message, &lent.values)?;
                encoded.push((lent.owner(), message.clone()));
                Some(message)
            });
            if let Some(message) = message {
                self.put(to, Slot::Loan, message);
            }
        }
    }

    fn tell_score(&mut self, Score { client, owner, points }: Score) {
        if let Some(poll) = self.contest.as_ref().map(Contest::poll) {
            self.send(client, Slot::All, &RelayMessage::Scored { poll, owner, points }, &[]);
        }
    }

    /// Drops the updates that wait to be sent.
    fn take_back_loans(&self) {
        if self.contest.is_some() {
            self.roster.present().for_each(|entry| self.roster.take_back(entry.id(), Slot::Loan));
        }
    }
}
