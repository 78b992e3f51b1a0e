//! The words of the lesson: what each scene says to the class, and the teacher's notes. They should be plain enough for
//! a twelve-year-old; technical terms belong in the expert view.

use unmask_lesson::{Beat, Scene};

use crate::say;

/// What a scene says, and the teacher's notes for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SceneWords {
    /// One or two words for the presenter's bar.
    pub title: &'static str,
    /// Its one message, at most eight words.
    pub headline: &'static str,
    /// What the teacher can say.
    pub say: &'static str,
    /// What the teacher can ask.
    pub ask: &'static str,
    /// The answer, and why.
    pub answer: &'static str,
}

/// The words of a scene.
pub fn scene(scene: Scene) -> SceneWords {
    let [title, headline, say, ask, answer] = match scene {
        Scene::Lobby => {
            [say::lobby::title(), say::lobby::headline(), say::lobby::say(), say::lobby::ask(), say::lobby::answer()]
        }
        Scene::Promise => [
            say::promise::title(),
            say::promise::headline(),
            say::promise::say(),
            say::promise::ask(),
            say::promise::answer(),
        ],
        Scene::Guess => {
            [say::guess::title(), say::guess::headline(), say::guess::say(), say::guess::ask(), say::guess::answer()]
        }
        Scene::April => {
            [say::april::title(), say::april::headline(), say::april::say(), say::april::ask(), say::april::answer()]
        }
        Scene::Mask => {
            [say::mask::title(), say::mask::headline(), say::mask::say(), say::mask::ask(), say::mask::answer()]
        }
        Scene::Attackers => [
            say::attackers::title(),
            say::attackers::headline(),
            say::attackers::say(),
            say::attackers::ask(),
            say::attackers::answer(),
        ],
        Scene::Patience => [
            say::patience::title(),
            say::patience::headline(),
            say::patience::say(),
            say::patience::ask(),
            say::patience::answer(),
        ],
        Scene::TradeOff => {
            [say::trade::title(), say::trade::headline(), say::trade::say(), say::trade::ask(), say::trade::answer()]
        }
        Scene::Membership => [
            say::member::title(),
            say::member::headline(),
            say::member::say(),
            say::member::ask(),
            say::member::answer(),
        ],
        Scene::SecureSum => [
            say::secret::title(),
            say::secret::headline(),
            say::secret::say(),
            say::secret::ask(),
            say::secret::answer(),
        ],
        Scene::Sum => [say::sum::title(), say::sum::headline(), say::sum::say(), say::sum::ask(), say::sum::answer()],
        Scene::Dishonest => {
            [say::cheat::title(), say::cheat::headline(), say::cheat::say(), say::cheat::ask(), say::cheat::answer()]
        }
        Scene::Checks => [
            say::checks::title(),
            say::checks::headline(),
            say::checks::say(),
            say::checks::ask(),
            say::checks::answer(),
        ],
        Scene::Debrief => [
            say::debrief::title(),
            say::debrief::headline(),
            say::debrief::say(),
            say::debrief::ask(),
            say::debrief::answer(),
        ],
    };
    SceneWords { title, headline, say, ask, answer }
}

/// What a beat says to the class.
pub fn line(beat: Beat) -> &'static str {
    match beat {
        Beat::Join => say::lobby::line(),
        Beat::Learn => say::promise::line_learn(),
        Beat::Send => say::promise::line_send(),
        Beat::Stay => say::promise::line_stay(),
        Beat::VoteWhose => say::guess::line_vote(),
        Beat::ShowWhoseVotes => say::guess::line_votes(),
        Beat::TellWhose => say::guess::line_told(),
        Beat::ShowEverybody => say::guess::line_everybody(),
        Beat::SolveApril => say::april::line_solve(),
        Beat::MaskApril => say::april::line_mask(),
        Beat::UsualBlock => say::april::line_usual(),
        Beat::FindPositions => say::april::line_positions(),
        Beat::FindPatches => say::april::line_patches(),
        Beat::SolvePatch => say::april::line_patch(),
        Beat::MoveOwnMask => say::mask::line_own(),
        Beat::MoveMask => say::mask::line_move(),
        Beat::VoteSafe => say::mask::line_vote(),
        Beat::ShowSafeVotes => say::mask::line_votes(),
        Beat::IgnoresMask => say::attackers::line_zeros(),
        Beat::KnowsMask => say::attackers::line_knows(),
        Beat::AttackOthers => say::attackers::line_others(),
        Beat::ShowScores => say::attackers::line_scores(),
        Beat::FixedPosition => say::attackers::line_puzzle(),
        Beat::RatesByGroup => say::attackers::line_groups(),
        Beat::VoteSeconds => say::patience::line_vote(),
        Beat::Search => say::patience::line_guess(),
        Beat::ShowSearch => say::patience::line_came(),
        Beat::ShowCosts => say::trade::line_costs(),
        Beat::VoteRate => say::trade::line_vote(),
        Beat::ShowRateVotes => say::trade::line_votes(),
        Beat::RunRate => say::trade::line_run(),
        Beat::AskUsed => say::member::line_ask(),
        Beat::TellUsed => say::member::line_told(),
        Beat::TestStranger => say::member::line_stranger(),
        Beat::SendMasked => say::secret::line_masked(),
        Beat::ShowTotal => say::secret::line_total(),
        Beat::AddUpdates => say::sum::line_add(),
        Beat::TakeApart => say::sum::line_apart(),
        Beat::Aim => say::cheat::line_aim(),
        Beat::Fish => say::cheat::line_fish(),
        Beat::LookFirst => say::checks::line_look(),
        Beat::AddNoise => say::checks::line_noise(),
        Beat::VoteMasked => say::debrief::line_vote(),
        Beat::ShowMaskedVotes => say::debrief::line_votes(),
        Beat::TellMasked => say::debrief::line_told(),
        Beat::TakeHome => say::debrief::line_home(),
    }
}

/// What the class takes home, in three sentences.
pub fn take_home() -> [&'static str; 3] {
    [say::debrief::numbers(), say::debrief::defence(), say::debrief::who()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Language;

    /// The width of a line in columns; a Japanese character takes two.
    fn columns(text: &str) -> usize {
        text.chars().map(|character| if character.is_ascii() || character < '\u{2e80}' { 1 } else { 2 }).sum()
    }

    #[test]
    fn every_scene_has_one_short_message_and_a_line_for_each_step() {
        for language in Language::ALL {
            language.speak();
            for scene in Scene::ALL {
                let SceneWords { title, headline, say, ask, answer } = super::scene(scene);
                assert!((1..=8).contains(&headline.split_whitespace().count()), "{scene}: {headline}");
                assert!(columns(title) <= 12, "{scene}: {title}");
                assert!((1..=36).contains(&columns(headline)), "{scene}: {headline}");
                for beat in scene.beats() {
                    assert!((1..=60).contains(&columns(line(*beat))), "{scene}: {}", line(*beat));
                }
                assert!(say.ends_with(['.', '。']) && ask.ends_with(['?', '。']), "{scene}: {say} {ask}");
                assert!(answer.ends_with(['.', '。']), "{scene}: {answer}");
            }
        }
    }
}
