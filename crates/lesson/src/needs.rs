//! What each beat needs of the room.

use unmask_core::{
    Aggregation, Architecture, Defence, GaussianNoise, GroupRates, SecureSumSettings, Threshold, VitPreset,
};

use crate::{Beat, Place, Question, Situation, mask::HALF, masked, median, uniform_rate};

/// The largest model, in parameters, whose gradient a phone attacks while its owner moves a mask's rate.
pub const MAX_OWN_MASK_PARAMETERS: usize = 2_000_000;
/// The largest model, in parameters, whose updates phones borrow and attack.
pub const MAX_LENT_PARAMETERS: usize = 4_000_000;

/// The length to which clients shorten the updates that they add up secretly.
const CLIP: f64 = 1.0;

/// What a place of the lesson needs of the room.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Needs {
    pub model: Model,
    /// Whether no round may have changed the weights.
    pub is_fresh: bool,
    pub defence: Wanted,
    pub adding: Adding,
    /// The class that doctored weights must fish for.
    pub fishing: Option<u16>,
    /// Whether clients must check plans carefully; `None` leaves that as it is.
    pub careful: Option<bool>,
    /// Whether an update must be the gradient of one private picture.
    pub is_one_picture: bool,
    /// Whether a client must be under attack.
    pub has_target: bool,
    pub rounds: Rounds,
    /// Whether the relay searches; `None` leaves that as it is.
    pub search: Option<bool>,
    pub photograph: Photograph,
}

/// The photograph that the update is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Photograph {
    Any,
    /// The attacked client's.
    Own,
    /// Another client's.
    Strangers,
}

/// The model that a scene needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    Any,
    /// Any Vision Transformer.
    Vit,
    /// A Vision Transformer with the block that APRIL solves.
    AprilBlock,
    /// A Vision Transformer with the usual block.
    Ordinary,
    /// One with so few patches for its width that rank undoes a mask.
    FewPatches,
    /// A Vision Transformer whose masks phones try on their own gradient.
    OwnMask,
    /// As [`FewPatches`](Self::FewPatches), and so small that phones attack its updates.
    Lent,
    /// One that a search can invert.
    Searched,
    /// One so wide that the sum of four updates comes apart.
    Apart,
}

/// The defence that a scene needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wanted {
    Any,
    /// A random mask with any single rate.
    Masked,
    Exactly(Defence),
}

/// How a scene needs updates to be added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adding {
    Any,
    /// The relay sees each of them.
    Seen,
    /// Secretly.
    Secret,
}

/// Which rounds a scene needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounds {
    AsTheyAre,
    /// One, if none has run.
    Any,
    /// One, if none has run, and no other after it.
    Single,
    /// One more, on the way to this place.
    OneMore,
    /// One more, on the way to this place, and no other after it.
    OneLast,
    On,
    Paused,
}

impl Model {
    /// The model to use instead of `coming`; `None` if `coming` will do.
    pub(crate) fn instead_of(self, coming: Architecture) -> Option<Architecture> {
        let preset = coming.vit().and_then(|config| config.preset());
        let april = coming.april_block();
        let few = matches!(preset, Some(VitPreset::NanoPatch8 | VitPreset::LabPatch8 | VitPreset::SmallPatch32));
        let searched = matches!(preset, Some(VitPreset::Nano | VitPreset::Lab));
        let has_most = |most: usize| coming.layout().len() <= most;
        let (will_do, other) = match self {
            Self::Any => (true, coming),
            Self::Vit => (coming.vit().is_some(), VitPreset::Nano.into()),
            // The room keeps its preset and changes the block where it can.
            Self::AprilBlock => {
                let own = if preset.is_some() { coming } else { VitPreset::Nano.into() };
                (april, own.with_april_block(true))
            }
            Self::Ordinary => (coming.vit().is_some() && !april, VitPreset::NanoPatch8.into()),
            Self::FewPatches => (few && !april, VitPreset::NanoPatch8.into()),
            Self::OwnMask => (coming.vit().is_some() && has_most(MAX_OWN_MASK_PARAMETERS), VitPreset::Nano.into()),
            Self::Lent => (few && !april && has_most(MAX_LENT_PARAMETERS), VitPreset::NanoPatch8.into()),
            Self::Apart => (preset == Some(VitPreset::LabPatch8) && !april, VitPreset::LabPatch8.into()),
            Self::Searched => (searched && !april, VitPreset::Nano.into()),
        };
        (!will_do).then_some(other)
    }
}

