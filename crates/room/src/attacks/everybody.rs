//! What leaks of every volunteer: one update of each without a defence, for the wall that shows them all.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
};

use unmask_attack::{AttackProgress, NoSearches, SearchOptions};
use unmask_core::{Architecture, AttackMethod, ClientId, Defence};
use unmask_wire::view::LeakView;

use super::{
    attackers::Attackers,
    job::Job,
    pictures::{EVERYBODY, MOST_EVERYBODY, Pictures},
    report::{Failure, Report, Seen},
    schedule::Shared,
};

/// What leaks of each client.
#[derive(Debug, Default)]
pub(super) struct Everybody {
    /// Whether the class is looking.
    is_on: bool,
    /// Clients whose update was taken since then and is attacked or has shown its picture.
    taken: BTreeSet<ClientId>,
    leaks: BTreeMap<ClientId, LeakView>,
}

impl Everybody {
    /// Turns to everybody, or away from them. Returns whether that forgets what was found.
    pub(super) fn turn(&mut self, is_on: bool) -> bool {
        let is_news = self.is_on != is_on;
        self.is_on = is_on;
        is_news && self.forget()
    }

    /// Whether this client's next update is to be attacked, if it comes with this defence.
    pub(super) fn wants(&self, client: ClientId, defence: Defence) -> bool {
        self.is_on && defence == Defence::None && self.taken.len() < MOST_EVERYBODY && !self.taken.contains(&client)
    }

    /// Attacks an update that the room has taken.
    pub(super) fn take(&mut self, job: Job, attackers: &Attackers) {
        let client = job.about.client;
        // If the queue is full, the client's next update will do.
        if attackers.attack_for_everybody(job) {
            self.taken.insert(client);
        }
    }

    pub(super) fn found(&mut self, client: ClientId, outcome: Result<Seen, Failure>, round: u32, pictures: &Pictures) {
        if !self.taken.contains(&client) {
            return;
        }
        let (picture, remark) = match outcome {
            Ok(seen) => (Some(pictures.keep(client, EVERYBODY, &format!("{round}-"), seen.png)), None),
            Err(reason) => {
                // Its next update may show more.
                self.taken.remove(&client);
                (None, Some(reason.to_string()))
            }
        };
        self.leaks.insert(client, LeakView { client, picture, remark });
    }

    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.taken.remove(&client);
        self.leaks.remove(&client);
    }

    /// Forgets all results. Returns whether there were any.
    pub(super) fn forget(&mut self) -> bool {
        self.taken.clear();
        !std::mem::take(&mut self.leaks).is_empty()
    }

    pub(super) fn views(&self) -> Vec<LeakView> {
        self.leaks.values().cloned().collect()
    }
}

/// The closed form that reads one picture out of an update of this model.
fn method(architecture: Architecture) -> AttackMethod {
    if architecture.april_block() { AttackMethod::April } else { AttackMethod::Embedding }
}

/// Attacks the next update; `None` if there is none.
pub(super) fn step(shared: &Shared) -> Option<Vec<Report>> {
    let job = shared.lock().everybody.pop_front()?;
    Some(vec![Report::Leak(Box::new(job.about), attack(&job))])
}

