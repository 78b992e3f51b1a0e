//! What the teacher's controls hold: the choices, and the parameters of those not chosen, so that coming back to one loses
//! nothing. The strings are read and written by the types of the crates that own them.

mod step;

use unmask_core::{
    Defence, EncryptionStart, GaussianNoise, GroupRates, ParamGroup, ParseNoiseError, ParseRuleError, Rule, ZeroRate,
};

pub use self::step::{Step, StepError, sgd_would_help};

/// One segment of the defence control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The update leaves as it is.
    None,
    /// The position embedding's update is withheld.
    FixedPosition,
    /// Each value is dropped with its group's probability R, anew for each client and round.
    RandomBinary,
    /// The same under one mask for all clients and rounds.
    FrozenBinary,
    /// Clipping and noise.
    Gaussian,
    /// Embeddings under a key that the relay does not have.
    Encrypted,
}

impl Choice {
    /// All of them, in the order shown.
    pub const ALL: [Self; 6] =
        [Self::None, Self::FixedPosition, Self::RandomBinary, Self::FrozenBinary, Self::Gaussian, Self::Encrypted];

    /// Its name in attributes.
    pub fn key(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FixedPosition => "fixed-position",
            Self::RandomBinary => "random-binary",
            Self::FrozenBinary => "frozen-binary",
            Self::Gaussian => "gaussian",
            Self::Encrypted => "encrypted",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::FixedPosition => "Fixed position",
            Self::RandomBinary => "Random binary weights",
            Self::FrozenBinary => "Frozen binary weights",
            Self::Gaussian => "Gaussian noise",
            Self::Encrypted => "Encrypted",
        }
    }

    /// What it does, in a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::None => "Every value leaves the tab as it was computed.",
            Self::FixedPosition => "The position embedding is not trained: what it would send is withheld.",
            Self::RandomBinary => "Each tab drops each value with probability R, under a fresh mask in every round.",
            Self::FrozenBinary => {
                "One mask for all tabs and all rounds: what it drops is never trained. The papers’ counter-example."
            }
            Self::Gaussian => "Each tab shortens its update to length S_f and adds noise to every value.",
            Self::Encrypted => {
                "The embeddings are multiplied by keys made from a passphrase that stays in the tabs; the relay averages what it cannot read."
            }
        }
    }

    /// Whether it has rates to choose.
    pub fn has_rates(self) -> bool {
        matches!(self, Self::RandomBinary | Self::FrozenBinary)
    }
}

impl From<&Defence> for Choice {
    fn from(defence: &Defence) -> Self {
        match defence {
            Defence::None => Self::None,
            Defence::FixedPosition => Self::FixedPosition,
            Defence::RandomBinary { .. } => Self::RandomBinary,
            Defence::FrozenBinary { .. } => Self::FrozenBinary,
            Defence::Gaussian(_) => Self::Gaussian,
            Defence::Encrypted { .. } => Self::Encrypted,
        }
    }
}

/// What the defence control shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DefenceDraft {
    /// The segment chosen.
    pub choice: Choice,
    /// R of each group, for either kind of mask.
    pub rates: GroupRates,
    /// The noise.
    pub noise: GaussianNoise,
    /// How an encrypted model begins.
    pub start: EncryptionStart,
}

impl DefenceDraft {
    /// The defence chosen.
    pub fn defence(&self) -> Defence {
        let Self { rates, noise, start, .. } = *self;
        match self.choice {
            Choice::None => Defence::None,
            Choice::FixedPosition => Defence::FixedPosition,
            Choice::RandomBinary => Defence::RandomBinary { rates },
            Choice::FrozenBinary => Defence::FrozenBinary { rates },
            Choice::Gaussian => Defence::Gaussian(noise),
            Choice::Encrypted => Defence::Encrypted { start },
        }
    }

    /// Takes over what the room has; a form that cannot be read changes nothing.
    pub fn follow(&mut self, form: &str) {
        let Ok(defence) = form.parse::<Defence>() else { return };
        self.choice = Choice::from(&defence);
        match defence {
            Defence::RandomBinary { rates } | Defence::FrozenBinary { rates } => self.rates = rates,
            Defence::Gaussian(noise) => self.noise = noise,
            Defence::Encrypted { start } => self.start = start,
            Defence::None | Defence::FixedPosition => {}
        }
    }
}

impl Default for DefenceDraft {
    fn default() -> Self {
        Self {
            choice: Choice::None,
            rates: GroupRates::uniform(ZeroRate::nearest(0.5)),
            noise: GaussianNoise::default(),
            start: EncryptionStart::Plain,
        }
    }
}

/// R as a slider or a button gives it.
pub fn read_rate(text: &str) -> Option<ZeroRate> {
    text.parse().ok()
}

