//! What counting equations and unknowns says of each attack before there is an update.

use unmask_core::{Architecture, AttackMethod, Defence, EncryptionStart, Outlook, ParamGroup, Rule, VitConfig};

use crate::{KeySource, Needs, membership::MOST_OF_WIDTH, most_pictures};

/// Equations for each unknown from which rounding to f32 leaves the solution. Between 1 and this, counting allows a
/// solution and rounding may spoil it.
const SPARE: f64 = 1.25;
/// Kept values for each unknown from which completion found every photograph tried; at 1.3 it found nine of ten.
const SURE_TO_COMPLETE: f64 = 1.9;
/// Standard deviations by which a row of a mask may keep fewer values than expected.
const DEVIATIONS: f64 = 4.0;
/// Rounds that the attack `rounds` gathers.
const MOST_ROUNDS: usize = 8;

/// What an attacker receives: one client's update, or the sum of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sight {
    pub architecture: Architecture,
    pub rule: Rule,
    pub defence: Defence,
    /// Clients whose protected updates are added: 1 for a single update.
    pub clients: usize,
    /// Pictures of each client in its update.
    pub batch: usize,
    /// Whether it is a difference of two models, which f32 rounds, instead of what clients sent.
    pub is_difference: bool,
}

/// The prediction for one attack, and its reason as a clause.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    pub outlook: Outlook,
    pub because: String,
}

impl Prediction {
    fn new(outlook: Outlook, because: impl Into<String>) -> Self {
        Self { outlook, because: because.into() }
    }

    fn unknown(because: impl Into<String>) -> Self {
        Self::new(Outlook::Unknown, because)
    }

    fn forbids(because: impl Into<String>) -> Self {
        Self::new(Outlook::CountingForbids, because)
    }

    fn does_not_apply(because: impl Into<String>) -> Self {
        Self::new(Outlook::DoesNotApply, because)
    }
}

impl Sight {
    /// Pictures whose gradients are added in what is seen.
    pub fn pictures(&self) -> usize {
        self.clients.saturating_mul(self.batch)
    }

    /// Whether counting allows the attack `batch` to take the pictures apart, by [`most_pictures`].
    pub fn has_independent_tokens(&self) -> bool {
        self.architecture.vit().is_some_and(|config| self.pictures() <= most_pictures(&config))
    }

    /// What counting says of `method`.
    pub fn reconstruction(&self, method: AttackMethod) -> Prediction {
        let needs = match Needs::of(method, self.architecture) {
            Ok(needs) => needs,
            Err(error) => return Prediction::does_not_apply(error.to_string()),
        };
        if needs.april_block && !self.architecture.april_block() {
            return Prediction::does_not_apply("the model has no April block, which no standard ViT has");
        }
        if let Some(other) = self.by_mask(method).or_else(|| self.by_key(needs.key, method.is_search())) {
            return other;
        }
        if self.defence.noise().is_some() {
            return Prediction::unknown("noise is added to every value, so that no equation holds exactly");
        }
        if method.is_search() {
            return self.search(method);
        }
        let Some(config) = self.architecture.vit() else {
            return Prediction::unknown("nothing is known of this network");
        };
        if self.defence.fixes(ParamGroup::Position) {
            return Prediction::forbids(
                "the gradient of the position embedding does not arrive: nothing says which mixture of patches each equation holds",
            );
        }
        if method == AttackMethod::Batch {
            return self.batch(&config);
        }
        if let Some(several) = self.several(&config) {
            return several;
        }
        if needs.april_block {
            return Prediction::unknown(
                "the equations have one solution and are badly conditioned: the weights decide",
            );
        }
        let counted = match method {
            AttackMethod::Rounds => return self.rounds(&config),
            AttackMethod::Completion => self.completion(&config),
            AttackMethod::EmbeddingAware => self.dropped_pixels(&config),
            _ if needs.key == Some(KeySource::KnownStart) && config.dim < config.patch_len() => {
                let (dim, len) = (config.dim, config.patch_len());
                Prediction::forbids(format!(
                    "the plain and the encrypted weights give D = {dim} of the key's L = {len} rows"
                ))
            }
            _ if self.is_masked(&config) => {
                Prediction::unknown("dropped values are taken as zeros, which makes the equations wrong")
            }
            _ => linear(config.dim as f64, &config),
        };
        if counted.outlook != Outlook::Exact {
            return counted;
        }
        if self.architecture.april_block() {
            return Prediction::unknown("the gradients of an April block are small: rounding to f32 decides");
        }
        self.rounded(counted)
    }

