//! The sum of a few clients' updates, as a secure sum of a small cohort would show it, attacked as one batch.

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use unmask_attack::{
    AttackError, AttackProgress, CanaryScore, Concealment, CutSearch, Misfit, NoSearches, Observation, Received,
    Recovered, SearchOptions, Searches, UpdateScale, WholeUpdate, fished_class_of, is_first_likelier, most_pictures,
};
use unmask_core::{
    Architecture, AttackMethod, ClientId, Defence, Knowledge, MaskSeed, ModelState, RoundSettings, Rule, ThreatModel,
};
use unmask_data::{metrics::nearest_originals, synthetic_picture};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect, clip_factor};
use unmask_federation::{Accepted, GlobalModel};
use unmask_lesson::{MAX_SUSPECTS, SumKind};
use unmask_wire::{RelayMessage, view::SumView};

use super::{
    TRIES,
    about::About,
    attackers::Attackers,
    cards::{ScoreError, check_score},
    pictures::{Pictures, SUM},
    reading,
    report::{Failure, Report, Seen},
    schedule::Shared,
};
use crate::{fishing::Fishing, time::Moment};

/// Upper limit of the time for one sum. The attack then shows what it has.
const PATIENCE: Duration = Duration::from_secs(180);

/// The attack for one picture that shows what is in a sum.
pub(super) const METHOD: AttackMethod = AttackMethod::Embedding;

/// The least time between two reports of tokens found.
const BETWEEN_REPORTS: Duration = Duration::from_secs(1);

/// Most trials of the noise on a sum.
const TRIALS: u32 = 100;
/// Trials that are made however long they take.
const LEAST_TRIALS: u32 = 20;
/// How long the noise is tried after that: a class waits for the guesses, and in a browser each trial of a large model
/// takes a quarter of a second.
const TRYING: Duration = Duration::from_secs(8);
/// Pictures among which the noise's trials find two. A gradient takes longer than a trial.
const CANARIES: u64 = 4;

/// The sums of one lesson: one at a time, and one for each model.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// What the class is looking at.
    kind: Option<SumKind>,
    /// Whether the last round that closed had too few of the clients for a sum.
    is_lacking: bool,
    tries: u8,
    adding: Option<Adding>,
    /// An update that was read and that the room has yet to take.
    part: Option<(ClientId, Vec<f32>)>,
    /// What the client under attack sent for the running round's secure sum, `[P]`.
    masked: Option<(ClientId, u32, Vec<f32>)>,
    /// How the last sum was fished that is not of one picture, the next cut, and the clients in it.
    fished: Option<(Fishing, CutSearch, Vec<ClientId>)>,
    /// The clients in the sums that the present cut was made from.
    cut_from: BTreeSet<ClientId>,
    forgets_cut: bool,
    /// The sum that is being made, attacked or shown, with its serial number.
    view: Option<(u64, SumView)>,
}

/// A sum in the making.
#[derive(Debug)]
struct Adding {
    about: About,
    /// The model from which the clients compute their updates.
    model: GlobalModel,
    /// The clients whose updates were added.
    clients: Vec<ClientId>,
    waiting: BTreeSet<ClientId>,
    /// `[P]`, in f64.
    values: Vec<f64>,
}

/// The mean of the updates in a sum, which is the gradient of all their pictures as one batch.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Mean {
    about: About,
    architecture: Architecture,
    weights: Vec<f32>,
    statistics: Vec<f32>,
    /// `[P]`
    gradient: Vec<f32>,
    pictures: usize,
    then: Option<Further>,
    /// The masked values of one client, `[P]`.
    masked: Option<(ClientId, Vec<f32>)>,
}

/// What is done with a sum besides an attack for one picture.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Further {
    /// Looks whether it is of one picture.
    Divide(Fishing),
    /// Takes out single pictures. Doctored weights leave one, and noise none.
    TakeApart,
    /// Tries the noise with other pictures.
    Try(Defence),
}

