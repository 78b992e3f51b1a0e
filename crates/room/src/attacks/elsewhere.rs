//! Attacks whose workers share no memory with the room, such as in another worker of a browser. Both sides keep a
//! schedule: the room's has the settings, the other one also the work.
//!
//! Keys do not travel: an encrypted room is attacked only beside the room.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use unmask_attack::Searches;
use unmask_core::{Architecture, ClientId, EncryptionStart, ModelState, UpdateForm};
use unmask_defence::{CheckedUpdate, ProtectedUpdate};
use unmask_federation::GlobalModel;
use unmask_wire::view::BudgetView;

use super::{
    about::About,
    attackers::Attackers,
    candidate::Candidate,
    job::{Job, Sent},
    report::Report,
    sum::Mean,
    worker::{Step, Worker},
};
use crate::time::Moment;

/// What the room's side orders.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    Attack(Box<Copied>),
    Everybody(Box<Copied>),
    Sum(Option<Box<Mean>>),
    ForgetModel,
    ForgetClient(ClientId),
    /// In seconds.
    Budget(f64),
    Paused(bool),
    Search(bool),
    ForgetSearch,
    DropModel,
    Ask(Option<Candidate>),
}

/// An update with its model, as [`Sent`] has them, to be read on the other side.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Copied {
    about: About,
    batch: u16,
    encryption: Option<EncryptionStart>,
    architecture: Architecture,
    weights: Vec<f32>,
    statistics: Vec<f32>,
    form: UpdateForm,
    values: Vec<f32>,
    draws_tables: bool,
    is_target: bool,
}

impl Copied {
    pub(super) fn of(sent: &Sent<'_>) -> Self {
        let GlobalModel { architecture, state } = sent.model;
        Self {
            about: sent.about,
            batch: sent.batch,
            encryption: sent.encryption,
            architecture: *architecture,
            weights: state.weights.clone(),
            statistics: state.statistics.clone(),
            form: sent.update.form(),
            values: sent.update.values().to_vec(),
            draws_tables: sent.draws_tables,
            is_target: sent.is_target,
        }
    }

    /// Reads the update; `None` if it does not fit its model, which the room has ruled out.
    fn read<T>(self, read: impl FnOnce(&Sent<'_>) -> T) -> Option<T> {
        let Self { about, batch, encryption, architecture, weights, statistics, form, values, .. } = self;
        let update: CheckedUpdate<'static> =
            ProtectedUpdate { form, values }.into_checked(&architecture.layout()).ok()?;
        let model = GlobalModel { architecture, state: ModelState { weights, statistics } };
        let (draws_tables, is_target) = (self.draws_tables, self.is_target);
        Some(read(&Sent { about, batch, encryption, model: &model, update: &update, draws_tables, is_target }))
    }
}

/// What the workers' side tells the room's.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    reports: Vec<Report>,
    budget: BudgetView,
}

/// The room's way to the workers.
pub(super) struct Far {
    send: Box<dyn Fn(Vec<u8>) + Send + Sync>,
    /// Time spent there, and what was skipped.
    budget: Arc<Mutex<BudgetView>>,
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Far").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl Far {
    pub(super) fn tell(&self, order: &Order) {
        // Orders hold only numbers and texts of known lengths, so encoding does not fail.
        if let Ok(bytes) = postcard::to_stdvec(order) {
            (self.send)(bytes);
        }
    }

    /// The budget of this many seconds, as far as the workers have told.
    pub(super) fn budget(&self, seconds: f64) -> BudgetView {
        let told = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        BudgetView { seconds, ..told.clone() }
    }
}

/// Hears what the workers of an [`AttackDesk`] tell.
#[derive(Debug)]
pub struct DeskNews(Arc<Mutex<BudgetView>>);

