//! The searches on one update, which take turns to step.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tracing::error;
use unmask_attack::{AttackError, Misfit, Observation, Search, SearchOptions, SearchProgress, Searches, own_gradient};
use unmask_core::{AttackMethod, Knowledge};
use unmask_wire::view::{SearchState, SearchView};

use crate::{
    attacks::{
        about::About,
        job::Job,
        remarks,
        report::{Failure, Finding, NoResult, Seen},
        search_queue::Target,
    },
    time::Moment,
};

/// Tells the time.
type Clock<'a> = &'a dyn Fn() -> Moment;

/// Shortest time between two pictures of one search.
const BEAT: Duration = Duration::from_millis(250);

struct Member {
    method: AttackMethod,
    /// `None` once it has failed.
    search: Option<Box<dyn Search>>,
    last: Option<SearchProgress>,
    state: SearchState,
    /// Why it could not begin or continue.
    refusal: Option<NoResult>,
    /// How much its final picture leaves unexplained.
    checked: Option<String>,
    seconds: f64,
    /// When it began on this update.
    begun: Moment,
    shown: Option<Moment>,
}

/// The searches on one update.
pub(in crate::attacks) struct Current {
    job: Arc<Job>,
    /// Holds the model until all searches are done.
    observation: Observation,
    members: Vec<Member>,
    turn: usize,
}

impl Current {
    /// Begins the searches that apply to an update with this concealment.
    pub(super) fn begin(searches: &dyn Searches, target: Target, now: Clock<'_>) -> Self {
        let (job, observation) = observe(target);
        let begin = |method| Member::begin(method, searches, &observation, job.about.round, now);
        let members = job.concealment.searches(job.architecture).into_iter().map(begin).collect();
        Self { job, observation, members, turn: 0 }
    }

    /// Continues each search with a newer update like this one from the pictures found, or begins it again if there are
    /// none.
    pub(super) fn retarget(&mut self, searches: &dyn Searches, target: Target, now: Clock<'_>) {
        let (job, observation) = observe(target);
        (self.job, self.observation) = (job, observation);
        let observation = &self.observation;
        for member in &mut self.members {
            if !member.retarget(observation, now) {
                *member = Member::begin(member.method, searches, observation, self.job.about.round, now);
            }
        }
    }

    /// Whether the pictures found may be carried over to an update. Pictures found under another defence would reveal
    /// more than that update does.
    pub(super) fn is_like(&self, job: &Job) -> bool {
        let key = |job: &Job| {
            let About { epoch, client, rule, defence, .. } = job.about;
            (epoch, client, rule, defence, job.concealment, job.encryption)
        };
        key(&self.job) == key(job)
    }

    /// The state of the first search that is not done; done if all are.
    pub(super) fn state(&self) -> SearchState {
        self.members
            .iter()
            .map(|member| member.state)
            .find(|&state| state != SearchState::Done)
            .unwrap_or(SearchState::Done)
    }

    /// Returns the refusals of searches that could not begin.
    pub(super) fn news(&mut self, now: Clock<'_>) -> Vec<Finding> {
        let job = &self.job;
        self.members.iter_mut().filter(|member| member.refusal.is_some()).map(|member| member.show(job, now)).collect()
    }

    /// Takes one step of the next unfinished search and returns any picture to show. Checks the final picture by its
    /// own gradient.
    pub(super) fn step(&mut self, searches: &dyn Searches, now: Clock<'_>) -> Vec<Finding> {
        // Resume paused searches.
        let is_resting = |member: &&mut Member| matches!(member.state, SearchState::Waiting | SearchState::Stopped);
        for member in self.members.iter_mut().filter(is_resting) {
            (member.state, member.shown) = (SearchState::Running, None);
        }
        let count = self.members.len();
        let order = (0..count).map(|i| (self.turn + i) % count);
        let Some(at) = order.into_iter().find(|&at| self.members[at].state != SearchState::Done) else {
            return Vec::new();
        };
        self.turn = at + 1;
        let member = &mut self.members[at];
        member.step(now);
        if member.state == SearchState::Done {
            member.check(searches, &self.observation);
            if self.members.iter().all(|member| member.state == SearchState::Done) {
                self.observation.whole = None;
            }
        }
        let member = &mut self.members[at];
        let is_due = member.state == SearchState::Done || member.shown.is_none_or(|shown| now() - shown >= BEAT);
        if is_due { vec![member.show(&self.job, now)] } else { Vec::new() }
    }

