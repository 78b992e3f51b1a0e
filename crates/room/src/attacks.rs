//! The attacks. Workers beside the room run them, so rounds never wait for them.
//!
//! The room extracts what they need from each update of the client under attack ([`Attacks::read`]) and goes on. Some
//! [`Worker`]s run closed forms, labels and membership on the newest update; another gathers rounds, another reads one
//! update of each client, and another searches through the model, if this room can. They return [`Report`]s, which the room passes to [`Attacks::take_report`].

mod about;
mod attackers;
mod budget;
mod candidate;
mod cards;
mod elsewhere;
mod everybody;
mod gathered;
mod gathering;
mod job;
mod keys;
mod labels;
mod pictures;
mod pool;
mod queue;
mod reading;
mod remarks;
mod report;
mod schedule;
mod search;
mod search_queue;
mod sum;
mod tables;
mod worker;

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tracing::warn;
use unmask_attack::{CutSearch, KnownStart, Tensors, WholeUpdate};
use unmask_core::{AttackMethod, ClientId, Defence, KeyCheck, RoundSettings, TrainingPictures, VitConfig};
use unmask_federation::{Accepted, GlobalModel, Seal};
use unmask_lesson::Beat;
use unmask_wire::{
    RelayMessage,
    view::{AttackView, BudgetView, LabelView, LeakView, MembershipView, SumView},
};

pub(crate) use self::pictures::MOST_PICTURES;
use self::{
    about::About,
    candidate::{Candidate, MembershipCard},
    cards::{Attacked, ScoreError},
    everybody::Everybody,
    job::{Job, Sent},
    keys::embeddings,
    labels::LabelCard,
    sum::Sums,
};
pub use self::{
    attackers::Attackers,
    candidate::{CandidatePicture, NoCandidate},
    elsewhere::{AttackDesk, DeskNews, ForeignMessage},
    keys::{GivenKey, GivenKeyError},
    pictures::Pictures,
    report::Report,
    worker::{Step, Worker},
};
use crate::fishing::Fishing;

/// Upper limit of the time for the attacks on one round, in seconds.
const MAX_BUDGET: f64 = 600.0;

/// Most times in a row that the first round is run again because clients that the lesson needs took no part.
const TRIES: u8 = 3;

/// Why the attacks do not do what the teacher asks, in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum AttacksError {
    #[error("{seconds} is not a valid time for attacks; give 0 to {MAX_BUDGET} seconds a round.")]
    Budget { seconds: f64 },
    #[error("This relay cannot search through the model: it was started without token matching.")]
    NoSearches,
    #[error("The picture does not have the {side} x {side} pixels of the room's model; drop it again.")]
    CandidateSize { side: usize },
    #[error(transparent)]
    Key(#[from] GivenKeyError),
}

/// A reconstruction for the attacked client to score.
#[derive(Debug)]
pub(crate) struct Reconstruction {
    pub(crate) client: ClientId,
    pub(crate) method: AttackMethod,
    pub(crate) message: RelayMessage,
    pub(crate) values: Vec<f32>,
}

/// The teacher's choices about the attacks, as the journal stores them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttacksRecord {
    target: Option<ClientId>,
    is_searching: bool,
    /// The budget for one round.
    seconds: f64,
}

/// The room's side of the attacks: the target, the work to be done, and the results on show. Methods return the
/// line to log, if any.
pub(crate) struct Attacks {
    attackers: Attackers,
    target: Option<ClientId>,
    /// The target before the relay restarted, until that client is back or another one is chosen.
    awaited: Option<ClientId>,
    cards: Attacked,
    label: LabelCard,
    membership: MembershipCard,
    everybody: Everybody,
    sums: Sums,
    /// Whose update of this model was read last.
    read_of: Option<ClientId>,
    /// How many more times the first round is run again for the search.
    tries: u8,
    /// Data read for the wall that shows everybody from the update that the room is about to take.
    leak: Option<Job>,
    /// Data read from the update that the room is about to take.
    job: Option<(Job, Option<Arc<WholeUpdate>>)>,
    pictures: Arc<Pictures>,
    /// Counts the models, so that results for an earlier one are discarded.
    epoch: u64,
    /// Counts the updates attacked.
    serial: u64,
    /// Counts restarts of the gathering, so that results of earlier rounds are discarded.
    gathering: u64,
    /// The plaintext embeddings sent to the client that is encrypting them.
    plain: Option<Tensors>,
}

