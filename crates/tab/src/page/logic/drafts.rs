//! The state of the teacher's controls: the choices, and the parameters of options not chosen now, so that returning to
//! an option loses nothing.

use std::num::NonZeroU16;

use unmask_core::{
    AttackFamily, AttackMethod, Defence, DefenceKind, EncryptionStart, GaussianNoise, GroupRates, OptimiserKind,
    ParamGroup, ParseNoiseError, ParseOptimiserError, ParseRuleError, Partition, RoundSettings, Rule, SettingsError,
    TrainOn,
};
use unmask_wire::view::AttackView;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DefenceDraft {
    pub choice: DefenceKind,
    /// Each kind of defence with its last parameters.
    remembered: [Defence; DefenceKind::ALL.len()],
}

impl DefenceDraft {
    pub fn defence(&self) -> Defence {
        let remembered = self.remembered.iter().find(|defence| defence.kind() == self.choice);
        remembered.copied().unwrap_or_else(|| self.choice.into())
    }

    /// R of each group, shared by both kinds of mask.
    pub fn rates(&self) -> GroupRates {
        self.remembered.iter().find_map(Defence::rates).copied().unwrap_or_else(GroupRates::papers_hint)
    }

    pub fn noise(&self) -> GaussianNoise {
        self.remembered.iter().find_map(Defence::noise).copied().unwrap_or_default()
    }

    pub fn start(&self) -> EncryptionStart {
        self.remembered.iter().find_map(Defence::encryption).unwrap_or_default()
    }

    pub fn follow(&mut self, defence: Defence) {
        self.choice = defence.kind();
        self.change(defence);
    }

    /// Changes the parameters of a kind of defence, chosen or not.
    pub fn change(&mut self, defence: Defence) {
        for remembered in &mut self.remembered {
            if remembered.kind() == defence.kind() {
                *remembered = defence;
            } else if let Some(rates) = defence.rates() {
                *remembered = remembered.with_rates(*rates);
            }
        }
    }
}

