//! The searches on one update, which take their steps in turns.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::error;
use unmask_attack::{Attack, AttackKind, Method, Search, SearchOptions, SearchProgress, Searches, Subject};
use unmask_wire::view::{SearchState, SearchView};

use super::Target;
use crate::attacks::{
    Finding, Seen,
    job::{Cover, Job, Material},
    remarks,
    report::cannot,
};

/// Shortest time between two pictures of one search.
const BEAT: Duration = Duration::from_millis(250);
/// Updates of more pictures than this are not even tried: a start for each would take memory by the client's word.
const MOST_PICTURES: u32 = 16;

/// One search of several on the same update.
struct Member {
    method: Method,
    /// `None` once it has failed.
    search: Option<Box<dyn Search>>,
    last: Option<SearchProgress>,
    state: SearchState,
    /// Why it cannot, or cannot go on.
    refusal: Option<String>,
    seconds: f64,
    shown: Option<Instant>,
}

/// The searches on one update.
pub(super) struct Current {
    job: Arc<Job>,
    members: Vec<Member>,
    turn: usize,
}

impl Current {
    /// Begins those that an update's cover leaves something to find for.
    pub(super) fn begin(searches: &dyn Searches, target: Target) -> Self {
        let Target { job, material } = target;
        let methods = job.cover.searches();
        let members = match subject(&job, material) {
            Ok(mut subject) => methods
                .iter()
                .map(|&method| {
                    let start = start(method, &job);
                    with_view_of(method, start, &mut subject, |subject| Member::begin(method, searches, subject))
                })
                .collect(),
            Err(reason) => methods.iter().map(|&method| Member::refused(method, &reason)).collect(),
        };
        Self { job, members, turn: 0 }
    }

    /// Goes on with a newer update like this one from the pictures found, or, where there are none, begins.
    pub(super) fn retarget(&mut self, searches: &dyn Searches, target: Target) {
        let Target { job, material } = target;
        self.job = Arc::clone(&job);
        match subject(&job, material) {
            Ok(mut subject) => {
                for member in &mut self.members {
                    let method = member.method;
                    let has_gone_on =
                        with_view_of(method, Vec::new(), &mut subject, |subject| member.retarget(subject));
                    if !has_gone_on {
                        let start = start(method, &job);
                        *member = with_view_of(method, start, &mut subject, |subject| {
                            Member::begin(method, searches, subject)
                        });
                    }
                }
            }
            Err(reason) => self.members.iter_mut().for_each(|member| *member = Member::refused(member.method, &reason)),
        }
    }

    /// Whether an update is one to which the pictures found may be carried on: found under another defence they would
    /// say more than that update gives away.
    pub(super) fn is_like(&self, job: &Job) -> bool {
        let key = |job: &Job| (job.about.epoch, job.about.client, job.about.rule, job.about.defence, job.cover);
        key(&self.job) == key(job)
    }

    /// Running as long as one of them does.
    pub(super) fn state(&self) -> SearchState {
        self.members
            .iter()
            .map(|member| member.state)
            .find(|&state| state != SearchState::Done)
            .unwrap_or(SearchState::Done)
    }

    /// What those have to say that have not begun.
    pub(super) fn news(&mut self) -> Vec<Finding> {
        let job = &self.job;
        self.members.iter_mut().filter(|member| member.refusal.is_some()).map(|member| member.show(job)).collect()
    }

    /// One step of the next that is not done; what is to be shown of it.
    pub(super) fn step(&mut self) -> Vec<Finding> {
        // Whoever stood still goes on.
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
        member.step();
        let is_due = member.state == SearchState::Done || member.shown.is_none_or(|shown| shown.elapsed() >= BEAT);
        if is_due { vec![member.show(&self.job)] } else { Vec::new() }
    }

    /// Stands still: the last pictures, as they are.
    pub(super) fn rest(&mut self, state: SearchState) -> Vec<Finding> {
        let mut findings = Vec::new();
        for member in self.members.iter_mut().filter(|member| member.state != SearchState::Done) {
            member.state = state;
            if member.last.is_some() {
                findings.push(member.show(&self.job));
            }
        }
        findings
    }
}

impl Member {
    fn new(method: Method, search: Option<Box<dyn Search>>, refusal: Option<String>, seconds: f64) -> Self {
        let state = if search.is_some() { SearchState::Running } else { SearchState::Done };
        Self { method, search, last: None, state, refusal, seconds, shown: None }
    }

    fn refused(method: Method, reason: &str) -> Self {
        Self::new(method, None, Some(cannot(reason)), 0.0)
    }