impl Attacks {
    pub(crate) fn new(attackers: Attackers, pictures: Arc<Pictures>) -> Self {
        Self {
            attackers,
            everybody: Everybody::default(),
            sums: Sums::default(),
            read_of: None,
            tries: 0,
            leak: None,
            target: None,
            awaited: None,
            cards: Attacked::default(),
            label: LabelCard::default(),
            membership: MembershipCard::default(),
            job: None,
            pictures,
            epoch: 0,
            serial: 0,
            gathering: 0,
            plain: None,
        }
    }

    pub(crate) fn target(&self) -> Option<ClientId> {
        self.target
    }

    /// Attacks this client from its next update on. Stops a search on another client's update.
    pub(crate) fn set_target(&mut self, client: ClientId) {
        self.awaited = None;
        self.turn_to(client);
    }

    fn turn_to(&mut self, client: ClientId) {
        if self.target.replace(client) != Some(client) {
            self.tries = TRIES;
            self.attackers.forget_search();
        }
    }

    /// Notes that a client with consent is in the room. It becomes the target if there is none, or if it was the target
    /// before the relay restarted.
    pub(crate) fn joined(&mut self, client: ClientId) {
        let is_awaited = self.awaited.take_if(|awaited| *awaited == client).is_some();
        if is_awaited || self.target.is_none() {
            self.turn_to(client);
        }
    }

    /// Forgets everything made from a client's updates after it left or withdrew consent. If it was the target, `next`
    /// becomes the target.
    pub(crate) fn left(&mut self, client: ClientId, next: Option<ClientId>) {
        if self.target == Some(client) {
            self.target = next;
            // If the client returns, its new rounds must not be combined with the old ones.
            self.gathering += 1;
        }
        self.awaited.take_if(|awaited| *awaited == client);
        self.read_of.take_if(|read| *read == client);
        self.job.take_if(|(job, _)| job.about.client == client);
        self.attackers.forget_client(client);
        self.leak.take_if(|job| job.about.client == client);
        self.everybody.forget_client(client);
        if self.sums.forget_client(client) {
            self.drop_sum();
        }
        self.cards.forget(client);
        self.label.forget_client(client);
        self.membership.forget_client(client);
        self.pictures.forget(|other| other == client);
    }

    /// Attacks from now on what this beat shows besides the target: one undefended update of each client that may be
    /// shown, or the sum of a few.
    pub(crate) fn look_at(&mut self, beat: Beat) {
        self.tries = TRIES;
        if self.everybody.turn(beat == Beat::ShowEverybody) {
            self.pictures.forget_everybody();
        }
        if self.sums.turn(beat.sum()) {
            self.drop_sum();
        }
    }

    /// A client came on a new socket, maybe with another picture.
    pub(crate) fn came(&mut self, client: ClientId) {
        self.label.came(client, self.serial);
    }

    /// Forgets what is shown beside this client's picture, which its owner hides.
    pub(crate) fn original_hidden(&mut self, client: ClientId) {
        if self.membership.is_of(client) {
            self.forget_candidate();
        }
        if self.sums.forget_client(client) {
            self.drop_sum();
        }
    }

    fn drop_sum(&self) {
        self.pictures.forget_sum();
        self.attackers.attack_sum(None);
    }