/// Where a slider stands that has to show several rates: in the middle of them.
pub fn middle(rates: &GroupRates) -> f64 {
    let (low, high) = ParamGroup::ALL.iter().fold((1.0_f64, 0.0_f64), |(low, high), group| {
        let rate = rates.get(*group).get();
        (low.min(rate), high.max(rate))
    });
    (low + high) / 2.0
}

/// The noise of three numbers as typed.
///
/// # Errors
/// [`ParseNoiseError`], which names the number that will not do.
pub fn read_noise(epsilon: &str, delta: &str, clip: &str) -> Result<GaussianNoise, ParseNoiseError> {
    format!("eps={epsilon},delta={delta},clip={clip}").parse()
}

/// FedAvg of two numbers as typed.
///
/// # Errors
/// [`ParseRuleError`], which names the number that will not do.
pub fn read_fedavg(epochs: &str, rate: &str) -> Result<Rule, ParseRuleError> {
    format!("fedavg:epochs={epochs},rate={rate}").parse()
}

/// A number that will not do as a batch size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("“{0}” is no batch size; give a whole number from 1 to 65535")]
pub struct BatchError(String);

/// The batch size as typed.
///
/// # Errors
/// [`BatchError`], which names what was typed.
pub fn read_batch(text: &str) -> Result<u16, BatchError> {
    text.trim().parse().ok().filter(|batch| *batch > 0).ok_or_else(|| BatchError(text.to_owned()))
}

/// Longest time for attacks, in seconds a round.
const LONGEST_BUDGET: f64 = 600.0;

/// A time for attacks that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("“{0}” is no time for attacks; give seconds from 0 to {LONGEST_BUDGET}, where 0 stops them")]
pub struct BudgetError(String);

/// The time for attacks that was typed, in seconds a round.
///
/// # Errors
/// Where it is no number from 0 to 600.
pub fn read_budget(text: &str) -> Result<f64, BudgetError> {
    let read = text.trim().parse().ok().filter(|seconds| (0.0..=LONGEST_BUDGET).contains(seconds));
    read.ok_or_else(|| BudgetError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: [&str; 8] = [
        "none",
        "fixed-position",
        "random-binary:0.5",
        "random-binary:patch=0.95,pos=0.95,0.2",
        "frozen-binary:0.2",
        "gaussian:eps=4,delta=1e-5,clip=0.5",
        "encrypted",
        "encrypted:keyed",
    ];

    #[test]
    fn what_the_room_has_is_taken_over_and_given_back() {
        let mut draft = DefenceDraft::default();
        for form in FORMS {
            draft.follow(form);
            assert_eq!(draft.defence().to_string(), form);
            let key = form.split(':').next().unwrap_or_default();
            assert_eq!(draft.choice.key(), key);
        }
        let before = draft;
        draft.follow("homomorphic:3");
        assert_eq!(draft, before);
    }

    #[test]
    fn parameters_outlive_a_visit_to_another_choice() {
        let mut draft = DefenceDraft::default();
        for form in FORMS {
            draft.follow(form);
        }
        draft.choice = Choice::RandomBinary;
        assert_eq!(draft.defence().to_string(), "random-binary:0.2");
        draft.choice = Choice::Gaussian;
        assert_eq!(draft.defence().to_string(), "gaussian:eps=4,delta=1e-5,clip=0.5");
    }

    #[test]
    fn a_slider_stands_between_the_rates_it_shows() {
        assert!((middle(&GroupRates::uniform(ZeroRate::nearest(0.3))) - 0.3).abs() < 1e-4);
        assert!((middle(&GroupRates::papers_hint()) - 0.575).abs() < 1e-4);
    }

    #[test]
    fn what_is_typed_is_read_or_named() {
        assert_eq!(read_noise("2", "1e-5", ".5"), Ok(GaussianNoise::new(2.0, 1e-5, 0.5).expect("good")));
        assert!(read_noise("2", "7", "0.5").expect_err("bad").to_string().contains("\"7\""));
        assert_eq!(read_fedavg("3", "0.05"), Ok(Rule::FedAvg { epochs: 3, rate: 0.05 }));
        assert!(read_fedavg("0", "0.05").expect_err("bad").to_string().contains("\"0\""));
        assert_eq!(read_batch(" 16 "), Ok(16));
        for bad in ["0", "-3", "1.5", "70000", "many", ""] {
            assert!(read_batch(bad).expect_err("bad").to_string().contains(bad));
        }
        assert_eq!((read_budget(" 2.5 "), read_budget("0")), (Ok(2.5), Ok(0.0)));
        for bad in ["-1", "601", "NaN", "soon"] {
            assert!(read_budget(bad).expect_err("bad").to_string().contains(bad));
        }
    }
}