    fn begin(method: Method, searches: &dyn Searches, subject: &Subject) -> Self {
        let started = Instant::now();
        let begun = guarded(method, || searches.begin(method, subject, SearchOptions::default()));
        let seconds = started.elapsed().as_secs_f64();
        match begun {
            Ok(search) => Self::new(method, Some(search), None, seconds),
            Err(reason) => Self { seconds, ..Self::refused(method, &reason) },
        }
    }

    /// Whether it goes on with another update.
    fn retarget(&mut self, subject: &Subject) -> bool {
        let (method, started) = (self.method, Instant::now());
        let Some(search) = &mut self.search else { return false };
        if guarded(method, || search.retarget(subject)).is_err() {
            return false;
        }
        (self.state, self.shown, self.last) = (SearchState::Running, None, None);
        self.seconds = started.elapsed().as_secs_f64();
        true
    }

    fn step(&mut self) {
        let (method, started) = (self.method, Instant::now());
        let Some(search) = &mut self.search else { return };
        let stepped = guarded(method, || search.step());
        self.seconds += started.elapsed().as_secs_f64();
        match stepped {
            Ok(progress) if progress.objective.is_finite() => {
                if progress.is_over {
                    self.state = SearchState::Done;
                }
                self.last = Some(progress);
            }
            Ok(_) => self.fail("what it makes small is no longer a finite number"),
            Err(reason) => self.fail(&reason),
        }
    }

    /// It cannot go on; the last picture stays, with the reason beside it.
    fn fail(&mut self, reason: &str) {
        (self.search, self.state) = (None, SearchState::Done);
        self.refusal = Some(format!("It stopped, because {}.", reason.trim_end_matches('.')));
    }

    fn show(&mut self, job: &Job) -> Finding {
        self.shown = Some(Instant::now());
        let outcome = match (&self.last, &self.refusal) {
            (None, refusal) => Err(refusal.clone().unwrap_or_else(|| "It has made no picture yet.".to_owned())),
            (Some(progress), refusal) => {
                let mut notes: Vec<String> = progress.note.iter().chain(refusal).cloned().collect();
                notes.extend(remarks::on(self.method, job));
                Seen::new(job.config.image, progress.image.clone(), &notes).map_err(|reason| cannot(&reason))
            }
        };
        let search = self.last.as_ref().map(|progress| SearchView {
            iteration: progress.iteration,
            iterations: progress.iterations,
            objective: progress.objective,
            state: self.state,
        });
        Finding { about: job.about, method: self.method, seconds: self.seconds, outcome, search }
    }
}

/// What a panic of the search's own becomes, so that the thread lives on.
fn guarded<T>(method: Method, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        error!("{method} broke down on an update");
        Err("the search broke down on this update".to_owned())
    })
}

/// What all searches on an update are given; the start is each one's own.
fn subject(job: &Job, material: Material) -> Result<Subject, String> {
    if let Cover::Encrypted { .. } = job.cover {
        return Err(
            "the embeddings are encrypted: without the key no model of the relay's has gradients like these".to_owned()
        );
    }
    if job.about.samples > MOST_PICTURES {
        return Err(format!(
            "{} pictures are mixed in this update, more than any search takes apart",
            job.about.samples
        ));
    }
    let labels = job.labels().map_err(|reason| format!("the labels cannot be told: {reason}"))?.each();
    let Material { spec, weights, gradient, kept } = material;
    Ok(Subject { spec, weights, gradient, kept, labels, start: Vec::new() })
}

/// Runs `run` on the subject as `method` sees it: from its own start, and, where it takes dropped entries for zeros, without
/// the mask.
fn with_view_of<T>(method: Method, start: Vec<f32>, subject: &mut Subject, run: impl FnOnce(&Subject) -> T) -> T {
    let is_naive = method.knowledge() == unmask_attack::Knowledge::Naive;
    let kept = if is_naive { subject.kept.take() } else { None };
    subject.start = start;
    let result = run(subject);
    if kept.is_some() {
        subject.kept = kept;
    }
    result
}

/// What embedding inversion made of the update, which is a good place to begin; noise where it made nothing, or one picture
/// of several.
fn start(method: Method, job: &Job) -> Vec<f32> {
    let closed_form = match method {
        Method::MatchingAware => Some(Attack::aware(AttackKind::Embedding)),
        Method::Matching => Some(Attack::naive(AttackKind::Embedding)),
        _ => None,
    };
    let made = closed_form.filter(|_| job.about.samples == 1).map(|attack| job.reconstruct(attack));
    if let Some(Ok(reconstruction)) = made {
        return reconstruction.image;
    }
    let side = job.config.image;
    noise(u64::from(job.about.round), 3 * side * side * job.about.samples as usize)
}

/// `len` numbers in [0, 1), the same for the same seed.
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        // SplitMix64 (Steele, Lea, Flood, 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) >> 40
    };
    (0..len).map(|_| next() as f32 / (1u64 << 24) as f32).collect()
}