    /// Extracts what the attacks need from an update that the room accepts, if the client is the target or everybody is
    /// attacked. The lesson's beat decides whether the wall shows the numbers themselves. `members` are the clients whose
    /// updates may be attacked as a sum.
    ///
    /// Call this before the update completes its round, which changes the weights. If the attacks held the model
    /// instead, the optimiser's step would have to copy it.
    pub(crate) fn read(
        &mut self,
        accepted: &Accepted,
        settings: &RoundSettings,
        model: &GlobalModel,
        may_show: bool,
        beat: Beat,
        members: impl FnOnce() -> Vec<ClientId>,
    ) {
        let client = accepted.client();
        let (is_target, is_wanted) =
            (self.target == Some(client), may_show && self.everybody.wants(client, settings.defence()));
        self.serial += 1;
        if settings.pictures() != TrainingPictures::Private {
            self.label.is_of_shared_pictures(self.serial);
        }
        let about = About {
            epoch: self.epoch,
            serial: self.serial,
            gathering: self.gathering,
            client,
            round: accepted.round(),
            defence: settings.defence(),
            rule: settings.rule(),
            samples: accepted.samples(),
        };
        if may_show {
            let shows = |client: &ClientId| self.pictures.original(*client).is_some();
            self.sums.read(accepted, settings, model, about, || members().into_iter().filter(shows).collect());
        }
        if !is_target && !is_wanted {
            return;
        }
        let (batch, encryption) = (settings.batch(), settings.encryption());
        let draws_tables = beat.draws_tables();
        let sent = Sent { about, batch, encryption, model, update: accepted.update(), draws_tables, is_target };
        self.leak = is_wanted.then(|| self.attackers.read_for_everybody(&Sent { is_target: false, ..sent }));
        if is_target {
            self.job = Some(self.attackers.read(&sent));
        }
    }

    /// Reads what a client that agreed sends for a secure sum, if it is the client under attack.
    pub(crate) fn read_masked(&mut self, client: ClientId, round: u32, values: &[u32]) {
        if self.target == Some(client) {
            self.sums.hear(client, round, values);
        }
    }

    /// Attacks the mean `[P]` of these clients' updates, one picture each, which came only as a secure sum. All of them
    /// agreed to that.
    pub(crate) fn read_sum(
        &mut self,
        (round, settings, fishing): (u32, RoundSettings, Option<Fishing>),
        clients: Vec<ClientId>,
        mean: Vec<f32>,
        model: &GlobalModel,
    ) {
        let Some(client) = clients.first().copied() else { return };
        self.serial += 1;
        let about = About {
            epoch: self.epoch,
            serial: self.serial,
            gathering: self.gathering,
            client,
            round,
            defence: settings.defence(),
            rule: settings.rule(),
            samples: 1,
        };
        let are_private = settings.pictures() == TrainingPictures::Private;
        // The picture in a fished sum is this client's if an earlier update showed that it has this class.
        let target = self.target.map(|target| (target, self.label.class_of(target).filter(|_| are_private)));
        self.sums.take((about, fishing, are_private), target, clients, mean, model, &self.attackers);
    }

    /// Attacks the update that was read; the room has taken it.
    pub(crate) fn begin(&mut self) {
        if let Some(job) = self.leak.take() {
            self.everybody.take(job, &self.attackers);
        }
        self.sums.begin(&self.attackers);
        if let Some((job, whole)) = self.job.take() {
            (self.read_of, self.tries) = (Some(job.about.client), TRIES);
            self.cards.begin(job.methods());
            self.attackers.attack(job, whole);
        }
    }

    /// Attacks the sum of the updates that came in the round that has closed.
    pub(crate) fn round_closed(&mut self) {
        self.sums.round_closed(&self.attackers);
    }

    /// Whether the class waits for a sum that the last round had too few clients for.
    pub(crate) fn wants_round(&mut self) -> bool {
        self.sums.wants_round()
    }

    /// Whether the search has no update of the client under attack, although the model's first round has closed. A round
    /// does not wait for clients that still compute for the model before. Says so a few times in a row only.
    pub(crate) fn search_wants_round(&mut self) -> bool {
        let is_lacking = self.awaited.is_none() && self.read_of != self.target;
        let is_wanted = self.is_searching() == Some(true) && is_lacking && self.tries > 0;
        self.tries -= u8::from(is_wanted);
        is_wanted
    }

