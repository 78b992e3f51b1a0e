//! The state of the lesson, and the lesson's plan as the teacher's controls.

use serde::{Deserialize, Serialize};
use unmask_core::{ClientId, Defence, InitialWeights};
use unmask_lesson::{Asked, Change, Place, Poll, Scene, Situation, SumKind, Volunteer};

use super::{ClientView, Control, RoomView};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LessonView {
    pub scene: Scene,
    /// Step in the scene, from 0.
    pub beat: u8,
    /// The last question, open or closed, until the scene changes.
    pub poll: Option<PollView>,
}

/// A question that was asked, with its votes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollView {
    /// Increases with each question, so that a late vote does not count for the wrong one.
    pub number: u32,
    pub poll: Poll,
    pub is_open: bool,
    /// One for each person who voted, sorted to hide who cast it; empty while the poll is open, unless
    /// [it is live](unmask_lesson::Question::is_live).
    pub votes: Vec<u16>,
    /// The same for robots, whose votes are random.
    pub robots: Vec<u16>,
    /// Number of people who voted.
    pub voters: u32,
}

/// The published list of a round's updates, which people compare on their devices and the wall.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListedView {
    pub round: u32,
    /// Number of updates in it.
    pub updates: u32,
    /// Its root and the round's weights as four words.
    pub words: String,
}

/// Who found out whose update their device attacked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PodiumView {
    /// At most three with the most points; among equals those whose guess came first.
    pub winners: Vec<WinnerView>,
    /// Further people with as many points as the last winner.
    pub others: u32,
    /// People who attacked an update and guessed.
    pub attackers: u32,
    /// How many of them were right before they knew the gaps.
    pub found_before: u32,
    /// How many were right in the end.
    pub found: u32,
    /// The number of answers to choose from.
    pub suspects: u32,
}

/// A person on the podium.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WinnerView {
    pub client: ClientId,
    pub nickname: String,
    /// From 1. Those with the same points share a place.
    pub place: u32,
    pub points: u8,
}

impl PollView {
    /// The votes that count: those of people, or of robots where no person voted.
    pub fn counted(&self) -> &[u16] {
        if self.votes.is_empty() { &self.robots } else { &self.votes }
    }
}

impl LessonView {
    pub fn place(&self) -> Place {
        Place { scene: self.scene, beat: self.beat }
    }
}

impl ClientView {
    /// Whether this client is here and may be attacked in front of the class.
    pub fn is_volunteer(&self) -> bool {
        self.may_show && self.state.is_here()
    }
}

impl RoomView {
    /// The defence from the next round on.
    pub fn coming_defence(&self) -> Defence {
        self.next.as_ref().and_then(|next| next.defence).unwrap_or(self.defence)
    }

    /// The room as the lesson's plan sees it.
    pub fn situation(&self) -> Situation {
        let next = self.next.clone().unwrap_or_default();
        let volunteer = |client: &ClientView| Volunteer {
            client: client.id,
            nickname: client.nickname.clone(),
            shows_picture: client.original.is_some(),
            lends_update: client.lends_update,
            is_robot: client.is_robot,
        };
        let asked =
            |view: &PollView| Asked { question: view.poll.question, is_open: view.is_open, votes: view.votes.clone() };
        Situation {
            place: self.lesson.place(),
            asked: self.lesson.poll.as_ref().map(asked),
            architecture: next.architecture.unwrap_or(self.architecture),
            initial_weights: self.initial_weights,
            round: self.round,
            defence: self.coming_defence(),
            is_encrypted: self.defence.is_encrypted(),
            rule: next.rule.unwrap_or(self.rule),
            aggregation: next.aggregation.unwrap_or(self.aggregation),
            fishes_for: self.fishes_for,
            is_careful: self.is_careful,
            least_in_secure_sum: self.least_in_secure_sum,
            batch: next.batch.unwrap_or(self.batch),
            train_on: self.data.as_ref().map(|data| next.train_on.unwrap_or(data.train_on)),
            is_paused: !self.runs_on,
            search: self.search,
            has_searched: self.attacks.iter().any(|attack| attack.search.is_some() && attack.round == 1),
            has_added: self.lesson.place().beat().sum() == Some(SumKind::OfFew)
                && self.sum.as_ref().is_some_and(|sum| sum.round == 1 && !sum.has_failed()),
            target: self.target,
            label: self.label.as_ref().and_then(|label| Some((label.client, label.only_class()?))),
            candidate: self.membership.as_ref().and_then(|membership| membership.owner),
            volunteers: self.clients.iter().filter(|client| client.is_volunteer()).map(volunteer).collect(),
        }
    }
}