/// A sum for the attack.
#[derive(Debug)]
pub(super) struct SumJob {
    about: About,
    side: usize,
    observation: Observation,
    whole: Arc<WholeUpdate>,
    masked: Option<(ClientId, Observation)>,
    /// Whether the mixture was reported.
    is_mixed: bool,
    then: Option<Further>,
}

/// What was taken out of a sum.
#[derive(Debug, Serialize, Deserialize)]
pub struct Apart {
    pub(crate) pictures: Vec<Seen>,
    pub(crate) certain: usize,
    pub(crate) seconds: f64,
    pub(crate) notes: Vec<String>,
}

/// What an attack made of a sum.
#[derive(Debug, Serialize, Deserialize)]
pub enum OfSum {
    /// What an attack for one picture shows of the masked values of this client.
    Masked(ClientId, Result<Seen, Failure>),
    /// What an attack for one picture shows.
    Mixture(Result<Seen, Failure>),
    /// A sum that was fished this way is not of one picture, and the next cut.
    NotOne(Fishing, CutSearch),
    /// So many of the sum's tokens are found, and so many are in it.
    Tokens(usize, usize),
    Apart(Result<Apart, Failure>),
    /// How often a guesser who knows all other pictures told which of two was in the sum, and the least epsilon with which
    /// that is plausible.
    Tried(Result<(CanaryScore, f64), Failure>),
}

impl Sums {
    /// Turns to another sum, or away from sums. Returns whether that forgets one.
    pub(super) fn turn(&mut self, kind: Option<SumKind>) -> bool {
        let is_news = self.kind != kind;
        self.kind = kind;
        if is_news {
            (self.is_lacking, self.tries) = (false, TRIES);
        }
        is_news && self.forget()
    }

    /// Reads an update that the room is about to take, if it belongs in the sum. `members` are the clients that agreed and
    /// show their picture.
    pub(super) fn read(
        &mut self,
        accepted: &Accepted,
        settings: &RoundSettings,
        model: &GlobalModel,
        about: About,
        members: impl FnOnce() -> Vec<ClientId>,
    ) {
        let is_plain = settings.defence() == Defence::None && settings.encryption().is_none();
        let is_one_picture = settings.rule() == Rule::FedSgd && accepted.samples() == 1;
        if self.kind != Some(SumKind::OfFew) || !is_plain || !is_one_picture {
            return;
        }
        let client = accepted.client();
        if self.adding.as_ref().is_some_and(|adding| adding.about.round != about.round) {
            (self.adding, self.view) = (None, None);
        }
        if self.view.is_none() {
            let most = within_reach(model.architecture);
            let members: Vec<ClientId> = members().into_iter().take(most).collect();
            if members.len() < 2 || !members.contains(&client) {
                return;
            }
            let view = SumView { round: about.round, clients: members.clone(), ..SumView::default() };
            self.view = Some((about.serial, view));
            let (waiting, values) = (members.into_iter().collect(), vec![0.0; model.state.weights.len()]);
            self.adding = Some(Adding { about, model: model.clone(), clients: Vec::new(), waiting, values });
        }
        let is_awaited = self.adding.as_ref().is_some_and(|adding| adding.waiting.contains(&client));
        self.part = is_awaited.then(|| (client, accepted.update().values().to_vec()));
    }

    /// Keeps what the client under attack sends for a secure sum, if the class looks at that.
    pub(super) fn hear(&mut self, client: ClientId, round: u32, values: &[u32]) {
        if self.kind == Some(SumKind::Secure) && self.view.is_none() {
            // Whole numbers around zero; the attack does not depend on their scale.
            let scaled = values.iter().map(|value| value.cast_signed() as f32 / i32::MAX as f32).collect();
            self.masked = Some((client, round, scaled));
        }
    }