    /// The next cut, if the last sum was fished this way and is not of one picture; and whether it is of the same clients
    /// as the sums of the search before.
    pub(crate) fn fished(&mut self, fishing: Fishing) -> Option<(CutSearch, bool)> {
        self.sums.fished(fishing)
    }

    /// A search for a cut begins, or there is none any more.
    pub(crate) fn begin_search_for_cut(&mut self) {
        self.sums.begin_search_for_cut();
    }

    /// Says on the card of the sum why there is no better one.
    pub(crate) fn remark_sum(&mut self, remark: String) {
        self.sums.remark(remark);
    }

    /// Whether somebody has left or withdrawn whose picture the present cut was made from.
    pub(crate) fn forgets_cut(&mut self) -> bool {
        self.sums.forgets_cut()
    }

    /// Forgets the last sum for other doctored weights, so that the next one is attacked.
    pub(crate) fn forget_fished(&mut self) {
        if self.sums.forget() {
            self.drop_sum();
        }
    }

    pub(crate) fn forget_read(&mut self) {
        (self.job, self.leak) = (None, None);
        self.sums.forget_read();
    }

    /// Forgets the results for the old model. The teacher's picture stays.
    pub(crate) fn forget_model(&mut self) {
        self.epoch += 1;
        self.cards = Attacked::default();
        self.label.forget();
        self.membership.forget_answer();
        self.everybody.forget();
        self.sums.forget();
        self.read_of = None;
        self.pictures.forget(|_| true);
        self.attackers.forget_model();
    }

    /// Takes a worker's report and returns the message for the attacked client. `nickname` returns `None` for a client
    /// that has left or withdrawn consent since the attack began.
    pub(crate) fn take_report(
        &mut self,
        report: Report,
        config: Option<&VitConfig>,
        nickname: impl Fn(ClientId) -> Option<String>,
    ) -> Option<Reconstruction> {
        let nickname = nickname(report.about()?.client)?;
        match report {
            Report::Found(finding) if self.is_current(&finding.about) => {
                let (client, method) = (finding.about.client, finding.method);
                // The teacher has restarted the gathering since.
                if method == AttackMethod::Rounds && finding.about.gathering != self.gathering {
                    return None;
                }
                let found = self.cards.found(*finding, &nickname, config, &self.pictures);
                return found.map(|(message, values)| Reconstruction { client, method, message, values });
            }
            Report::Gathered(about, outcome) if self.is_current(&about) && about.gathering == self.gathering => {
                self.cards.gathered(&about, outcome, &nickname, config);
            }
            Report::Leak(about, outcome) if self.is_current(&about) => {
                self.everybody.found(about.client, outcome, about.round, &self.pictures);
            }
            Report::Sum(about, outcome) if self.is_current(&about) => {
                let found = self.sums.found(&about, outcome, &self.pictures);
                return found.map(|(client, message, values)| Reconstruction {
                    client,
                    method: sum::METHOD,
                    message,
                    values,
                });
            }
            Report::Labels(about, outcome) if self.is_current(&about) => {
                self.label.show(&about, outcome, nickname);
            }
            Report::Membership(about, number, outcome) if self.is_current(&about) => {
                self.membership.show(&about, number, outcome, nickname);
            }
            // Results for an earlier model, or only time spent, which the view shows.
            _ => {}
        }
        None
    }

    fn is_current(&self, about: &About) -> bool {
        about.epoch == self.epoch
    }

    /// Takes a client's score of its reconstruction. Returns the defence it applies to, or `None` if a newer result has
    /// replaced the one scored.
    pub(crate) fn score(
        &mut self,
        client: ClientId,
        round: u32,
        attack: AttackMethod,
        psnr: f32,
        ssim: f32,
    ) -> Result<Option<Defence>, ScoreError> {
        if attack == sum::METHOD && self.sums.awaits_score(client, round) {
            // It tells nothing of the defence of single updates.
            return self.sums.score(psnr, ssim).map(|()| None);
        }
        self.cards.score(client, round, attack, psnr, ssim)
    }

    pub(crate) fn room_is_paused(&self, is_paused: bool) {
        self.attackers.room_is_paused(is_paused);
    }

