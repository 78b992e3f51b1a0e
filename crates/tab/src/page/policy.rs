//! What the teacher's controls hold: the choices, and the parameters of those not chosen, so that coming back to one loses
//! nothing.

use unmask_core::{
    Defence, DefenceKind, EncryptionStart, GaussianNoise, GroupRates, OptimiserKind, ParamGroup, ParseNoiseError,
    ParseOptimiserError, ParseRuleError, RoundSettings, Rule, SettingsError, ZeroRate,
};

/// What the defence control shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DefenceDraft {
    /// The kind chosen.
    pub choice: DefenceKind,
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
            DefenceKind::None => Defence::None,
            DefenceKind::FixedPosition => Defence::FixedPosition,
            DefenceKind::RandomBinary => Defence::RandomBinary { rates },
            DefenceKind::FrozenBinary => Defence::FrozenBinary { rates },
            DefenceKind::Gaussian => Defence::Gaussian(noise),
            DefenceKind::Encrypted => Defence::Encrypted { start },
        }
    }

    /// Takes over what the room has.
    pub fn follow(&mut self, defence: Defence) {
        self.choice = defence.kind();
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
            choice: DefenceKind::None,
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

/// The same kind of step at a rate as typed.
///
/// # Errors
/// [`ParseOptimiserError`], which names what was typed.
pub fn read_step(kind: OptimiserKind, rate: &str) -> Result<OptimiserKind, ParseOptimiserError> {
    format!("{}:{rate}", kind.name()).parse()
}

/// Whether plain SGD on the server would remove what the relay refused: one of `defence` and `rule` is what was asked for,
/// the others are what the room has.
pub fn sgd_would_help(defence: Defence, rule: Rule, optimiser: OptimiserKind) -> bool {
    matches!(RoundSettings::new(defence, rule, 1, optimiser), Err(SettingsError::AdamOnEncrypted(_)))
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
            draft.follow(form.parse().expect("a defence"));
            assert_eq!(draft.defence().to_string(), form);
            let name = form.split(':').next().unwrap_or_default();
            assert_eq!(draft.choice.name(), name);
        }
    }

    #[test]
    fn parameters_outlive_a_visit_to_another_choice() {
        let mut draft = DefenceDraft::default();
        for form in FORMS {
            draft.follow(form.parse().expect("a defence"));
        }
        draft.choice = DefenceKind::RandomBinary;
        assert_eq!(draft.defence().to_string(), "random-binary:0.2");
        draft.choice = DefenceKind::Gaussian;
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

    #[test]
    fn steps_are_typed_as_rates() {
        assert_eq!(read_step(OptimiserKind::ADAM, "0.01"), Ok(OptimiserKind::Adam { rate: 0.01 }));
        assert!(read_step(OptimiserKind::SGD, "fast").expect_err("bad").to_string().contains("fast"));
    }

    #[test]
    fn sgd_is_proposed_where_adam_is_what_stands_in_the_way() {
        let (adam, sgd) = (OptimiserKind::ADAM, OptimiserKind::SGD);
        for start in EncryptionStart::ALL {
            let encrypted = Defence::Encrypted { start };
            assert!(sgd_would_help(encrypted, Rule::FedSgd, adam));
            assert!(!sgd_would_help(encrypted, Rule::FedSgd, sgd));
            assert!(!sgd_would_help(encrypted, Rule::FED_AVG, adam));
        }
        assert!(!sgd_would_help(Defence::None, Rule::FedSgd, adam));
    }
}