impl Default for DefenceDraft {
    fn default() -> Self {
        Self { choice: DefenceKind::None, remembered: DefenceKind::ALL.map(Defence::from) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingDraft {
    pub rule: Rule,
    /// FedAvg with its parameters, kept while FedSGD is chosen.
    pub fedavg: Rule,
    pub optimiser: OptimiserKind,
    pub batch: u16,
}

impl TrainingDraft {
    pub fn follow(&mut self, rule: Rule, optimiser: OptimiserKind, batch: u16) {
        let fedavg = if rule.is_fedavg() { rule } else { self.fedavg };
        *self = Self { rule, fedavg, optimiser, batch };
    }

    /// FedAvg's local epochs and rate.
    pub fn local(&self) -> (u16, f32) {
        match self.fedavg {
            Rule::FedAvg { epochs, rate } => (epochs, rate),
            Rule::FedSgd => (0, 0.0),
        }
    }
}

impl Default for TrainingDraft {
    fn default() -> Self {
        Self { rule: Rule::FedSgd, fedavg: Rule::FED_AVG, optimiser: OptimiserKind::ADAM, batch: 1 }
    }
}

/// Slider values of alpha, from one or two classes for each client to nearly equal shares.
const ALPHAS: [f64; 10] = [0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0];

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DataDraft {
    pub train_on: TrainOn,
    /// Whether a Dirichlet distribution divides the classes.
    pub is_skewed: bool,
    /// The Dirichlet alpha, kept while all clients get equal shares. A smaller alpha means fewer classes for each
    /// client.
    pub alpha: f64,
}

impl Default for DataDraft {
    fn default() -> Self {
        Self { train_on: TrainOn::Private, is_skewed: false, alpha: 0.3 }
    }
}

impl DataDraft {
    pub const LAST_POSITION: usize = ALPHAS.len() - 1;

    pub fn partition(self) -> Partition {
        if self.is_skewed { Partition::Dirichlet { alpha: self.alpha } } else { Partition::Iid }
    }

    /// Copies the room's settings. A partition without an alpha leaves `alpha` unchanged.
    pub fn follow(&mut self, train_on: TrainOn, partition: Partition) {
        self.train_on = train_on;
        self.is_skewed = partition != Partition::Iid;
        if let Partition::Dirichlet { alpha } = partition {
            self.alpha = alpha;
        }
    }

    /// The slider position whose value is nearest in proportion.
    pub fn position(self) -> usize {
        let distance = |position: &usize| (ALPHAS[*position] / self.alpha).ln().abs();
        (0..ALPHAS.len()).min_by(|one, other| distance(one).total_cmp(&distance(other))).unwrap_or_default()
    }

    /// Moves the slider; positions past the end count as the end.
    pub fn slide(&mut self, position: usize) {
        (self.is_skewed, self.alpha) = (true, ALPHAS[position.min(Self::LAST_POSITION)]);
    }
}

/// The position of a slider that has to show several rates: midway between the lowest and the highest.
pub fn middle(rates: &GroupRates) -> f64 {
    let (low, high) = ParamGroup::ALL.iter().fold((1.0_f64, 0.0_f64), |(low, high), group| {
        let rate = rates.get(*group).get();
        (low.min(rate), high.max(rate))
    });
    (low + high) / 2.0
}

/// Parses three typed numbers as noise. It clips what `like` clips.
///
/// # Errors
/// [`ParseNoiseError`], which names the invalid number.
pub fn read_noise(
    like: GaussianNoise,
    [epsilon, delta, sensitivity]: [&str; 3],
) -> Result<GaussianNoise, ParseNoiseError> {
    format!("eps={epsilon},delta={delta},{}={sensitivity},per={}", like.sensitivity_key(), like.unit()).parse()
}

/// Parses two typed numbers as FedAvg.
///
/// # Errors
/// [`ParseRuleError`], which names the invalid number.
pub fn read_fedavg(epochs: &str, rate: &str) -> Result<Rule, ParseRuleError> {
    format!("fedavg:epochs={epochs},rate={rate}").parse()
}

/// Parses a typed rate for the same kind of server optimiser.
///
/// # Errors
/// [`ParseOptimiserError`], which quotes the input.
pub fn read_optimiser(kind: OptimiserKind, rate: &str) -> Result<OptimiserKind, ParseOptimiserError> {
    format!("{}:{rate}", kind.name()).parse()
}

/// Whether the relay would accept the settings with plain SGD on the server. One of `defence` and `rule` is the one
/// asked for; the other values are the room's.
pub fn sgd_would_help(defence: Defence, rule: Rule, optimiser: OptimiserKind) -> bool {
    matches!(RoundSettings::new(defence, rule, 1, optimiser), Err(SettingsError::AdamOnEncrypted(_)))
}

/// Parses a typed batch size, or explains what is wrong with it.
pub fn read_batch(text: &str) -> Result<u16, String> {
    let batch = text.trim().parse::<NonZeroU16>().map(NonZeroU16::get);
    batch.map_err(|_| format!("“{text}” is not a batch size. Give a whole number from 1 to 65535."))
}

/// Parses typed seconds for attacks, or explains what is wrong with them. The relay checks the limit.
pub fn read_budget(text: &str) -> Result<f64, String> {
    let seconds = text.trim().parse().ok().filter(|seconds: &f64| seconds.is_finite());
    seconds.ok_or_else(|| format!("“{text}” is not a time for attacks. Give seconds per round, or 0 to stop them."))
}

/// Attacks that solve the same problem and share a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttackGroup {
    pub family: AttackFamily,
    /// In the room's order.
    pub attacks: Vec<AttackMethod>,
}

/// Groups `attacks` by family, in order of first appearance.
pub fn by_family(attacks: &[AttackView]) -> Vec<AttackGroup> {
    let mut groups: Vec<AttackGroup> = Vec::new();
    for &AttackView { attack, family, .. } in attacks {
        match groups.iter_mut().find(|group| group.family == family) {
            Some(group) => group.attacks.push(attack),
            None => groups.push(AttackGroup { family, attacks: vec![attack] }),
        }
    }
    groups
}

/// The group whose card starts and stops the search: the first that contains a search.
pub fn first_search(groups: &[AttackGroup]) -> Option<AttackFamily> {
    groups.iter().find(|group| group.attacks.iter().any(|attack| attack.is_search())).map(|group| group.family)
}

#[cfg(test)]
mod tests {
    use unmask_core::ZeroRate;

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
        assert_eq!((draft.rates().to_string(), draft.start()), ("0.2".to_owned(), EncryptionStart::Keyed));
        assert_eq!(draft.defence().to_string(), "random-binary:0.2");
        draft.choice = DefenceKind::Gaussian;
        assert_eq!(draft.defence().to_string(), "gaussian:eps=4,delta=1e-5,clip=0.5");
    }

    #[test]
    fn fedavg_outlives_a_visit_to_fedsgd() {
        let mut draft = TrainingDraft::default();
        draft.follow(Rule::FedAvg { epochs: 3, rate: 0.05 }, OptimiserKind::SGD, 4);
        draft.follow(Rule::FedSgd, OptimiserKind::SGD, 4);
        assert_eq!((draft.rule, draft.local()), (Rule::FedSgd, (3, 0.05)));
    }

    #[test]
    fn alpha_outlives_a_visit_to_iid() {
        let mut draft = DataDraft::default();
        for partition in [Partition::Dirichlet { alpha: 0.07 }, Partition::Iid] {
            draft.follow(TrainOn::Shared, partition);
            assert_eq!(draft.partition(), partition);
        }
        assert_eq!(draft, DataDraft { train_on: TrainOn::Shared, is_skewed: false, alpha: 0.07 });
    }

    #[test]
    fn the_alpha_slider_stands_at_the_nearest_alpha() {
        let mut draft = DataDraft::default();
        for position in 0..=DataDraft::LAST_POSITION {
            draft.slide(position);
            assert_eq!(draft.position(), position);
        }
        assert_eq!(DataDraft { alpha: 0.07, ..draft }.position(), 0);
        assert_eq!(DataDraft { alpha: 1e9, ..draft }.position(), DataDraft::LAST_POSITION);
        draft.slide(99);
        assert_eq!(draft.alpha, 100.0);
    }

    #[test]
    fn a_slider_stands_between_the_rates_it_shows() {
        assert!((middle(&GroupRates::uniform(ZeroRate::nearest(0.3))) - 0.3).abs() < 1e-4);
        assert!((middle(&GroupRates::papers_hint()) - 0.575).abs() < 1e-4);
    }

    #[test]
    fn what_is_typed_is_read_or_named() {
        let clipped = GaussianNoise::new(2.0, 1e-5, 0.5).expect("good");
        assert_eq!(read_noise(GaussianNoise::default(), ["2", "1e-5", ".5"]), Ok(clipped));
        assert_eq!(read_noise(clipped.unclipped(), ["2", "1e-5", ".5"]), Ok(clipped.unclipped()));
        assert!(read_noise(clipped, ["2", "7", "0.5"]).expect_err("bad").to_string().contains("\"7\""));
        assert_eq!(read_fedavg("3", "0.05"), Ok(Rule::FedAvg { epochs: 3, rate: 0.05 }));
        assert!(read_fedavg("0", "0.05").expect_err("bad").to_string().contains("\"0\""));
        assert_eq!(read_batch(" 16 "), Ok(16));
        for bad in ["0", "-3", "1.5", "70000", "many", ""] {
            assert!(read_batch(bad).expect_err("bad").contains(bad));
        }
        assert_eq!((read_budget(" 2.5 "), read_budget("0")), (Ok(2.5), Ok(0.0)));
        for bad in ["inf", "NaN", "soon", ""] {
            assert!(read_budget(bad).expect_err("bad").contains(bad));
        }
    }

    #[test]
    fn a_server_step_is_typed_as_its_rate() {
        assert_eq!(read_optimiser(OptimiserKind::ADAM, "0.01"), Ok(OptimiserKind::Adam { rate: 0.01 }));
        assert!(read_optimiser(OptimiserKind::SGD, "fast").expect_err("bad").to_string().contains("fast"));
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

    fn views(attacks: &[AttackMethod]) -> Vec<AttackView> {
        let view =
            |attack: &AttackMethod| AttackView { attack: *attack, family: attack.family(), ..AttackView::default() };
        attacks.iter().map(view).collect()
    }

    #[test]
    fn twins_share_a_card_wherever_they_stand() {
        use AttackMethod::{April, Embedding, EmbeddingAware, Rounds};
        let groups = by_family(&views(&[Embedding, April, EmbeddingAware, Rounds]));
        let families: Vec<AttackFamily> = groups.iter().map(|group| group.family).collect();
        assert_eq!(families, [AttackFamily::Embedding, AttackFamily::April, AttackFamily::Rounds]);
        assert_eq!(groups[0].attacks, [Embedding, EmbeddingAware]);
        assert!(by_family(&[]).is_empty());
    }

    #[test]
    fn the_search_is_driven_from_one_card() {
        use AttackMethod::{Embedding, Gradients, KnownStart, Matching};
        assert_eq!(first_search(&by_family(&views(&[Embedding, KnownStart]))), None);
        assert_eq!(first_search(&by_family(&views(&[Embedding, Matching, Gradients]))), Some(AttackFamily::Matching));
    }
}