impl Wanted {
    /// The defence to use instead of `coming`; `None` if `coming` will do.
    pub(crate) fn instead_of(self, coming: Defence) -> Option<Defence> {
        let (will_do, other) = match self {
            Self::Any => (true, coming),
            Self::Masked => (uniform_rate(coming).is_some_and(|rate| rate.get() > 0.0), masked(HALF)),
            Self::Exactly(defence) => (coming == defence, defence),
        };
        (!will_do).then_some(other)
    }
}

impl Adding {
    /// The aggregation to use instead of `coming` under `defence`; `None` if `coming` will do.
    pub(crate) fn instead_of(self, coming: Aggregation, defence: Defence) -> Option<Aggregation> {
        // Noise clips by itself.
        let clip = defence.noise().is_none().then_some(CLIP);
        let will_do = match (self, coming.secure_sum()) {
            (Self::Any, None) | (Self::Seen, None) => true,
            (Self::Any | Self::Secret, Some(settings)) => settings.check_defence(defence).is_ok(),
            (Self::Seen, Some(_)) | (Self::Secret, None) => false,
        };
        let other = match self {
            Self::Secret => Aggregation::SecureSum(SecureSumSettings { threshold: Threshold::default(), clip }),
            Self::Any | Self::Seen => Aggregation::default(),
        };
        (!will_do).then_some(other)
    }
}

impl Needs {
    const NOTHING: Self = Self {
        model: Model::Any,
        is_fresh: false,
        defence: Wanted::Any,
        adding: Adding::Any,
        fishing: None,
        careful: None,
        is_one_picture: false,
        has_target: false,
        rounds: Rounds::AsTheyAre,
        search: None,
        photograph: Photograph::Any,
    };
    /// Reconstructions of one private picture, round after round.
    const PICTURES: Self = Self {
        model: Model::Vit,
        adding: Adding::Seen,
        is_one_picture: true,
        has_target: true,
        rounds: Rounds::On,
        search: Some(false),
        ..Self::NOTHING
    };