    /// Checks updates for this picture from now on, instead of the previous one. `side` is the picture side of the
    /// room's model.
    pub(crate) fn take_candidate(
        &mut self,
        CandidatePicture { values, png, owner, is_exact }: CandidatePicture,
        side: usize,
    ) -> Result<&'static str, AttacksError> {
        if values.len() != 3 * side * side {
            return Err(AttacksError::CandidateSize { side });
        }
        let number = self.membership.next_number();
        self.membership.ask(self.pictures.keep_candidate(number, png), owner, is_exact);
        self.attackers.ask(Some(Candidate { number, values }));
        Ok("The teacher asks about a picture: was it among those of the client under attack?")
    }

    pub(crate) fn forget_candidate(&mut self) {
        self.attackers.ask(None);
        self.pictures.forget_candidate();
        self.membership.forget_picture();
    }

    pub(crate) fn set_budget(&self, seconds: f64) -> Result<String, AttacksError> {
        if !(0.0..=MAX_BUDGET).contains(&seconds) {
            return Err(AttacksError::Budget { seconds });
        }
        self.attackers.set_budget(Duration::from_secs_f64(seconds));
        Ok(match seconds {
            0.0 => "The teacher stopped the attacks.".to_owned(),
            _ => format!("The teacher gives the attacks {seconds} s a round."),
        })
    }

    pub(crate) fn record(&self) -> AttacksRecord {
        AttacksRecord {
            target: self.awaited.or(self.target),
            is_searching: self.is_searching() == Some(true),
            seconds: self.budget().seconds,
        }
    }

    /// Restores the teacher's choices. A budget given when the relay was started takes precedence over the stored one.
    pub(crate) fn restore(&mut self, record: AttacksRecord, is_budget_given: bool) {
        self.awaited = record.target;
        self.attackers.search(record.is_searching);
        if let Ok(budget) = Duration::try_from_secs_f64(record.seconds)
            && !is_budget_given
        {
            self.attackers.set_budget(budget);
        }
    }

    pub(crate) fn search(&self, on: bool) -> Result<&'static str, AttacksError> {
        if self.attackers.is_searching().is_none() {
            return Err(AttacksError::NoSearches);
        }
        self.attackers.search(on);
        Ok(match on {
            true => "The teacher started a search through the model for the picture behind an update.",
            false => "The teacher stopped the search.",
        })
    }

    /// Starts the gathering of rounds again.
    pub(crate) fn gather_anew(&mut self) -> &'static str {
        self.gathering += 1;
        self.cards.remove(AttackMethod::Rounds);
        "The teacher made the relay start gathering rounds again."
    }

    /// Remembers the embeddings of the model that a client is asked to encrypt. `model` is `None` if the client makes
    /// its own.
    pub(crate) fn sent_plain(&mut self, model: Option<&GlobalModel>) {
        self.plain = model.and_then(readable);
    }

    /// Keeps the embeddings of the newly encrypted model in both forms, if the relay had the plaintext.
    pub(crate) fn compare_forms(&mut self, model: &GlobalModel, seal: Option<&Seal>) {
        let (plain, encrypted) = (self.plain.take(), readable(model));
        if let (Some(plain), Some(encrypted), Some(seal)) = (plain, encrypted, seal) {
            self.attackers.set_known_start(seal.check, KnownStart::new(plain, encrypted));
        }
    }

    /// Takes the key that a client gave away, if it belongs to the current encryption.
    pub(crate) fn take_key(
        &self,
        key: Result<GivenKey, GivenKeyError>,
        seal: Option<&Seal>,
    ) -> Result<&'static str, AttacksError> {
        let key = key?;
        if seal.is_none_or(|seal| seal.check != key.check()) {
            return Err(GivenKeyError::Outdated.into());
        }
        self.attackers.set_key(Some(key));
        Ok("A client, played by the teacher, gave the relay the key of the room.")
    }

    pub(crate) fn forget_key(&self) -> Option<&'static str> {
        self.attackers.has_key().then(|| {
            self.attackers.set_key(None);
            "The relay has forgotten the key of the room."
        })
    }

    pub(crate) fn keep_keys(&self, check: Option<KeyCheck>) {
        self.attackers.keep_keys(check);
    }

    /// Returns the current results, in the order of [`AttackMethod::ALL`].
    pub(crate) fn cards(&self) -> impl Iterator<Item = &AttackView> {
        self.cards.views()
    }

    /// What leaks of everybody.
    pub(crate) fn leaks(&self) -> Vec<LeakView> {
        self.everybody.views()
    }

    /// What leaks of a sum of updates.
    pub(crate) fn sum(&self) -> Option<SumView> {
        self.sums.view()
    }

    pub(crate) fn label(&self) -> Option<&LabelView> {
        self.label.view()
    }

    pub(crate) fn membership(&self) -> Option<&MembershipView> {
        self.membership.view()
    }

    pub(crate) fn budget(&self) -> BudgetView {
        self.attackers.budget()
    }

    /// Whether the search is on; `None` if this relay cannot search.
    pub(crate) fn is_searching(&self) -> Option<bool> {
        self.attackers.is_searching()
    }

    pub(crate) fn has_key(&self) -> bool {
        self.attackers.has_key()
    }
}

