//! The results of a lesson.

use std::collections::BTreeMap;

use unmask_wire::view::{AttackView, PollView, RoomView};

use crate::player::Player;

/// Most results of attacks in a summary.
const FINDINGS: usize = 200;

/// The last scored result of one attack under one defence.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub result: AttackView,
    /// The reconstruction as PNG, of a client that agreed to be shown.
    pub png: Option<Vec<u8>>,
}

/// The class's questions and the attacks' findings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Each question once, in the order asked, with its last votes.
    pub polls: Vec<PollView>,
    /// By defence, in the order of their first results, then by attack.
    pub findings: Vec<Finding>,
}

impl Summary {
    /// Summarises a whole recording.
    ///
    /// # Errors
    /// In words, if a state does not describe a room.
    pub fn of(mut player: Player) -> Result<Self, String> {
        let mut summary = Self::default();
        while player.step() {
            summary.add(&player.recorded()?, |address| player.picture(address).map(<[u8]>::to_vec));
        }
        Ok(summary)
    }

    /// Adds what a room shows; `picture` has its pictures, as PNG.
    pub fn add(&mut self, room: &RoomView, picture: impl Fn(&str) -> Option<Vec<u8>>) {
        if let Some(poll) = &room.lesson.poll {
            match self.polls.iter_mut().find(|known| known.number == poll.number) {
                Some(known) => known.clone_from(poll),
                None => self.polls.push(poll.clone()),
            }
        }
        for result in room.attacks.iter().filter(|result| result.ssim.is_some()) {
            let png = result.picture.as_deref().and_then(&picture);
            let has_room = self.findings.len() < FINDINGS;
            let is_of =
                |known: &Finding| (known.result.attack, known.result.defence) == (result.attack, result.defence);
            match self.findings.iter_mut().find(|known| is_of(known)) {
                Some(known) if known.result == *result => {}
                Some(known) => *known = Finding { result: result.clone(), png },
                None if has_room => self.findings.push(Finding { result: result.clone(), png }),
                None => {}
            }
        }
        let mut order = BTreeMap::new();
        for (place, finding) in self.findings.iter().enumerate() {
            order.entry(finding.result.defence.to_string()).or_insert(place);
        }
        self.findings
            .sort_by_key(|finding| (order.get(&finding.result.defence.to_string()).copied(), finding.result.attack));
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{AttackMethod, ClientId, Defence, PictureAddress};
    use unmask_lesson::{Poll, Question};
    use unmask_wire::view::LessonView;

    use super::*;

    fn result(attack: AttackMethod, defence: &str, round: u32, ssim: Option<f32>) -> AttackView {
        AttackView {
            attack,
            defence: defence.parse::<Defence>().unwrap(),
            round,
            client: ClientId(1),
            ssim,
            picture: Some(PictureAddress::on_server(&round.to_string())),
            ..AttackView::default()
        }
    }

    #[test]
    fn the_last_scored_result_of_each_attack_under_each_defence_counts() {
        let mut summary = Summary::default();
        for (defence, round, ssim) in [
            ("random-binary:0.5", 1, Some(0.2)),
            ("none", 2, Some(0.9)),
            ("none", 3, Some(1.0)),
            ("none", 4, None),
            ("random-binary:0.5", 5, Some(0.1)),
        ] {
            let attacks = [AttackMethod::April, AttackMethod::Embedding];
            let attacks = attacks.map(|attack| result(attack, defence, round, ssim)).into();
            summary.add(&RoomView { attacks, ..RoomView::default() }, |address| Some(address.into()));
        }
        let found: Vec<(String, u32)> =
            summary.findings.iter().map(|found| (found.result.defence.to_string(), found.result.round)).collect();
        let found: Vec<(&str, u32)> = found.iter().map(|(defence, round)| (defence.as_str(), *round)).collect();
        assert_eq!(found, [("random-binary:0.5", 5), ("random-binary:0.5", 5), ("none", 3), ("none", 3)]);
        assert_eq!(summary.findings[2].png.as_deref(), Some(&b"/api/3"[..]));
    }

    #[test]
    fn each_question_is_told_once_with_its_last_votes() {
        let mut summary = Summary::default();
        for (number, votes) in [(1, vec![]), (1, vec![0, 1]), (2, vec![]), (2, vec![1])] {
            let poll = Poll { question: Question::Safe, suspects: Vec::new(), correct: None };
            let voters = votes.len() as u32;
            let poll = Some(PollView { number, poll, is_open: votes.is_empty(), votes, robots: Vec::new(), voters });
            let lesson = LessonView { poll, ..LessonView::default() };
            summary.add(&RoomView { lesson, ..RoomView::default() }, |_| None);
        }
        let polls: Vec<(u32, usize)> = summary.polls.iter().map(|poll| (poll.number, poll.votes.len())).collect();
        assert_eq!(polls, [(1, 2), (2, 1)]);
    }
}