impl From<Change> for Control {
    fn from(change: Change) -> Self {
        match change {
            Change::Go(Place { scene, beat }) => Self::Lesson { scene, beat },
            Change::Pause => Self::Pause,
            Change::Start => Self::Start,
            Change::OneRound => Self::OneRound,
            Change::Search(on) => Self::Search { on },
            Change::Model(architecture) => Self::Architecture {
                name: architecture.name().into_owned(),
                april_block: architecture.april_block(),
                initial_weights: InitialWeights::Scratch,
            },
            Change::Defence(defence) => Self::Defence { defence },
            Change::TrainOn(pictures) => Self::TrainOn { pictures },
            Change::Rule(rule) => Self::Rule { rule },
            Change::Aggregation(aggregation) => Self::Aggregation { aggregation },
            Change::Fish(class) => Self::Fish { class },
            Change::Careful(on) => Self::Careful { on },
            Change::Batch(samples) => Self::Batch { samples },
            Change::Target(client) => Self::Target { client },
            Change::TestPicture(client) => Self::TestPicture { client },
            Change::Ask(poll) => Self::AskPoll { poll },
            Change::CloseQuestion => Self::ClosePoll,
        }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::ClientState;
    use unmask_core::{Architecture, TrainOn, VitPreset};

    use super::*;
    use crate::view::{AttackView, DataView, NextView, Phase, SearchView};

    #[test]
    fn a_situation_has_the_settings_of_the_next_round() {
        let coming = Architecture::from(VitPreset::Lab);
        let next = NextView { architecture: Some(coming), batch: Some(4), ..NextView::default() };
        let data = DataView { train_on: TrainOn::Shared, ..DataView::default() };
        let view = RoomView { next: Some(next), batch: 1, data: Some(data), ..RoomView::default() };
        let situation = view.situation();
        assert_eq!((situation.architecture, situation.batch), (coming, 4));
        assert_eq!(situation.train_on, Some(TrainOn::Shared));
        assert_eq!(RoomView::default().situation().train_on, None);
    }

    /// A round that ends while the plan is made must not count as one of many.
    #[test]
    fn a_single_round_is_a_pause() {
        let single = RoomView { phase: Phase::Training, ..RoomView::default() };
        assert!(single.situation().is_paused);
        assert!(!RoomView { runs_on: true, ..single }.situation().is_paused);
    }

    #[test]
    fn only_clients_that_agreed_and_are_here_volunteer() {
        let client = |id, may_show, state| ClientView { id: ClientId(id), may_show, state, ..ClientView::default() };
        let clients = vec![
            client(1, false, ClientState::Joined),
            client(2, true, ClientState::Gone),
            client(3, true, ClientState::Joined),
        ];
        let situation = RoomView { clients, ..RoomView::default() }.situation();
        assert_eq!(situation.volunteers.iter().map(|one| one.client).collect::<Vec<_>>(), [ClientId(3)]);
    }

    #[test]
    fn a_search_counts_if_it_attacked_the_first_round() {
        let searched = |round| {
            let attack = AttackView { round, search: Some(SearchView::default()), ..AttackView::default() };
            RoomView { attacks: vec![attack], ..RoomView::default() }.situation().has_searched
        };
        assert_eq!((searched(1), searched(2)), (true, false));
    }

    #[test]
    fn a_model_of_the_plan_is_named_with_its_block() {
        let april = Architecture::from(VitPreset::Nano).with_april_block(true);
        let Control::Architecture { name, april_block, .. } = Change::Model(april).into() else { panic!("a model") };
        let named = Architecture::named(&name, april.classes()).unwrap();
        assert_eq!(named.with_april_block(april_block), april);
    }
}
