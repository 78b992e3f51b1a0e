//! The scenes of a lesson and their beats.

use unmask_core::{AttackMethod, words};

/// A scene: one message on the projector. Its number is its position in the lesson.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Scene {
    /// The class joins.
    #[default]
    Lobby,
    /// The picture stays, numbers leave.
    Promise,
    /// Whose picture is this reconstruction?
    Guess,
    /// APRIL reads the picture from the update.
    April,
    /// A random part of the update stays on the device.
    Mask,
    /// What attackers see who know about the mask.
    Attackers,
    /// A search through the model.
    Patience,
    /// What a defence costs in accuracy.
    TradeOff,
    /// Was this picture in the update?
    Membership,
    /// A secure sum hides every single update.
    SecureSum,
    /// The sum of a few updates is taken apart.
    Sum,
    /// A dishonest relay chooses weights that read one picture out of any sum.
    Dishonest,
    /// Devices notice such weights, and noise holds against them.
    Checks,
    /// What the class takes home.
    Debrief,
}

words!(Scene {
    Lobby = "lobby",
    Promise = "promise",
    Guess = "guess",
    April = "april",
    Mask = "mask",
    Attackers = "attackers",
    Patience = "patience",
    TradeOff = "trade-off",
    Membership = "membership",
    SecureSum = "secure-sum",
    Sum = "sum",
    Dishonest = "dishonest",
    Checks = "checks",
    Debrief = "debrief",
}, UnknownScene, "the lesson has no scene {name:?}; write {words}", ", ");

impl Scene {
    /// From 0, as in addresses (`#scene=4`).
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The scene with this number, if the lesson has that many.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether rounds ask only clients that agree to be attacked in front of the class. A secure sum hides whose update is
    /// whose, so nobody else may be in it.
    pub const fn asks_only_volunteers(self) -> bool {
        matches!(self, Self::SecureSum | Self::Dishonest | Self::Checks)
    }

    /// The scene's beats in their order; at least one.
    pub const fn beats(self) -> &'static [Beat] {
        use Beat as B;
        match self {
            Self::Lobby => &[B::Join],
            Self::Promise => &[B::Learn, B::Send, B::Stay],
            Self::Guess => &[B::VoteWhose, B::ShowWhoseVotes, B::TellWhose, B::ShowEverybody],
            Self::April => {
                &[B::SolveApril, B::MaskApril, B::UsualBlock, B::FindPositions, B::FindPatches, B::SolvePatch]
            }
            Self::Mask => &[B::MoveOwnMask, B::MoveMask, B::VoteSafe, B::ShowSafeVotes],
            Self::Attackers => {
                &[B::IgnoresMask, B::KnowsMask, B::AttackOthers, B::ShowScores, B::FixedPosition, B::RatesByGroup]
            }
            Self::Patience => &[B::VoteSeconds, B::Search, B::ShowSearch],
            Self::TradeOff => &[B::ShowCosts, B::VoteRate, B::ShowRateVotes, B::RunRate],
            Self::Membership => &[B::AskUsed, B::TellUsed, B::TestStranger],
            Self::SecureSum => &[B::SendMasked, B::ShowTotal],
            Self::Sum => &[B::AddUpdates, B::TakeApart],
            Self::Dishonest => &[B::Aim, B::Fish],
            Self::Checks => &[B::LookFirst, B::AddNoise],
            Self::Debrief => &[B::VoteMasked, B::ShowMaskedVotes, B::TellMasked, B::TakeHome],
        }
    }
}

/// A beat: one step of a scene, which a press of Space ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Beat {
    /// Students join.
    Join,
    /// The device learns from its picture.
    Learn,
    /// The device sends numbers.
    Send,
    /// The picture stays.
    Stay,
    /// The class votes whose picture the reconstruction shows.
    VoteWhose,
    ShowWhoseVotes,
    /// The wall names the owner.
    TellWhose,
    /// The wall shows what leaks of every volunteer.
    ShowEverybody,
    /// APRIL solves for the picture.
    SolveApril,
    /// APRIL meets a mask.
    MaskApril,
    /// A model without the April block.
    UsualBlock,
    /// Where the update holds a patch: its row of the gradient of the position embedding.
    FindPositions,
    /// What the gradient of the patch embedding holds of it.
    FindPatches,
    /// Both together give its pixels.
    SolvePatch,
    /// Each student moves the mask of their own update.
    MoveOwnMask,
    /// The teacher moves the mask's rate.
    MoveMask,
    /// The class votes whether the picture is safe.
    VoteSafe,
    ShowSafeVotes,
    /// An attacker that reads gaps as zeros.
    IgnoresMask,
    /// An attacker that knows the mask.
    KnowsMask,
    /// Each student attacks another client's masked update.
    AttackOthers,
    /// Who found the most owners.
    ShowScores,
    /// The position embedding stays fixed.
    FixedPosition,
    /// Each group of parameters has its own rate.
    RatesByGroup,
    /// The class votes how many seconds the search takes.
    VoteSeconds,
    /// The search runs.
    Search,
    /// What the search found.
    ShowSearch,
    /// What each rate costs in right answers.
    ShowCosts,
    /// The class votes for a rate.
    VoteRate,
    ShowRateVotes,
    /// The room runs the median of the votes.
    RunRate,
    /// The class votes whether the attacked client used its own photograph.
    AskUsed,
    /// The update tells.
    TellUsed,
    /// The update is asked about somebody else's photograph.
    TestStranger,
    /// Each device sends its update under masks that vanish in the sum.
    SendMasked,
    /// The sum is known, and is a mixture.
    ShowTotal,
    /// A few updates are added up; the sum shows a mixture.
    AddUpdates,
    /// The relay takes the sum apart.
    TakeApart,
    /// The relay chooses whose picture it wants, and learns its class.
    Aim,
    /// The relay sends weights that leave only pictures of that class in the sum.
    Fish,
    /// Devices look at the weights before they train.
    LookFirst,
    /// Devices add noise to their updates.
    AddNoise,
    /// The class votes whose picture is behind the mask.
    VoteMasked,
    ShowMaskedVotes,
    /// The wall names the owner.
    TellMasked,
    /// Three sentences to take home.
    TakeHome,
}