    /// What counting says of the labels. Every statement assumes cross entropy and one class for each picture.
    pub fn labels(&self) -> Prediction {
        if self.architecture.classes() == 0 {
            return Prediction::does_not_apply("the model has no classification head");
        }
        if self.defence.noise().is_some() {
            return Prediction::unknown("noise is added to the head's gradient");
        }
        if self.pictures() > 1 {
            return Prediction::unknown(
                "the head's gradient counts the classes of a batch only as well as its predictions are known; as a rule a fresh \
                 model's counts are right",
            );
        }
        if self.rate(ParamGroup::Head) > 0.0 {
            return Prediction::unknown("part of the head's gradient arrives; as a rule that names the class");
        }
        let label = "the bias of the head has one negative entry, that of the label, if the loss is cross entropy";
        self.rounded(Prediction::new(Outlook::Exact, label))
    }

    /// What counting says of membership.
    pub fn membership(&self) -> Prediction {
        if let Err(error) = Needs::of_membership(self.architecture) {
            return Prediction::does_not_apply(error.to_string());
        }
        let Some(config) = self.architecture.vit().filter(|config| config.classes > 0) else {
            return Prediction::does_not_apply("the network has no class token, or no head whose loss reaches it");
        };
        if self.defence.is_encrypted() {
            return Prediction::does_not_apply("without the key nobody can run the encrypted model on a candidate");
        }
        if self.defence.noise().is_some() {
            return Prediction::unknown("noise hides the rank of the last block's gradient");
        }
        let (pictures, dim) = (self.pictures(), config.dim);
        if pictures >= dim {
            return Prediction::forbids(format!("{pictures} class tokens span all D = {dim} dimensions"));
        }
        if self.rule.is_fedavg() {
            return Prediction::unknown("local steps move the class tokens: members may be told, strangers are not");
        }
        if pictures as f64 > MOST_OF_WIDTH * dim as f64 {
            return Prediction::unknown(format!("{pictures} class tokens leave few of D = {dim} dimensions free"));
        }
        if self.rate(ParamGroup::Mlp) > 0.0 {
            return Prediction::unknown("the mask must be completed first, which works for a few pictures");
        }
        let span = if pictures == 1 { "token spans" } else { "tokens span" };
        let because =
            format!("{pictures} class {span} {pictures} of D = {dim} dimensions, and a stranger's lies outside");
        self.rounded(Prediction::new(Outlook::Exact, because))
    }

    /// Differences of weights are rounded to f32, so that they promise nothing.
    fn rounded(&self, counted: Prediction) -> Prediction {
        let rate = match (self.is_difference, self.rule.is_fedavg()) {
            (false, false) => return counted,
            (true, _) => "server's",
            (false, true) => "local",
        };
        Prediction::unknown(format!(
            "{}, but a difference of weights is rounded to f32, and the {rate} rate decides what is left",
            counted.because
        ))
    }

    /// Without an encryption there is no key; under it, only attacks with a key read the embeddings.
    fn by_key(&self, key: Option<KeySource>, is_search: bool) -> Option<Prediction> {
        match (self.defence.encryption(), key) {
            (None, None) => None,
            (None, Some(_)) => Some(Prediction::does_not_apply("nothing is encrypted")),
            (Some(_), None) if is_search => {
                Some(Prediction::does_not_apply("without the key nobody can run the encrypted model"))
            }
            (Some(_), None) => Some(Prediction::forbids(
                "the embeddings arrive as cipher text: every key gives another picture that fits",
            )),
            (Some(EncryptionStart::Keyed), Some(KeySource::KnownStart)) => {
                Some(Prediction::does_not_apply("the server never had the plain model"))
            }
            (Some(_), Some(_)) => None,
        }
    }

    /// Attacks on masks have nothing to do where nothing is dropped, and the jigsaw where positions arrive.
    fn by_mask(&self, method: AttackMethod) -> Option<Prediction> {
        let is_for_masks = matches!(
            method,
            AttackMethod::Completion
                | AttackMethod::Rounds
                | AttackMethod::EmbeddingAware
                | AttackMethod::AprilAware
                | AttackMethod::MatchingAware
                | AttackMethod::GradientsAware
        );
        if is_for_masks && self.defence.rates().is_none() {
            return Some(Prediction::does_not_apply("no mask drops values"));
        }
        (method.is_unordered() && !self.defence.fixes(ParamGroup::Position)).then(|| {
            Prediction::does_not_apply("the gradient of the position embedding arrives: token matching sees more")
        })
    }

