//! The lesson's position and its poll: scene, beat, question and votes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unmask_core::ClientId;
use unmask_lesson::{Place, Poll, PollError, Question, Scene};
use unmask_wire::{
    LessonState, PollState,
    view::{LessonView, PollView},
};

use super::{fishing::Fishing, roster::GONE};

/// Upper limit of votes for one question. It counts votes of clients that have left; one that rejoins as a new client
/// can vote again.
pub(super) const MAX_VOTERS: usize = 1000;

/// The lesson as the class follows it. The journal stores it as is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Stage {
    scene: Scene,
    beat: u8,
    /// Counts the questions.
    asked: u32,
    poll: Option<AskedPoll>,
    /// Whether clients are asked to check plans carefully. The journal keeps this at its end.
    #[serde(skip)]
    is_careful: bool,
    /// How the relay fishes. A relay that starts again is honest.
    #[serde(skip)]
    fishing: Option<Fishing>,
    /// Whether the teacher has paused the room and asked for no round since.
    #[serde(skip)]
    is_held: bool,
}

/// The last question with the clients' votes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct AskedPoll {
    poll: Poll,
    is_open: bool,
    votes: BTreeMap<ClientId, Vote>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Vote {
    answer: u16,
    is_robots: bool,
}

/// Why the class is not asked, in a sentence for the teacher.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum AskError {
    #[error("The class cannot be asked this: {0}.")]
    Poll(#[from] PollError),
    #[error("The class cannot be asked this: client {client} is not in the room.")]
    Stranger { client: ClientId },
    #[error("The class is not asked anything; ask it first.")]
    NoQuestion,
}

/// Why a vote does not count, as a clause.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum VoteError {
    #[error("a vote for question {number}, which is not asked; wait for the next one")]
    NotAsked { number: u32 },
    #[error("a vote for question {number}, which is closed; wait for the next one")]
    Closed { number: u32 },
    #[error("a vote for question {number}, which has {MAX_VOTERS} already; wait for the next one")]
    Full { number: u32 },
    #[error(transparent)]
    Answer(#[from] PollError),
}

impl Stage {
    /// Moves to a beat of a scene. Returns whether the scene changed, which removes the question.
    pub(crate) fn go(&mut self, scene: Scene, beat: u8) -> bool {
        let is_other = self.scene != scene;
        if is_other {
            self.poll = None;
        }
        (self.scene, self.beat) = (scene, beat);
        is_other
    }

    pub(crate) fn place(&self) -> Place {
        Place { scene: self.scene, beat: self.beat }
    }

    /// Asks the class a question, replacing the previous one. `nickname` knows the clients of the room: suspects get
    /// the names that the class knows.
    ///
    /// # Errors
    /// If the question is invalid, or a suspect is not in the room.
    pub(crate) fn ask(
        &mut self,
        mut poll: Poll,
        nickname: impl Fn(ClientId) -> Option<String>,
    ) -> Result<(), AskError> {
        poll.check()?;
        for suspect in &mut poll.suspects {
            suspect.nickname = nickname(suspect.client).ok_or(AskError::Stranger { client: suspect.client })?;
        }
        self.asked = self.asked.saturating_add(1);
        self.poll = Some(AskedPoll { poll, is_open: true, votes: BTreeMap::new() });
        Ok(())
    }

    /// Closes the vote. Closing it again is not an error, because a key may be pressed twice.
    ///
    /// # Errors
    /// If there is no question.
    pub(crate) fn close(&mut self) -> Result<(), AskError> {
        self.poll.as_mut().ok_or(AskError::NoQuestion)?.is_open = false;
        Ok(())
    }

    /// Takes back this question, if it is the last one asked. Returns whether it was.
    pub(crate) fn drop_question(&mut self, question: Question) -> bool {
        self.poll.take_if(|asked| asked.poll.question == question).is_some()
    }

    /// Number of votes for the last question.
    pub(crate) fn votes(&self) -> usize {
        self.poll.as_ref().map_or(0, |asked| asked.votes.len())
    }

    /// Takes a client's vote, replacing its earlier one.
    ///
    /// # Errors
    /// Why the vote does not count.
    pub(crate) fn vote(
        &mut self,
        (client, is_robots): (ClientId, bool),
        number: u32,
        answer: u16,
    ) -> Result<(), VoteError> {
        let asked = self.asked;
        let poll = match &mut self.poll {
            Some(poll) if number == asked => poll,
            _ => return Err(VoteError::NotAsked { number }),
        };
        if !poll.is_open {
            return Err(VoteError::Closed { number });
        }
        poll.poll.answers().check(answer)?;
        if poll.votes.len() >= MAX_VOTERS && !poll.votes.contains_key(&client) {
            return Err(VoteError::Full { number });
        }
        poll.votes.insert(client, Vote { answer, is_robots });
        Ok(())
    }