/// A sum of updates that the relay attacks in front of the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SumKind {
    /// A secure sum, beside what one client sent for it.
    Secure,
    /// The sum of a few, to be taken apart.
    OfFew,
    /// A secure sum at doctored weights.
    Fished,
    /// The same, of updates with noise.
    Noisy,
}

impl Beat {
    /// The attacks whose pictures this beat shows, on the wall and on phones. Each entry is one picture, made by the
    /// first of its attacks that applies to the room's model.
    pub const fn attacks(self) -> &'static [&'static [AttackMethod]] {
        use AttackMethod as A;
        // Embedding inversion loses dark photographs on the block made for APRIL.
        const TELLING: &[AttackMethod] = &[A::April, A::Embedding];
        const CLOSEST: &[AttackMethod] =
            &[A::AprilAware, A::Completion, A::EmbeddingAware, A::April, A::Embedding, A::Gradients];
        match self {
            Self::Join | Self::Learn | Self::Send | Self::Stay | Self::VoteSeconds | Self::TakeHome => &[],
            // The wall's attacker; the phone attacks its own update at the student's rate.
            Self::MoveOwnMask => &[&[A::Embedding]],
            // Each phone attacks somebody else.
            Self::AttackOthers | Self::ShowScores => &[],
            Self::VoteWhose
            | Self::ShowWhoseVotes
            | Self::TellWhose
            | Self::ShowEverybody
            | Self::VoteMasked
            | Self::ShowMaskedVotes
            | Self::TellMasked => &[TELLING],
            Self::SolveApril | Self::MaskApril => &[&[A::April]],
            Self::UsualBlock
            | Self::FindPositions
            | Self::FindPatches
            | Self::SolvePatch
            | Self::MoveMask
            | Self::VoteSafe
            | Self::ShowSafeVotes
            | Self::IgnoresMask => &[&[A::Embedding]],
            Self::KnowsMask | Self::RatesByGroup => &[&[A::Embedding], &[A::Completion]],
            // Without position gradients there is nothing to complete. A search finds the patches, not their order.
            Self::FixedPosition => &[&[A::Embedding], &[A::Jigsaw]],
            Self::Search | Self::ShowSearch => &[&[A::MatchingAware, A::GradientsAware]],
            Self::ShowCosts | Self::VoteRate | Self::ShowRateVotes | Self::RunRate => &[CLOSEST],
            Self::AskUsed | Self::TellUsed | Self::TestStranger => &[],
            // An attack on the sum: the phone shows it to the owner of the picture alone.
            Self::Fish => &[&[A::Embedding]],
            // Nobody's own update is attacked.
            Self::SendMasked
            | Self::ShowTotal
            | Self::AddUpdates
            | Self::TakeApart
            | Self::Aim
            | Self::LookFirst
            | Self::AddNoise => &[],
        }
    }

    /// The sum of updates that this beat shows, if it shows one.
    pub const fn sum(self) -> Option<SumKind> {
        match self {
            Self::SendMasked | Self::ShowTotal => Some(SumKind::Secure),
            Self::AddUpdates | Self::TakeApart => Some(SumKind::OfFew),
            Self::Fish => Some(SumKind::Fished),
            Self::AddNoise => Some(SumKind::Noisy),
            _ => None,
        }
    }

    /// Whether a search needs the attacked client's update of the model's first round.
    pub const fn searches_first_round(self) -> bool {
        matches!(self, Self::FixedPosition | Self::Search | Self::ShowSearch)
    }

    /// Whether the relay draws the tables of numbers behind an update of this beat: for the beats that show them, and
    /// one before, so that they are there at once. Drawn in every round, they would fill a lesson's recording.
    pub const fn draws_tables(self) -> bool {
        matches!(self, Self::UsualBlock | Self::FindPositions | Self::FindPatches | Self::SolvePatch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_have_numbers_and_names() {
        for (place, scene) in Scene::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(scene.number()), place);
            assert_eq!(Scene::from_number(scene.number()), Some(scene));
            assert_eq!(scene.to_string().parse(), Ok(scene));
        }
        assert_eq!(Scene::from_number(14), None);
        let error = "intermission".parse::<Scene>().unwrap_err().to_string();
        assert!(error.starts_with("the lesson has no scene \"intermission\"; write lobby, promise"), "{error}");
    }

    #[test]
    fn a_beat_belongs_to_one_scene() {
        let beats: Vec<Beat> = Scene::ALL.into_iter().flat_map(|scene| scene.beats().to_vec()).collect();
        for (place, beat) in beats.iter().enumerate() {
            assert!(!beats[..place].contains(beat), "{beat:?}");
        }
    }
}