    fn search(&self, method: AttackMethod) -> Prediction {
        let pictures = self.pictures();
        let search = "it is a search, and counting does not say whether it converges";
        Prediction::unknown(match (method, self.architecture.vit()) {
            (AttackMethod::Gradients | AttackMethod::GradientsAware, Some(_)) => {
                format!("{search}; on ViTs it has recovered no picture so far")
            }
            _ if pictures > 2 => format!("{search}; it takes two pictures apart, and here are {pictures}"),
            _ => search.to_owned(),
        })
    }

    /// Tokens of the first block, by its MLP.
    fn batch(&self, config: &VitConfig) -> Prediction {
        if config.april_block || config.depth < 2 {
            return Prediction::does_not_apply(if config.april_block {
                "it reads a standard first block, and here is an April block"
            } else {
                "it reads a block before the last, and the model has only one"
            });
        }
        if self.defence.rates().is_some() {
            return Prediction::unknown(
                "the mask must be completed first, which works for small batches at moderate rates",
            );
        }
        let (pictures, most, dim) = (self.pictures(), most_pictures(config), config.dim);
        let tokens = pictures * config.tokens();
        let counted = format!(
            "{pictures} picture{} have {tokens} tokens in D = {dim} dimensions, and counting allows at most {most}",
            plural(pictures)
        );
        match pictures <= most {
            true => Prediction::unknown(format!("{counted}: rounding decides how many are found")),
            false => Prediction::forbids(counted),
        }
    }

    /// One sum of products with several pictures leaves each patch free.
    fn several(&self, config: &VitConfig) -> Option<Prediction> {
        let pictures = self.pictures();
        let free = pictures.checked_sub(1).filter(|others| *others > 0)? * config.patches();
        let len = config.patch_len();
        Some(Prediction::forbids(if free < len {
            format!("the sum mixes {pictures} pictures: {free} of the {len} values of each patch stay free")
        } else {
            format!("the sum mixes {pictures} pictures, and says nothing of a single patch")
        }))
    }

    fn rate(&self, group: ParamGroup) -> f64 {
        self.defence.rates().map_or(0.0, |rates| rates.get(group).get())
    }

    fn is_masked(&self, config: &VitConfig) -> bool {
        let groups = [ParamGroup::Patch, ParamGroup::Position];
        config.dim > 0 && groups.iter().any(|&group| self.rate(group) > 0.0)
    }

    /// Least squares for each pixel over the values that a mask kept, where it kept the position embedding whole.
    fn dropped_pixels(&self, config: &VitConfig) -> Prediction {
        if self.rate(ParamGroup::Position) > 0.0 {
            return Prediction::unknown(
                "the mask also drops gradients of the position embedding: the equations are products of unknowns",
            );
        }
        linear(fewest(config.dim, self.rate(ParamGroup::Patch)), config)
    }

    /// Z = [G_E^T; G_pos; b_E] `[L + S + 1, D]` has rank S.
    fn completion(&self, config: &VitConfig) -> Prediction {
        let (dim, s) = (config.dim, config.patches());
        if dim <= s {
            return Prediction::forbids(format!("D = {dim} dimensions are not more than S = {s} patches"));
        }
        if !self.is_masked(config) {
            return linear(dim as f64, config);
        }
        let ratio = self.known_per_unknown(config);
        let counted = format!("the mask keeps {ratio:.2} values for each unknown of a matrix of rank {s}");
        let rows = fewest(dim, self.rate(ParamGroup::Patch).max(self.rate(ParamGroup::Position)));
        if ratio < 1.0 {
            Prediction::forbids(counted)
        } else if ratio < SURE_TO_COMPLETE {
            Prediction::unknown(format!("{counted}, which sometimes is enough"))
        } else if rows < s as f64 {
            Prediction::unknown(format!("{counted}, but some rows may keep fewer than {s}"))
        } else {
            Prediction::new(Outlook::Exact, counted)
        }
    }