    /// Attacks the mean `[P]` of these clients' updates of one picture each, if the class looks at such a sum. It is taken
    /// apart only if no defence is in the way and the attack reaches so many. `target` is the client under attack, and the
    /// class of its picture if that is known.
    pub(super) fn take(
        &mut self,
        (about, fishing, are_private): (About, Option<Fishing>, bool),
        target: Option<(ClientId, Option<u16>)>,
        clients: Vec<ClientId>,
        mean: Vec<f32>,
        model: &GlobalModel,
        attackers: &Attackers,
    ) {
        let is_doctored = fishing.is_some();
        let is_plain = about.defence == Defence::None && about.rule == Rule::FedSgd;
        let comes_apart = !is_doctored && (2..=within_reach(model.architecture)).contains(&clients.len());
        let is_it = match self.kind {
            Some(SumKind::Secure) => is_plain && !is_doctored,
            // Doctored weights leave one picture in the sum, which any attack on single pictures reads.
            Some(SumKind::OfFew) => is_plain && (is_doctored || comes_apart),
            Some(SumKind::Fished) => is_plain && is_doctored,
            Some(SumKind::Noisy) => about.defence.noise().is_some() && is_doctored,
            None => false,
        };
        // Only the sum of a few is about all of its clients.
        let is_about = self.kind == Some(SumKind::OfFew) || target.is_some_and(|(target, _)| clients.contains(&target));
        if !is_it || !is_about || self.view.is_some() {
            return;
        }
        let then = match self.kind {
            Some(SumKind::OfFew) => comes_apart.then_some(Further::TakeApart),
            Some(SumKind::Noisy) => Some(Further::Try(about.defence)),
            // Of shared pictures, the next round has others.
            Some(SumKind::Fished) => fishing.filter(|_| are_private).map(Further::Divide),
            _ => None,
        };
        let masked = self.masked.take().filter(|(client, round, values)| {
            clients.contains(client) && *round == about.round && values.len() == mean.len()
        });
        let masked = masked.map(|(client, _, values)| (client, values));
        if self.kind == Some(SumKind::Secure) && masked.is_none() {
            return;
        }
        let GlobalModel { architecture, state: ModelState { weights, statistics } } = model.clone();
        let pictures = clients.len();
        self.tries = TRIES;
        let threat = fishing.map_or(ThreatModel::Honest, Fishing::threat);
        // After a cut, the picture may be of anybody with this class.
        let class = fishing.filter(|_| self.kind == Some(SumKind::Fished) && threat == ThreatModel::Fishing);
        let is_aim = |(client, known): &(ClientId, Option<u16>)| {
            clients.contains(client) && known.is_some() && *known == class.map(Fishing::class)
        };
        let aim = target.filter(is_aim).map(|(client, _)| client);
        self.view = Some((about.serial, SumView { round: about.round, clients, threat, aim, ..SumView::default() }));
        attackers.attack_sum(Some(Mean {
            about,
            architecture,
            weights,
            statistics,
            gradient: mean,
            pictures,
            then,
            masked,
        }));
    }

    /// Adds the update that was read; the room has taken it. Attacks the sum once it is complete.
    pub(super) fn begin(&mut self, attackers: &Attackers) {
        let (Some((client, values)), Some(adding)) = (self.part.take(), &mut self.adding) else { return };
        if values.len() == adding.values.len() && adding.waiting.remove(&client) {
            adding.clients.push(client);
            adding.values.iter_mut().zip(values).for_each(|(sum, value)| *sum += f64::from(value));
        }
        if adding.waiting.is_empty() {
            self.round_closed(attackers);
        }
    }

    /// Attacks what was added, without clients that did not answer.
    pub(super) fn round_closed(&mut self, attackers: &Attackers) {
        let Some(adding) = self.adding.take_if(|adding| adding.clients.len() >= 2) else {
            self.view.take_if(|_| self.adding.take().is_some());
            self.is_lacking = self.kind == Some(SumKind::OfFew) && self.view.is_none();
            return;
        };
        self.tries = TRIES;
        if let Some((_, view)) = &mut self.view {
            view.clients.retain(|client| adding.clients.contains(client));
        }
        attackers.attack_sum(Some(adding.into_mean()));
    }

    /// Whether to run the round again: a new model goes out while some clients still compute for the old one, and the
    /// round does not wait for those.
    pub(super) fn wants_round(&mut self) -> bool {
        let is_wanted = std::mem::take(&mut self.is_lacking) && self.tries > 0;
        self.tries -= u8::from(is_wanted);
        is_wanted
    }