    /// Pauses the searches and returns their last pictures.
    pub(super) fn rest(&mut self, state: SearchState, now: Clock<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let is_moving = |member: &&mut Member| member.state != SearchState::Done && member.state != state;
        for member in self.members.iter_mut().filter(is_moving) {
            member.state = state;
            if member.last.is_some() {
                findings.push(member.show(&self.job, now));
            }
        }
        findings
    }
}

impl Member {
    /// Seeds the noise with the round, so that every round starts from other noise.
    fn begin(
        method: AttackMethod,
        searches: &dyn Searches,
        observation: &Observation,
        round: u32,
        now: Clock<'_>,
    ) -> Self {
        let started = now();
        let options = SearchOptions { seed: round.into(), ..SearchOptions::default() };
        let begun = guarded(method, || unmask_attack::begin(method, observation, searches, options));
        let begun_at = now();
        let seconds = (begun_at - started).as_secs_f64();
        let (search, refusal, state) = match begun {
            Ok(search) => (Some(search), None, SearchState::Running),
            Err(reason) => (None, Some(reason.into()), SearchState::Done),
        };
        Self { method, search, last: None, state, refusal, checked: None, seconds, begun: begun_at, shown: None }
    }

    /// Whether the search could continue with another update.
    fn retarget(&mut self, observation: &Observation, now: Clock<'_>) -> bool {
        let (method, started) = (self.method, now());
        let Some(search) = &mut self.search else { return false };
        if guarded(method, || unmask_attack::retarget(search.as_mut(), method, observation)).is_err() {
            return false;
        }
        (self.state, self.shown, self.last, self.checked) = (SearchState::Running, None, None, None);
        (self.seconds, self.begun) = ((now() - started).as_secs_f64(), started);
        true
    }

    fn step(&mut self, now: Clock<'_>) {
        let (method, started) = (self.method, now());
        let Some(search) = &mut self.search else { return };
        let stepped = guarded(method, || search.step());
        self.seconds += (now() - started).as_secs_f64();
        match stepped {
            Ok(progress) if progress.objective.is_finite() => {
                if progress.is_over {
                    self.state = SearchState::Done;
                }
                self.last = Some(progress);
            }
            Ok(_) => self.fail(Failure::Diverged),
            Err(reason) => self.fail(reason),
        }
    }

    /// Notes how much the final picture leaves unexplained, if the model can be run.
    fn check(&mut self, searches: &dyn Searches, observation: &Observation) {
        let (method, Some(progress), Some(whole)) = (self.method, &self.last, &observation.whole) else { return };
        let values = (progress.image.len() / observation.batch.max(1)).max(1);
        let pictures: Vec<Vec<f32>> = progress.image.chunks(values).map(<[f32]>::to_vec).collect();
        let misfit = guarded(method, || {
            let own = own_gradient(observation, searches, &pictures)?;
            Misfit::of(&own, whole, Knowledge::Aware)
        });
        self.checked = misfit.ok().as_ref().and_then(remarks::unexplained);
    }

    /// Ends the search; its last picture stays, with the reason beside it.
    fn fail(&mut self, reason: Failure) {
        (self.search, self.state) = (None, SearchState::Done);
        self.refusal = Some(NoResult::Stopped(reason));
    }

    fn show(&mut self, job: &Job, now: Clock<'_>) -> Finding {
        self.shown = Some(now());
        let outcome = match (&self.last, &self.refusal) {
            (None, refusal) => Err(refusal.clone().unwrap_or(NoResult::NotYet)),
            (Some(progress), refusal) => {
                let refusal = refusal.as_ref().map(NoResult::to_string);
                let mut notes: Vec<String> =
                    progress.note.iter().chain(&refusal).chain(&self.checked).cloned().collect();
                notes.extend(remarks::on(self.method, job));
                let seen = Seen::new(job.architecture.side(), progress.image.clone(), &notes);
                seen.map_err(|reason| Failure::from(reason).into())
            }
        };
        let search = self.last.as_ref().map(|progress| SearchView {
            iteration: progress.iteration,
            iterations: progress.iterations,
            objective: progress.objective,
            state: self.state,
            elapsed: (now() - self.begun).as_secs_f64(),
            recognised_after: None,
        });
        Finding { about: job.about, method: self.method, seconds: self.seconds, outcome, search }
    }
}

/// Turns a panic in the search into an error, so that the worker survives.
fn guarded<T>(method: AttackMethod, run: impl FnOnce() -> Result<T, AttackError>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => Ok(outcome?),
        Err(_) => {
            error!("{method} broke down on an update");
            Err(Failure::BrokeDown { what: "the search" })
        }
    }
}

fn observe(Target { job, whole }: Target) -> (Arc<Job>, Observation) {
    let mut observation = job.observation.clone();
    observation.whole = Some(whole);
    (job, observation)
}