    /// Expected number of kept values for each unknown. Rows that keep at most S values say nothing.
    fn known_per_unknown(&self, config: &VitConfig) -> f64 {
        let (s, l, dim) = (config.patches(), config.patch_len(), config.dim);
        let row = |group| (1.0 - self.rate(group)) * dim as f64;
        let rows = [(l + 1, row(ParamGroup::Patch)), (s, row(ParamGroup::Position))];
        let counted = rows.iter().filter(|(_, kept)| *kept > s as f64);
        let (rows, kept) =
            counted.fold((0, 0.0), |(rows, kept), &(more, each)| (rows + more, kept + more as f64 * each));
        kept / (s * (rows + dim).saturating_sub(s)).max(1) as f64
    }

    /// K rounds give S (K D + L + 1) unknowns.
    fn rounds(&self, config: &VitConfig) -> Prediction {
        let (s, l, dim) = (config.patches(), config.patch_len(), config.dim);
        let kept =
            (l + 1) as f64 * (1.0 - self.rate(ParamGroup::Patch)) + s as f64 * (1.0 - self.rate(ParamGroup::Position));
        let allows = |rounds: usize| kept * (rounds * dim) as f64 >= (s * (rounds * dim + l + 1)) as f64;
        match (1..=MOST_ROUNDS).find(|&rounds| allows(rounds)) {
            Some(rounds) => Prediction::unknown(format!(
                "counting allows it from {rounds} round{} of one picture, if the client trains on it again",
                plural(rounds)
            )),
            None => Prediction::forbids(format!("up to {MOST_ROUNDS} rounds of one picture keep too few values")),
        }
    }
}

/// G_E = G_pos^T X: `equations` for each pixel, with S unknowns.
fn linear(equations: f64, config: &VitConfig) -> Prediction {
    let patches = config.patches();
    let counted = format!("{equations:.0} equations for the {patches} patches of each pixel");
    let ratio = equations / patches as f64;
    if ratio < 1.0 {
        Prediction::forbids(counted)
    } else if ratio < SPARE {
        Prediction::unknown(format!("{counted}: so few that rounding decides"))
    } else {
        Prediction::new(Outlook::Exact, counted)
    }
}