fn readable(model: &GlobalModel) -> Option<Tensors> {
    embeddings(model).inspect_err(|error| warn!("the embeddings of the room's model cannot be read: {error}")).ok()
}

#[cfg(test)]
mod tests {
    use unmask_core::{Rule, VitPreset};
    use unmask_wire::view::GatheredView;

    use super::{
        report::{Finding, Seen},
        *,
    };

    const ADA: ClientId = ClientId(1);
    const ABOUT: About = About {
        epoch: 0,
        serial: 1,
        gathering: 0,
        client: ADA,
        round: 1,
        defence: Defence::None,
        rule: Rule::FedSgd,
        samples: 1,
    };

    /// The attacks on Ada, without the workers.
    fn attacks() -> Attacks {
        let (attackers, _) = Attackers::new(Duration::from_secs(5), None, 1, || {});
        let mut attacks = Attacks::new(attackers, Arc::default());
        attacks.set_target(ADA);
        begin(&mut attacks);
        attacks
    }

    fn begin(attacks: &mut Attacks) {
        attacks.cards.begin(vec![AttackMethod::Embedding, AttackMethod::Rounds]);
    }

    /// Takes a report, and returns whether it sends a picture, and the number of cards.
    fn take(attacks: &mut Attacks, report: Report) -> (bool, usize) {
        let config = VitConfig::from(VitPreset::Pico);
        let sent = attacks.take_report(report, Some(&config), |_| Some("Ada".to_owned()));
        (sent.is_some(), attacks.cards().count())
    }

    fn found() -> Report {
        let outcome = Ok(Seen { side: 1, pictures: 1, values: vec![0.5; 3], png: vec![1], remark: None, tables: None });
        Report::Found(Box::new(Finding {
            about: ABOUT,
            method: AttackMethod::Embedding,
            seconds: 0.1,
            outcome,
            search: None,
        }))
    }

    fn gathered() -> Report {
        Report::Gathered(Box::new(ABOUT), Ok(GatheredView::default()))
    }

    #[test]
    fn results_for_an_earlier_model_are_not_shown() {
        let mut attacks = attacks();
        assert_eq!(take(&mut attacks, found()), (true, 1));
        attacks.forget_model();
        begin(&mut attacks);
        assert_eq!(take(&mut attacks, found()), (false, 0));
        assert_eq!(take(&mut attacks, gathered()), (false, 0));
    }

    #[test]
    fn rounds_gathered_before_a_new_start_are_not_shown() {
        assert_eq!(take(&mut attacks(), gathered()), (false, 1));
        let mut restarted = attacks();
        restarted.gather_anew();
        assert_eq!(take(&mut restarted, gathered()), (false, 0));
        let mut left = attacks();
        left.left(ADA, None);
        left.set_target(ADA);
        assert_eq!(take(&mut left, gathered()), (false, 0));
    }
}