fn attack(job: &Job) -> Result<Seen, Failure> {
    let run = || {
        let go_on = &mut |_: AttackProgress<'_>| ControlFlow::Continue(());
        let method = method(job.architecture);
        let found = unmask_attack::run(method, &job.observation, &NoSearches, SearchOptions::default(), go_on)?;
        Ok(Seen::new(job.architecture.side(), found.pictures.concat(), &[])?)
    };
    // Updates come from outside: one that makes the linear algebra panic must not end the worker.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(Failure::BrokeDown { what: "the attack" }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use unmask_core::{Rule, VitPreset};
    use unmask_defence::{CheckedUpdate, KeyMaterial, PlainUpdate, Protect};
    use unmask_federation::GlobalModel;

    use super::*;
    use crate::{
        attacks::{about::About, job::Sent, worker::Step},
        time::Moment,
    };

    /// A job on an update full of ones, which is no picture's.
    fn job(client: u32) -> Job {
        let architecture = Architecture::from(VitPreset::Pico);
        let (layout, model) = (architecture.layout(), GlobalModel { architecture, state: architecture.initial(3) });
        let plain = PlainUpdate { values: vec![1.0; layout.len()], reference: None };
        let key = KeyMaterial { seed: unmask_core::MaskSeed([7; 32]), cipher: None };
        let update = Defence::None.protect(&layout, plain, key).unwrap();
        let update: CheckedUpdate<'static> = update.into_checked(&layout).unwrap();
        let about = About {
            epoch: 0,
            serial: 1,
            gathering: 0,
            client: ClientId(client),
            round: 4,
            defence: Defence::None,
            rule: Rule::FedSgd,
            samples: 1,
        };
        Job::new(&Sent {
            about,
            batch: 1,
            encryption: None,
            model: &model,
            update: &update,
            draws_tables: false,
            is_target: false,
        })
    }

    #[test]
    fn each_client_is_attacked_once_while_the_class_looks() {
        let (attackers, mut workers) = Attackers::new(Duration::from_secs(5), None, 1, || {});
        let mut everybody = Everybody::default();
        let (pictures, ada) = (Pictures::default(), ClientId(1));
        assert!(!everybody.wants(ada, Defence::None), "nobody looks");
        everybody.turn(true);
        assert!(everybody.wants(ada, Defence::None));
        everybody.take(job(1), &attackers);
        assert!(!everybody.wants(ada, Defence::None) && everybody.wants(ClientId(2), Defence::None));
        let masked = Defence::RandomBinary { rates: "0.5".parse().unwrap() };
        assert!(!everybody.wants(ClientId(2), masked), "its masked update is no picture");
        let reports = workers.iter_mut().find_map(|worker| match worker.step(&|| Moment::START, &|_| {}) {
            Step::Worked(reports) => Some(reports),
            _ => None,
        });
        let Ok([Report::Leak(about, outcome)]) = <[Report; 1]>::try_from(reports.unwrap()) else { panic!("a leak") };
        everybody.found(about.client, outcome, about.round, &pictures);
        let leaks = everybody.views();
        assert_eq!(leaks.len(), 1);
        assert!(leaks[0].picture.is_some() != leaks[0].remark.is_some(), "{leaks:?}");
        assert!(everybody.turn(false) && everybody.views().is_empty());
    }

    #[test]
    fn an_update_that_shows_nothing_gives_way_to_the_next() {
        let (attackers, _workers) = Attackers::new(Duration::from_secs(5), None, 1, || {});
        let mut everybody = Everybody::default();
        let (pictures, ada) = (Pictures::default(), ClientId(1));
        everybody.turn(true);
        everybody.take(job(1), &attackers);
        everybody.found(ada, Err(Failure::BrokeDown { what: "the attack" }), 4, &pictures);
        assert!(everybody.views()[0].remark.is_some() && everybody.wants(ada, Defence::None));
    }

    #[test]
    fn who_withdraws_is_not_shown() {
        let (attackers, _workers) = Attackers::new(Duration::from_secs(5), None, 1, || {});
        let mut everybody = Everybody::default();
        let (pictures, ada) = (Pictures::default(), ClientId(1));
        everybody.turn(true);
        everybody.take(job(1), &attackers);
        everybody.forget_client(ada);
        let broken = || Err(Failure::BrokeDown { what: "the attack" });
        everybody.found(ada, broken(), 4, &pictures);
        assert!(everybody.views().is_empty());
    }

    #[test]
    fn the_wall_has_an_end() {
        let mut everybody = Everybody::default();
        everybody.turn(true);
        let most = u32::try_from(MOST_EVERYBODY).unwrap();
        everybody.taken.extend((0..most).map(ClientId));
        assert!(!everybody.wants(ClientId(most), Defence::None));
    }
}