/// Values of a row of `len` that a mask is sure to keep.
fn fewest(len: usize, rate: f64) -> f64 {
    let len = len as f64;
    (len * (1.0 - rate) - DEVIATIONS * (len * rate * (1.0 - rate)).sqrt()).max(0.0).floor()
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_core::{ResnetPreset, VitPreset};

    use super::*;

    fn sight(model: &str, defence: &str) -> Sight {
        let (architecture, defence) = (model.parse().unwrap(), defence.parse().unwrap());
        Sight { architecture, rule: Rule::FedSgd, defence, clients: 1, batch: 1, is_difference: false }
    }

    fn outlook(model: &str, defence: &str, method: AttackMethod) -> Outlook {
        sight(model, defence).reconstruction(method).outlook
    }

    /// Cases that docs/reports/attack-notes.md has measured.
    #[test]
    fn predictions_agree_with_what_was_measured() {
        use AttackMethod::{Completion, Embedding, EmbeddingAware};
        use Outlook::{CountingForbids, Exact, Unknown};
        for (model, defence, method, expected) in [
            ("vit_nano_patch4_32", "none", Embedding, Exact),
            ("vit_small_patch16_224", "none", Embedding, Exact),
            ("vit_tiny_patch16_224", "none", Embedding, CountingForbids),
            ("vit_nano_patch4_32", "random-binary:0.5", Embedding, Unknown),
            ("vit_nano_patch4_32", "fixed-position", Embedding, CountingForbids),
            ("vit_nano_patch4_32", "gaussian", Embedding, Unknown),
            ("vit_nano_patch4_32", "encrypted", Embedding, CountingForbids),
            ("vit_lab_patch4_32", "random-binary:pos=0,0.5", EmbeddingAware, Unknown),
            ("vit_lab_patch8_32", "random-binary:pos=0,0.5", EmbeddingAware, Exact),
            ("vit_lab_patch8_32", "random-binary:0.7", Completion, Exact),
            ("vit_nano_patch8_32", "random-binary:0.5", Completion, Exact),
            ("vit_small_patch32_224", "random-binary:0.7", Completion, Exact),
            ("vit_lab_patch8_32", "random-binary:0.8", Completion, Unknown),
            ("vit_nano_patch8_32", "random-binary:0.7", Completion, Unknown),
            ("vit_lab_patch4_32", "random-binary:0.5", Completion, CountingForbids),
            ("vit_nano_patch4_32", "random-binary:0.2", Completion, CountingForbids),
        ] {
            assert_eq!(outlook(model, defence, method), expected, "{model} {defence} {method}");
        }
    }

    #[test]
    fn a_batch_leaves_its_patches_free_and_membership_reads_sums() {
        let one = sight("vit_lab_patch8_32", "none");
        let batch = Sight { batch: 4, ..one };
        let told = batch.reconstruction(AttackMethod::Embedding);
        assert_eq!(told.outlook, Outlook::CountingForbids);
        assert!(told.because.contains("48 of the 192 values of each patch"), "{}", told.because);
        assert!(batch.has_independent_tokens() && !Sight { batch: 12, ..one }.has_independent_tokens());
        let sum = Sight { clients: 30, batch: 4, ..one };
        assert_eq!(sum.membership().outlook, Outlook::Exact, "120 of 192 dimensions");
        assert_eq!(Sight { clients: 33, ..sum }.membership().outlook, Outlook::Unknown);
        assert_eq!(Sight { clients: 48, ..sum }.membership().outlook, Outlook::CountingForbids);
        assert_eq!((one.labels().outlook, batch.labels().outlook), (Outlook::Exact, Outlook::Unknown));
    }

    #[test]
    fn what_does_not_apply_says_why() {
        let resnet = Sight { architecture: ResnetPreset::Nano.into(), ..sight("vit_nano_patch4_32", "none") };
        assert_eq!(resnet.membership().outlook, Outlook::DoesNotApply);
        let of = |sight: &Sight, method| sight.reconstruction(method);
        assert!(of(&resnet, AttackMethod::Embedding).because.contains("no Vision Transformer"));
        assert_eq!(of(&resnet, AttackMethod::Gradients).outlook, Outlook::Unknown);
        let vit = sight("vit_lab_patch8_32", "none");
        for method in [AttackMethod::April, AttackMethod::Completion, AttackMethod::Jigsaw, AttackMethod::KnownStart] {
            assert_eq!(of(&vit, method).outlook, Outlook::DoesNotApply, "{method}");
        }
        let known = |start| of(&sight("vit_lab_patch8_32", start), AttackMethod::KnownStart).outlook;
        assert_eq!([known("encrypted"), known("encrypted:keyed")], [Outlook::Exact, Outlook::DoesNotApply]);
        let pico = VitPreset::Pico.name();
        assert_eq!(outlook(pico, "encrypted", AttackMethod::Colluder), Outlook::Exact);
    }

    #[test]
    fn differences_of_weights_promise_nothing() {
        let local = Sight { rule: Rule::FED_AVG, ..sight("vit_lab_patch8_32", "none") };
        assert_eq!(local.reconstruction(AttackMethod::Embedding).outlook, Outlook::Unknown);
        assert_eq!(local.labels().outlook, Outlook::Unknown);
        let models = Sight { is_difference: true, ..sight("vit_lab_patch8_32", "none") };
        let told = [models.reconstruction(AttackMethod::Embedding), models.labels(), models.membership()];
        assert!(told.iter().all(|told| told.outlook == Outlook::Unknown && told.because.contains("server's rate")));
        let rounds = |rate| sight("vit_nano_patch8_32", rate).reconstruction(AttackMethod::Rounds);
        assert!(
            rounds("random-binary:0.8").because.contains("from 2 rounds"),
            "{}",
            rounds("random-binary:0.8").because
        );
        assert_eq!(rounds("random-binary:0.95").outlook, Outlook::CountingForbids);
    }

    proptest! {
        /// More dropped values, pictures or patches never make an attack more certain.
        #[test]
        fn less_to_see_is_never_more_certain(
            rate in 1usize..90, more in 1usize..9, batch in 1usize..6, method in 0..AttackMethod::ALL.len(),
        ) {
            let method = AttackMethod::ALL[method];
            let at = |rate: usize, batch| {
                let masked = sight("vit_lab_patch8_32", &format!("random-binary:0.{rate:02}"));
                Sight { batch, ..masked }.reconstruction(method).outlook
            };
            prop_assert!(at(rate, batch) <= at(rate + more, batch), "{method} at {rate}");
            prop_assert!(at(rate, batch) <= at(rate, batch + more), "{method} with {batch}");
        }
    }
}