    /// Takes back a client's vote for the open question.
    pub(crate) fn retract(&mut self, client: ClientId) {
        if let Some(poll) = self.poll.as_mut().filter(|poll| poll.is_open) {
            poll.votes.remove(&client);
        }
    }

    /// Notes the right answer to the question, which the room has measured, or that there is none.
    pub(crate) fn answer(&mut self, answer: Option<u16>) {
        if let Some(asked) = &mut self.poll {
            asked.poll.correct = answer;
        }
    }

    /// Gives a suspect its new nickname. Returns whether the question names this client.
    pub(crate) fn rename(&mut self, client: ClientId, nickname: &str) -> bool {
        let suspects = self.poll.iter_mut().flat_map(|asked| &mut asked.poll.suspects);
        let mut named = suspects.filter(|suspect| suspect.client == client);
        named.next().map(|suspect| nickname.clone_into(&mut suspect.nickname)).is_some()
    }

    pub(crate) fn forget(&mut self, client: ClientId) {
        if let Some(poll) = &mut self.poll {
            poll.votes.remove(&client);
        }
        self.rename(client, GONE);
    }

    pub(crate) fn fishing(&self) -> Option<Fishing> {
        self.fishing
    }

    pub(crate) fn fish(&mut self, fishing: Option<Fishing>) {
        self.fishing = fishing;
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// The teacher pauses the room, or asks for rounds.
    pub(crate) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    pub(crate) fn is_careful(&self) -> bool {
        self.is_careful
    }

    /// Asks clients to check plans carefully, or no longer. Returns whether that is new.
    pub(crate) fn set_careful(&mut self, is_careful: bool) -> bool {
        std::mem::replace(&mut self.is_careful, is_careful) != is_careful
    }

    /// The stage as projector and teacher see it.
    pub(crate) fn view(&self) -> LessonView {
        let poll = self.poll.as_ref().map(|asked| PollView {
            number: self.asked,
            poll: asked.poll.clone(),
            is_open: asked.is_open,
            votes: asked.shown(false),
            robots: asked.shown(true),
            voters: asked.voters(),
        });
        LessonView { scene: self.scene, beat: self.beat, poll }
    }

    /// The stage as clients see it.
    pub(crate) fn state(&self) -> LessonState {
        let poll = self.poll.as_ref().map(|asked| {
            let is_told = !asked.is_open && self.place().tells(asked.poll.question);
            let counts = || asked.poll.answers().counts(&asked.shown(false));
            PollState {
                number: self.asked,
                poll: Poll { correct: asked.poll.correct.filter(|_| is_told), ..asked.poll.clone() },
                is_open: asked.is_open,
                counts: if asked.is_open { Vec::new() } else { counts() },
            }
        });
        LessonState {
            scene: self.scene,
            beat: self.beat,
            poll,
            is_careful: self.is_careful,
            is_doctored: self.fishing.is_some(),
        }
    }
}

impl AskedPoll {
    /// The votes of people or of robots, without names; empty until the vote is closed, unless it is live.
    fn shown(&self, is_robots: bool) -> Vec<u16> {
        if self.is_open && !self.poll.question.is_live() {
            return Vec::new();
        }
        let theirs = self.votes.values().filter(|vote| vote.is_robots == is_robots);
        let mut votes: Vec<u16> = theirs.map(|vote| vote.answer).collect();
        votes.sort_unstable();
        votes
    }