    /// See [`Attacks::fished`](super::Attacks::fished).
    pub(super) fn fished(&mut self, fishing: Fishing) -> Option<(CutSearch, bool)> {
        let (_, next, clients) = self.fished.take().filter(|(fished, ..)| *fished == fishing)?;
        let clients: BTreeSet<ClientId> = clients.into_iter().collect();
        let is_same = self.cut_from.is_empty() || self.cut_from == clients;
        self.cut_from = clients;
        Some((next, is_same))
    }

    pub(super) fn begin_search_for_cut(&mut self) {
        self.cut_from.clear();
        self.forgets_cut = false;
    }

    pub(super) fn remark(&mut self, remark: String) {
        if let Some((_, view)) = &mut self.view {
            view.remark = Some(remark);
        }
    }

    /// Whether somebody has left or withdrawn whose picture the present cut was made from.
    pub(super) fn forgets_cut(&mut self) -> bool {
        std::mem::take(&mut self.forgets_cut)
    }

    pub(super) fn forget_read(&mut self) {
        self.part = None;
    }

    /// Takes what the attack made of the sum, and returns what the client that doctored weights aim at should compare.
    /// Each picture goes to the client whose shown picture it resembles most: the sum itself does not say whose is whose.
    pub(super) fn found(
        &mut self,
        about: &About,
        outcome: OfSum,
        pictures: &Pictures,
    ) -> Option<(ClientId, RelayMessage, Vec<f32>)> {
        let is_it = |(serial, _): &&mut (u64, SumView)| *serial == about.serial;
        let (_, view) = self.view.as_mut().filter(is_it)?;
        let prefix = format!("{}-", view.round);
        let keep = |png| pictures.keep(about.client, SUM, &prefix, png);
        match outcome {
            OfSum::Masked(client, outcome) => {
                let Ok(seen) = outcome else {
                    self.view = None;
                    return None;
                };
                view.masked = Some((client, pictures.keep(client, SUM, &prefix, seen.png)));
            }
            OfSum::Mixture(Ok(Seen { side, values, png, .. })) => {
                view.mixture = Some(keep(png));
                let message = RelayMessage::Reconstruction { round: view.round, attack: METHOD, side };
                return view.aim.map(|aim| (aim, message, values));
            }
            // The next sum may do better. That of a few has one round.
            OfSum::Mixture(Err(_)) if self.kind != Some(SumKind::OfFew) => self.view = None,
            OfSum::Mixture(Err(_)) => {}
            OfSum::NotOne(fishing, next) => {
                // Nobody gets a mixture with other people's pictures.
                view.aim = None;
                self.fished = Some((fishing, next, view.clients.clone()));
            }
            OfSum::Tokens(found, all) => view.tokens = Some((found, all)),
            OfSum::Apart(Ok(Apart { pictures: found, certain, seconds, notes })) => {
                let originals: Vec<_> = view
                    .clients
                    .iter()
                    .map(|client| pictures.original_values(*client).map(|original| original.values))
                    .collect();
                let values: Vec<&[f32]> = found.iter().map(|seen| &seen.values[..]).collect();
                let places = nearest_originals(&values, &originals);
                view.pictures = vec![None; view.clients.len()];
                for (place, seen) in places.into_iter().zip(found) {
                    if let Some(shown) = view.pictures.get_mut(place) {
                        *shown = Some(keep(seen.png));
                    }
                }
                (view.certain, view.seconds) = (certain.min(view.clients.len()), Some(seconds));
                view.remark = (certain < view.clients.len()).then(|| notes.join(" "));
            }
            OfSum::Apart(Err(reason)) => {
                view.pictures = vec![None; view.clients.len()];
                view.remark = Some(cannot("take the sum apart", &reason));
            }
            OfSum::Tried(Ok((CanaryScore { trials, right }, epsilon))) => {
                (view.tried, view.least_epsilon) = (Some((right, trials)), Some(epsilon));
            }
            OfSum::Tried(Err(reason)) => view.remark = Some(cannot("test the noise", &reason)),
        }
        None
    }

