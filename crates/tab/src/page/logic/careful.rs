//! What the page says about doctored plans and published lists.

use unmask_words::say;

use crate::protocol::{Caution, Doubt, FoundDoubts, ListedRound};

/// What the student chose, and whether the teacher asks everybody to be careful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choice {
    pub is_own: bool,
    pub is_asked: bool,
    /// Whether the student trains on what looks doctored all the same.
    pub trains_anyway: bool,
}

impl Choice {
    /// Whether this device looks at what the weights let its pictures teach.
    pub fn is_careful(self) -> bool {
        self.is_own || self.is_asked
    }

    pub fn caution(self) -> Caution {
        match (self.is_careful(), self.trains_anyway) {
            (false, _) => Caution::Weights,
            (true, true) => Caution::Pictures,
            (true, false) => Caution::Refuse,
        }
    }
}

/// What was found in a round's weights and what this device did about it.
pub fn found(found: &FoundDoubts) -> String {
    let FoundDoubts { round, doubts, is_refused } = found;
    let doubts: Vec<String> = doubts.iter().map(doubt).collect();
    let done = if *is_refused { say::careful::refused() } else { say::careful::trained() };
    format!("{} {} {done}", say::careful::found(*round), doubts.join(" "))
}

fn doubt(doubt: &Doubt) -> String {
    match doubt {
        Doubt::Length => say::careful::length().to_owned(),
        Doubt::Jump { layer } => say::careful::jump(layer),
        Doubt::Size { layer } => say::careful::size(layer),
        Doubt::Biases => say::careful::biases().to_owned(),
        Doubt::Rows => say::careful::rows().to_owned(),
        Doubt::ZeroHead => say::careful::zero_head().to_owned(),
        Doubt::Flat { flat, pictures } => say::careful::flat(*flat, *pictures),
    }
}

/// Whether this device's update is in the list; nothing if it sent none.
pub fn own(listed: &ListedRound) -> Option<&'static str> {
    listed.is_in.map(|is_in| if is_in { say::careful::listed() } else { say::careful::missing() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_refused_only_by_the_careful_who_do_not_train_anyway() {
        let choice = |is_own, is_asked, trains_anyway| Choice { is_own, is_asked, trains_anyway }.caution();
        assert_eq!(Choice::default().caution(), Caution::Weights);
        assert_eq!(choice(false, false, true), Caution::Weights);
        for (is_own, is_asked) in [(true, false), (false, true), (true, true)] {
            assert_eq!(choice(is_own, is_asked, false), Caution::Refuse);
            assert_eq!(choice(is_own, is_asked, true), Caution::Pictures);
        }
    }

    #[test]
    fn what_was_found_is_said_with_what_follows() {
        let doubts = vec![Doubt::Jump { layer: "head.bias".to_owned() }, Doubt::Flat { flat: 3, pictures: 4 }];
        let refused = FoundDoubts { round: 12, doubts, is_refused: true };
        let words = found(&refused);
        for part in ["12", "head.bias", "3", "4", say::careful::refused()] {
            assert!(words.contains(part), "{words}");
        }
        let trained = found(&FoundDoubts { is_refused: false, ..refused });
        assert!(trained.ends_with(say::careful::trained()), "{trained}");
        let all = [Doubt::Length, Doubt::Size { layer: String::new() }, Doubt::Biases, Doubt::Rows, Doubt::ZeroHead];
        let mut said: Vec<String> = all.iter().map(doubt).collect();
        said.sort();
        said.dedup();
        assert_eq!(said.len(), all.len());
    }

    #[test]
    fn who_sent_nothing_hears_nothing_of_it() {
        let listed = |is_in| ListedRound { is_in, ..ListedRound::default() };
        assert_eq!(own(&listed(None)), None);
        assert_ne!(own(&listed(Some(true))), own(&listed(Some(false))));
    }
}