    /// The number of people who voted.
    fn voters(&self) -> u32 {
        u32::try_from(self.votes.values().filter(|vote| !vote.is_robots).count()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use unmask_lesson::Suspect;

    use super::*;

    fn guess() -> Poll {
        let suspect = |id| Suspect { client: ClientId(id), nickname: String::new() };
        Poll { question: Question::Whose, suspects: [1, 2, 3].map(suspect).to_vec(), correct: Some(1) }
    }

    fn person(id: u32) -> (ClientId, bool) {
        (ClientId(id), false)
    }

    fn nickname(client: ClientId) -> Option<String> {
        (client.0 <= 3).then(|| format!("robot {client}"))
    }

    fn asked() -> Stage {
        let mut stage = Stage::default();
        stage.go(Scene::Guess, 0);
        stage.ask(guess(), nickname).unwrap();
        stage
    }

    #[test]
    fn votes_are_hidden_until_the_poll_is_closed() {
        let mut stage = asked();
        for (client, answer) in [(1, 2), (2, 0), (1, 1)] {
            stage.vote(person(client), 1, answer).unwrap();
        }
        let (view, state) = (stage.view().poll.unwrap(), stage.state().poll.unwrap());
        assert_eq!((view.is_open, view.voters, view.votes), (true, 2, Vec::new()));
        assert_eq!((state.is_open, state.poll.correct, state.counts), (true, None, Vec::new()));
        stage.vote((ClientId(3), true), 1, 2).unwrap();
        stage.close().unwrap();
        let (view, state) = (stage.view().poll.unwrap(), stage.state().poll.unwrap());
        assert_eq!((view.is_open, view.voters, view.votes, view.robots), (false, 2, vec![0, 1], vec![2]));
        assert_eq!((state.is_open, state.poll.correct, state.counts), (false, None, vec![1, 1, 0]));
        // Phones learn the answer when the wall tells it.
        stage.go(Scene::Guess, 2);
        assert_eq!(stage.state().poll.unwrap().poll.correct, Some(1));
        stage.answer(Some(2));
        assert_eq!(stage.state().poll.unwrap().poll.correct, Some(2));
    }

    #[test]
    fn the_wall_follows_a_live_question() {
        let mut stage = Stage::default();
        stage.go(Scene::Mask, 0);
        let own = Poll { question: Question::OwnRate, suspects: Vec::new(), correct: None };
        stage.ask(own, nickname).unwrap();
        for rate in [40, 60] {
            stage.vote(person(1), 1, rate).unwrap();
        }
        stage.vote((ClientId(3), true), 1, 5).unwrap();
        let (view, state) = (stage.view().poll.unwrap(), stage.state().poll.unwrap());
        assert_eq!((view.votes, view.robots, view.voters), (vec![60], vec![5], 1));
        assert_eq!(state.counts, Vec::<u32>::new(), "phones do not");
    }

    #[test]
    fn votes_that_do_not_count_say_why() {
        let mut stage = Stage::default();
        assert!(stage.vote(person(1), 0, 0).unwrap_err().to_string().contains("is not asked"));
        assert!(stage.close().unwrap_err().to_string().contains("ask it first"));
        let mut stage = asked();
        for (number, answer, reason) in [(2, 0, "question 2, which is not asked"), (1, 3, "from 0 to 2")] {
            assert!(stage.vote(person(1), number, answer).unwrap_err().to_string().contains(reason));
        }
        for client in 0..MAX_VOTERS as u32 {
            stage.vote(person(client), 1, 0).unwrap();
        }
        assert!(stage.vote(person(u32::MAX), 1, 0).unwrap_err().to_string().contains("has 1000 already"));
        stage.vote(person(0), 1, 2).unwrap();
        stage.close().unwrap();
        assert!(stage.vote(person(0), 1, 1).unwrap_err().to_string().contains("which is closed"));
        stage.close().unwrap();
    }

    #[test]
    fn a_forgotten_client_has_no_vote_and_another_scene_no_question() {
        let mut stage = asked();
        stage.vote(person(1), 1, 2).unwrap();
        stage.forget(ClientId(1));
        assert_eq!(stage.view().poll.unwrap().voters, 0);
        assert!(!stage.go(Scene::Guess, 1) && stage.view().poll.is_some());
        assert!(stage.go(Scene::April, 0) && stage.view().poll.is_none());
        stage.ask(guess(), nickname).unwrap();
        assert_eq!(stage.view().poll.unwrap().number, 2);
        assert!(stage.vote(person(1), 1, 0).is_err(), "a late vote for the question before");
    }

    #[test]
    fn suspects_are_clients_of_the_room_and_named_as_it_names_them() {
        let mut stage = Stage::default();
        let mut strangers = guess();
        strangers.suspects[2].client = ClientId(9);
        let error = stage.ask(strangers, nickname).unwrap_err().to_string();
        assert!(error.contains("client 9 is not in the room") && stage.view().poll.is_none(), "{error}");
        let error = stage.ask(Poll { suspects: Vec::new(), ..guess() }, nickname).unwrap_err().to_string();
        assert!(error.contains("choose from is 0; give 2 to 4"), "{error}");
        stage.ask(guess(), nickname).unwrap();
        assert_eq!(stage.state().poll.unwrap().poll.suspects[1].nickname, "robot 2");
        assert!(stage.rename(ClientId(2), "robot 2 with a hat") && !stage.rename(ClientId(9), "a stranger"));
        assert_eq!(stage.state().poll.unwrap().poll.suspects[1].nickname, "robot 2 with a hat");
        stage.forget(ClientId(2));
        assert_eq!(stage.state().poll.unwrap().poll.suspects[1].nickname, GONE);
    }

    #[test]
    fn a_stage_is_written_down_as_it_is() {
        let mut stage = asked();
        stage.vote(person(7), 1, 2).unwrap();
        let again: Stage = postcard::from_bytes(&postcard::to_stdvec(&stage).unwrap()).unwrap();
        assert_eq!(again, stage);
    }
}