    /// Whether this client was asked to compare what came out of a sum of this round.
    pub(super) fn awaits_score(&self, client: ClientId, round: u32) -> bool {
        self.view
            .as_ref()
            .is_some_and(|(_, view)| view.aim == Some(client) && view.round == round && view.mixture.is_some())
    }

    /// Takes the score of a client that was asked.
    ///
    /// # Errors
    /// If no pictures have this distance.
    pub(super) fn score(&mut self, psnr: f32, ssim: f32) -> Result<(), ScoreError> {
        check_score(psnr, ssim)?;
        if let Some((_, view)) = &mut self.view {
            view.score = Some((psnr, ssim));
        }
        Ok(())
    }

    /// Forgets the sum if this client's update is in it, and waits no longer for one that has not come. Returns whether a
    /// sum was forgotten.
    pub(super) fn forget_client(&mut self, client: ClientId) -> bool {
        self.part.take_if(|(other, _)| *other == client);
        self.masked.take_if(|(other, ..)| *other == client);
        if let (Some(adding), Some((_, view))) = (&mut self.adding, &mut self.view)
            && adding.waiting.remove(&client)
        {
            view.clients.retain(|other| *other != client);
        }
        let is_gone = self.view.take_if(|(_, view)| view.clients.contains(&client)).is_some();
        self.adding.take_if(|_| is_gone);
        self.fished.take_if(|(.., clients)| clients.contains(&client));
        if self.cut_from.contains(&client) {
            self.cut_from.clear();
            self.forgets_cut = true;
        }
        is_gone
    }

    /// Forgets everything. Returns whether there was a sum under attack or taken apart.
    pub(super) fn forget(&mut self) -> bool {
        (self.adding, self.part, self.masked, self.fished) = (None, None, None, None);
        self.view.take().is_some()
    }

    pub(super) fn view(&self) -> Option<SumView> {
        self.view.as_ref().map(|(_, view)| view.clone())
    }
}

impl Adding {
    fn into_mean(self) -> Mean {
        let Self { about, model: GlobalModel { architecture, state }, clients, values, .. } = self;
        let ModelState { weights, statistics } = state;
        let pictures = clients.len();
        let gradient = values.iter().map(|sum| (sum / pictures as f64) as f32).collect();
        Mean {
            about,
            architecture,
            weights,
            statistics,
            gradient,
            pictures,
            then: Some(Further::TakeApart),
            masked: None,
        }
    }
}

impl Mean {
    /// Extracts what the attack needs.
    pub(super) fn into_job(self) -> SumJob {
        let Self { about, architecture, weights, statistics, gradient, pictures, then, masked } = self;
        let state = ModelState { weights, statistics };
        let observed = |values: &[f32], pictures: usize| {
            let received = Received::<std::iter::Empty<(u64, usize)>> {
                model: architecture.into(),
                weights: &state.weights,
                values,
                words: None,
                scale: UpdateScale::Gradient,
            };
            let mut observation = Observation::new(reading::evidence(architecture, pictures, &received));
            observation.batch = pictures;
            observation
        };
        let observation = observed(&gradient, pictures);
        let masked = masked.map(|(client, values)| (client, observed(&values, 1)));
        let whole = WholeUpdate { architecture, state, gradient, kept: None, is_training: true };
        let side = architecture.side();
        SumJob { about, side, observation, whole: Arc::new(whole), masked, is_mixed: false, then }
    }
}

impl SumJob {
    pub(super) fn about(&self) -> About {
        self.about
    }
}

/// The most clients whose updates this attack separates, with the memory that a room gives it.
fn within_reach(architecture: Architecture) -> usize {
    let most = architecture.vit().map_or(0, |config| most_pictures(&config)).min(MAX_SUSPECTS);
    let fits = |pictures: &usize| Concealment::Nothing.methods(architecture, *pictures).contains(&AttackMethod::Batch);
    (2..=most).rev().find(fits).unwrap_or_default()
}