    pub(crate) fn of(room: &Situation, place: Place) -> Self {
        let open = Wanted::Exactly(Defence::None);
        let half = Wanted::Exactly(masked(HALF));
        // The scene on APRIL needs its block. A model without rounds can change now, when nothing is lost.
        let first = if room.round == 0 { Model::AprilBlock } else { Model::Vit };
        let undefended = Self { model: first, defence: open, ..Self::PICTURES };
        let few = |defence| Self { model: Model::FewPatches, defence, ..Self::PICTURES };
        let searched =
            Self { model: Model::Searched, is_fresh: true, defence: half, search: Some(true), ..Self::PICTURES };
        let secret = if room.can_add_secretly() { Adding::Secret } else { Adding::Seen };
        let secret = Self { model: Model::Ordinary, defence: open, adding: secret, ..Self::PICTURES };
        // The class of the picture comes from an update that the relay sees; a new model has seen none.
        let is_seen = secret.model.instead_of(room.architecture).is_none();
        let fished = match room.class_of_aim().filter(|_| is_seen) {
            None => Self { adding: Adding::Seen, ..secret },
            class => Self { fishing: class, ..secret },
        };
        match place.beat() {
            Beat::Join | Beat::TakeHome | Beat::ShowMaskedVotes | Beat::TellMasked => Self::NOTHING,
            Beat::Learn | Beat::Stay => Self { rounds: Rounds::AsTheyAre, ..undefended },
            Beat::Send => Self { rounds: Rounds::OneMore, ..undefended },
            Beat::VoteWhose | Beat::ShowWhoseVotes | Beat::TellWhose | Beat::ShowEverybody => undefended,
            Beat::SolveApril => Self { model: Model::AprilBlock, ..undefended },
            Beat::MaskApril => Self { model: Model::AprilBlock, defence: Wanted::Masked, ..Self::PICTURES },
            Beat::UsualBlock => Self { model: Model::Ordinary, ..undefended },
            // Solving for a patch needs as many equations as patches.
            // The numbers stand still while the class looks at them.
            Beat::FindPositions => Self { rounds: Rounds::OneLast, ..few(open) },
            Beat::FindPatches | Beat::SolvePatch => Self { rounds: Rounds::Any, ..few(open) },
            Beat::MoveMask if chosen_rate(room, Question::OwnRate).is_some_and(|rate| rate > 0.0) => {
                let rate = chosen_rate(room, Question::OwnRate).unwrap_or(HALF);
                Self { defence: Wanted::Exactly(masked(rate)), ..Self::PICTURES }
            }
            Beat::MoveOwnMask => Self { model: Model::OwnMask, defence: Wanted::Masked, ..Self::PICTURES },
            Beat::MoveMask | Beat::VoteSafe | Beat::ShowSafeVotes | Beat::VoteMasked => {
                Self { defence: Wanted::Masked, ..Self::PICTURES }
            }
            Beat::IgnoresMask | Beat::KnowsMask => few(half),
            // One round, whose updates the phones attack with the weights that they have.
            Beat::AttackOthers => Self { model: Model::Lent, rounds: Rounds::OneLast, ..few(half) },
            Beat::ShowScores => Self { model: Model::Lent, rounds: Rounds::AsTheyAre, ..few(half) },
            // The search for the patches needs weights as they begin.
            Beat::FixedPosition => Self {
                is_fresh: true,
                search: Some(true),
                rounds: Rounds::Single,
                ..few(Wanted::Exactly(Defence::FixedPosition))
            },
            Beat::RatesByGroup => few(Wanted::Exactly(Defence::RandomBinary { rates: GroupRates::papers_hint() })),
            Beat::VoteSeconds => Self { rounds: Rounds::Paused, search: None, ..searched },
            Beat::Search | Beat::ShowSearch => Self { rounds: Rounds::Single, ..searched },
            Beat::ShowCosts | Beat::VoteRate | Beat::ShowRateVotes => Self { search: Some(false), ..Self::NOTHING },
            Beat::RunRate => {
                let defence =
                    chosen_rate(room, Question::Rate).map_or(Wanted::Any, |rate| Wanted::Exactly(masked(rate)));
                Self { model: Model::Vit, defence, rounds: Rounds::On, search: Some(false), ..Self::NOTHING }
            }
            Beat::SendMasked | Beat::ShowTotal => secret,
            Beat::Aim => Self { careful: Some(false), fishing: None, ..fished },
            Beat::Fish => Self { careful: Some(false), ..fished },
            Beat::LookFirst => Self { careful: Some(true), ..fished },
            // Only an update without noise tells the class.
            Beat::AddNoise if fished.fishing.is_none() => Self { careful: Some(false), ..fished },
            Beat::AddNoise => Self {
                careful: Some(false),
                defence: Wanted::Exactly(Defence::Gaussian(GaussianNoise::default())),
                ..fished
            },
            // In tests four pictures came back exactly from fresh weights; from trained ones some were lost.
            Beat::AddUpdates | Beat::TakeApart => {
                Self { model: Model::Apart, is_fresh: true, defence: open, rounds: Rounds::Single, ..Self::PICTURES }
            }
            Beat::AskUsed => Self { rounds: Rounds::OneMore, photograph: Photograph::Own, ..undefended },
            Beat::TellUsed => Self { rounds: Rounds::Any, photograph: Photograph::Own, ..undefended },
            Beat::TestStranger => Self { rounds: Rounds::Any, photograph: Photograph::Strangers, ..undefended },
        }
    }
}

/// The median of the class's answers to a question for a rate, as a share.
fn chosen_rate(room: &Situation, question: Question) -> Option<f64> {
    let asked = room.asked.as_ref().filter(|asked| asked.question == question)?;
    median(&asked.votes).map(|percent| f64::from(percent) / 100.0)
}