/// A message between the two sides that comes from another build.
#[derive(Debug, thiserror::Error)]
#[error("the attacks and the room are not of one build: {0}")]
pub struct ForeignMessage(#[from] postcard::Error);

impl DeskNews {
    /// Takes a message of the desk; its reports go to the room as [`Input::Attacked`](crate::Input).
    ///
    /// # Errors
    /// If it comes from another build.
    pub fn hear(&self, message: &[u8]) -> Result<Vec<Report>, ForeignMessage> {
        let Told { reports, budget } = postcard::from_bytes(message)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = budget;
        Ok(reports)
    }
}

/// The room's side of attacks whose workers are at an [`AttackDesk`]. `send` gets the orders for it; the desk can search.
pub(super) fn far(send: impl Fn(Vec<u8>) + Send + Sync + 'static) -> (Far, DeskNews) {
    let budget = Arc::<Mutex<BudgetView>>::default();
    (Far { send: Box::new(send), budget: Arc::clone(&budget) }, DeskNews(budget))
}

/// The workers' side: it carries out orders, one step at a time.
#[derive(Debug)]
pub struct AttackDesk {
    attackers: Attackers,
    workers: Vec<Worker>,
}

impl AttackDesk {
    /// A desk without work. The room's side orders its budget first.
    pub fn new(searches: Arc<dyn Searches>) -> Self {
        // One thread steps through all of them.
        let (attackers, workers) = Attackers::new(Duration::ZERO, Some(searches), 1, || {});
        Self { attackers, workers }
    }

    /// Takes an order of the room's side.
    ///
    /// # Errors
    /// If it comes from another build.
    pub fn take(&self, order: &[u8]) -> Result<(), ForeignMessage> {
        let attackers = &self.attackers;
        match postcard::from_bytes(order)? {
            Order::Attack(copied) => {
                if let Some((job, whole)) = copied.read(|sent| attackers.read(sent)) {
                    attackers.attack(job, whole);
                }
            }
            Order::Everybody(copied) => {
                if let Some(job) = copied.read(Job::new) {
                    attackers.attack_for_everybody(job);
                }
            }
            Order::Sum(mean) => attackers.attack_sum(mean.map(|mean| *mean)),
            Order::ForgetModel => attackers.forget_model(),
            Order::ForgetClient(client) => attackers.forget_client(client),
            Order::Budget(seconds) => {
                if let Ok(time) = Duration::try_from_secs_f64(seconds) {
                    attackers.set_budget(time);
                }
            }
            Order::Paused(is_paused) => attackers.room_is_paused(is_paused),
            Order::Search(on) => attackers.search(on),
            Order::ForgetSearch => attackers.forget_search(),
            Order::DropModel => attackers.drop_model(),
            Order::Ask(candidate) => attackers.ask(candidate),
        }
        Ok(())
    }

    /// Does the next piece of work by the clock `now`; returns the message for the room's side, `None` if there was no
    /// work. `tell` gets messages for it before the end.
    pub fn step(&mut self, now: &dyn Fn() -> Moment, tell: &dyn Fn(Vec<u8>)) -> Option<Vec<u8>> {
        let attackers = &self.attackers;
        // Reports hold only numbers and texts of known lengths, so encoding does not fail.
        let message = |reports| postcard::to_stdvec(&Told { reports, budget: attackers.budget() }).ok();
        let early = |report| message(vec![report]).into_iter().for_each(tell);
        let reports = self.workers.iter_mut().find_map(|worker| match worker.step(now, &early) {
            Step::Worked(reports) => Some(reports),
            Step::Idle | Step::Over => None,
        })?;
        message(reports)
    }
}

#[cfg(test)]
mod tests {
    use unmask_attack::NoSearches;
    use unmask_core::{AttackMethod, Defence, MaskSeed, Rule, VitPreset};
    use unmask_defence::{KeyMaterial, PlainUpdate, Protect};

    use super::*;

    /// The room's side and the desk, with what lies between them.
    struct Both {
        room: Attackers,
        news: DeskNews,
        orders: Arc<Mutex<Vec<Vec<u8>>>>,
        desk: AttackDesk,
    }

    impl Both {
        fn with_budget(seconds: u64) -> Self {
            let orders = Arc::<Mutex<Vec<Vec<u8>>>>::default();
            let sent = Arc::clone(&orders);
            let send = move |order| sent.lock().unwrap().push(order);
            let (room, news) = Attackers::elsewhere(Duration::from_secs(seconds), send);
            Self { room, news, orders, desk: AttackDesk::new(Arc::new(NoSearches)) }
        }

        /// Attacks a client's masked update full of ones.
        fn attack(&self, client: u32) {
            let architecture = Architecture::from(VitPreset::Pico);
            let model = GlobalModel { architecture, state: architecture.initial(3) };
            let defence: Defence = "random-binary:0.5".parse().unwrap();
            let plain = PlainUpdate { values: vec![1.0; architecture.layout().len()], reference: None };
            let key = KeyMaterial { seed: MaskSeed([7; 32]), cipher: None };
            let update = defence.protect(&architecture.layout(), plain, key).unwrap();
            let update = update.into_checked(&architecture.layout()).unwrap();
            let (client, rule, serial) = (ClientId(client), Rule::FedSgd, client.into());
            let about = About { epoch: 0, serial, gathering: 0, client, round: 4, defence, rule, samples: 1 };
            let (encryption, draws_tables, is_target) = (None, false, true);
            let sent = Sent { about, batch: 1, encryption, model: &model, update: &update, draws_tables, is_target };
            let (job, whole) = self.room.read(&sent);
            self.room.attack(job, whole);
        }

        /// What the room hears once the desk has done all its work.
        fn reports(&mut self) -> Vec<Report> {
            for order in std::mem::take(&mut *self.orders.lock().unwrap()) {
                self.desk.take(&order).unwrap();
            }
            let mut reports = Vec::new();
            while let Some(told) = self.desk.step(&|| Moment::START, &|_| {}) {
                reports.extend(self.news.hear(&told).unwrap());
            }
            reports
        }
    }

    #[test]
    fn the_desk_reports_what_workers_beside_the_room_would() {
        let mut both = Both::with_budget(60);
        both.attack(3);
        let found: Vec<AttackMethod> = both
            .reports()
            .into_iter()
            .filter_map(|report| match report {
                Report::Found(finding) if finding.about.client == ClientId(3) => Some(finding.method),
                _ => None,
            })
            .collect();
        assert!(found.contains(&AttackMethod::Embedding) && found.contains(&AttackMethod::EmbeddingAware), "{found:?}");
        assert!(both.reports().is_empty());
    }

    #[test]
    fn what_the_room_forgets_or_does_not_pay_for_is_not_attacked() {
        let mut both = Both::with_budget(60);
        both.attack(1);
        both.room.forget_client(ClientId(1));
        assert!(both.reports().iter().all(|report| report.about().is_none_or(|about| about.client != ClientId(1))));
        both.room.set_budget(Duration::ZERO);
        both.attack(2);
        both.reports();
        let budget = both.room.budget();
        assert!(budget.seconds == 0.0 && !budget.skipped.is_empty(), "{budget:?}");
    }

    #[test]
    fn a_message_of_another_build_is_refused() {
        let both = Both::with_budget(1);
        for error in [both.desk.take(&[255]).err(), both.news.hear(&[255]).err()] {
            assert!(error.is_some_and(|error| error.to_string().contains("not of one build")));
        }
    }
}