/// Takes the next step of the attack on the sum; `None` if there is none. The mixture comes first, because the rest
/// takes seconds.
pub(super) fn step(
    shared: &Shared,
    searches: &dyn Searches,
    now: &dyn Fn() -> Moment,
    tell: &dyn Fn(Report),
) -> Option<Vec<Report>> {
    let mut job = shared.lock().sum.take()?;
    let about = Box::new(job.about);
    let outcomes = if job.is_mixed {
        match job.then {
            Some(Further::TakeApart) => vec![OfSum::Apart(apart(&job, shared, searches, now, tell))],
            Some(Further::Try(defence)) => vec![OfSum::Tried(tried(&job, defence, shared, searches, now))],
            Some(Further::Divide(_)) | None => Vec::new(),
        }
    } else {
        let masked = job.masked.take();
        let masked = masked.map(|(client, observation)| OfSum::Masked(client, inverted(job.side, &observation)));
        let mixture = inverted(job.side, &job.observation);
        let fished = match job.then {
            Some(Further::Divide(fishing)) => {
                let next = guarded(|| Ok(fishing.cut_after(job.whole.architecture, &job.whole.gradient)));
                next.ok().flatten().map(|next| OfSum::NotOne(fishing, next))
            }
            _ => None,
        };
        job.is_mixed = true;
        let mut schedule = shared.lock();
        // Another sum may have come, or this one may have been forgotten, in the meantime.
        if matches!(job.then, Some(Further::TakeApart | Further::Try(_)))
            && schedule.sum.is_none()
            && schedule.summed == Some(about.serial)
        {
            schedule.sum = Some(job);
        }
        masked.into_iter().chain(fished).chain([OfSum::Mixture(mixture)]).collect()
    };
    Some(outcomes.into_iter().map(|outcome| Report::Sum(about.clone(), outcome)).collect())
}

/// What an attack for one picture shows.
fn inverted(side: usize, observation: &Observation) -> Result<Seen, Failure> {
    guarded(|| {
        let go_on = &mut |_: AttackProgress<'_>| ControlFlow::Continue(());
        let options = SearchOptions::default();
        let found = unmask_attack::run(METHOD, observation, &NoSearches, options, go_on)?;
        Ok(Seen::new(side, found.pictures.concat(), &[])?)
    })
}

fn apart(
    job: &SumJob,
    shared: &Shared,
    searches: &dyn Searches,
    now: &dyn Fn() -> Moment,
    tell: &dyn Fn(Report),
) -> Result<Apart, Failure> {
    let started = now();
    let mut told = (started, 0);
    guarded(|| {
        let go_on = &mut |AttackProgress { iteration: found, iterations: all, .. }: AttackProgress<'_>| {
            let (last, before) = told;
            if found != before && now() - last >= BETWEEN_REPORTS {
                told = (now(), found);
                tell(Report::Sum(Box::new(job.about), OfSum::Tokens(found, all)));
            }
            if is_over(job, shared) || now() - started > PATIENCE {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let mut observation = job.observation.clone();
        observation.whole = Some(Arc::clone(&job.whole));
        let options = SearchOptions::default();
        let found = unmask_attack::run(AttackMethod::Batch, &observation, searches, options, go_on)?;
        let Recovered { pictures, certain, labels, notes, .. } = found;
        let whole = &job.whole;
        let certain = match labels {
            // Pictures that were resized have no whole grey levels, but may explain the whole sum.
            Some(labels) if pictures.len() == job.observation.batch => {
                let own = searches.gradient(whole, &labels, &pictures.concat());
                let misfit = own.and_then(|own| Misfit::of(&own, whole, Knowledge::Aware));
                let is_proved = misfit.is_ok_and(|misfit| misfit.relative <= Misfit::ROUNDING);
                Some(pictures.len()).filter(|_| is_proved).or(certain)
            }
            _ => certain,
        };
        let seen = pictures.into_iter().map(|picture| Seen::new(job.side, picture, &[]));
        let pictures = seen.collect::<Result<_, _>>()?;
        let seconds = (now() - started).as_secs_f64();
        Ok(Apart { pictures, certain: certain.unwrap_or_default(), seconds, notes })
    })
}

fn cannot(act: &str, reason: &Failure) -> String {
    format!("Cannot {act}, because {}.", reason.to_string().trim_end_matches('.'))
}

/// Whether the room no longer wants this sum.
fn is_over(job: &SumJob, shared: &Shared) -> bool {
    let schedule = shared.lock();
    schedule.is_closed || schedule.summed != Some(job.about.serial)
}

/// Tries the noise on a sum with pictures of nobody. In each trial one of two is in the sum, and a guesser knows both, all
/// others and the weights. The two are those that noise hides worst.
fn tried(
    job: &SumJob,
    defence: Defence,
    shared: &Shared,
    searches: &dyn Searches,
    now: &dyn Fn() -> Moment,
) -> Result<(CanaryScore, f64), Failure> {
    guarded(|| {
        let (whole, architecture) = (&job.whole, job.whole.architecture);
        let layout = architecture.layout();
        let noise = defence.noise().copied().unwrap_or_default();
        // Doctored weights leave no trace of other classes.
        let class = fished_class_of(architecture, &whole.state.weights);
        let class = class.ok_or_else(|| Failure::Told("the weights fish for no class".to_owned()))?;
        let clipped = |number: u64| -> Result<Vec<f64>, AttackError> {
            let gradient = searches.gradient(whole, &[class], &synthetic_picture(job.side, number))?;
            let gradient: Vec<f32> = gradient.into_iter().map(|value| value as f32).collect();
            let factor = noise.clip().map_or(1.0, |clip| clip_factor(&gradient, clip));
            Ok(gradient.into_iter().map(|value| f64::from(value) * factor).collect())
        };
        let canaries = (0..CANARIES).map(clipped).collect::<Result<Vec<_>, _>>()?;
        let Some([first, second]) = farthest(&canaries) else { return Ok((CanaryScore::default(), 0.0)) };
        let mut random = ChaCha20Rng::seed_from_u64(job.about.serial);
        let mut score = CanaryScore::default();
        let started = now();
        for trial in 0..TRIALS {
            if is_over(job, shared) || (trial >= LEAST_TRIALS && now() - started > TRYING) {
                break;
            }
            let is_first: bool = random.random();
            let values = if is_first { first } else { second }.iter().map(|value| *value as f32).collect();
            let keys = KeyMaterial { seed: MaskSeed(random.random()), cipher: None };
            let sent = defence.protect(&layout, PlainUpdate { values, reference: None }, keys);
            let sent = sent.map_err(|error| Failure::Told(error.to_string()))?;
            score.count(is_first_likelier(&sent.values, [first, second]) == is_first);
        }
        Ok((score, score.epsilon(noise.delta())))
    })
}

/// The two of `updates`, `[P]` each, with the largest distance.
fn farthest(updates: &[Vec<f64>]) -> Option<[&[f64]; 2]> {
    let apart =
        |[one, other]: [&[f64]; 2]| one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f64>();
    let pairs = updates
        .iter()
        .enumerate()
        .flat_map(|(place, one)| updates[..place].iter().map(move |other| [other.as_slice(), one.as_slice()]));
    pairs.max_by(|one, other| apart(*one).total_cmp(&apart(*other)))
}

/// Updates come from outside: one that makes the linear algebra panic must not end the worker.
fn guarded<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(Failure::BrokeDown { what: "the attack" }))
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;

    #[test]
    fn canaries_are_those_that_noise_hides_worst() {
        let updates = [vec![0.0, 1.0], vec![0.5, 0.0], vec![0.0, -1.0]];
        assert_eq!(farthest(&updates), Some([&updates[0][..], &updates[2]]));
        assert_eq!(farthest(&updates[..1]), None);
    }

    #[test]
    fn no_more_are_added_than_come_apart() {
        let most = |preset: VitPreset| within_reach(preset.into());
        assert_eq!((most(VitPreset::LabPatch8), most(VitPreset::NanoPatch8), most(VitPreset::Nano)), (4, 4, 0));
        assert_eq!(within_reach(unmask_core::ResnetPreset::Nano.into()), 0);
    }
}
