//! The outer federation: a federation of rooms, such as Flower's, in which this room is a client. The room's own
//! federation, of its clients, is [`unmask_federation`].

use std::{fmt, sync::Arc};

use unmask_core::{Architecture, ModelState, RoundSettings};
use unmask_federation::{GlobalModel, RoundSummary};
use unmask_wire::view::{FederationLink, FederationView};

use super::{evaluation::HeldOut, measuring::NotMeasured, reply::Reply};

pub enum OuterInput {
    /// The server answers, or does not for the reason in `remark`.
    Link { link: FederationLink, remark: Option<String> },
    /// Train from these weights.
    Train(TrainRequest),
    /// The time for request `number` is up.
    GiveUp { number: u64 },
    /// The federation no longer waits for the room's work.
    Abandon,
    /// Asks for everything needed to measure a model, or the reason why the room cannot measure.
    HeldOut { reply: Reply<Result<HeldOut, NotMeasured>> },
}

/// A request to train from a federation's weights.
pub struct TrainRequest {
    /// Identifies the request.
    pub number: u64,
    /// For the room's current model.
    pub state: ModelState,
    /// Number of the room's rounds.
    pub rounds: u32,
    /// The federation's round.
    pub round: Option<u32>,
    pub reply: Answer,
}

pub type Answer = Reply<Result<Contribution, NoContribution>>;

/// Why a request has no result, as a clause.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoContribution {
    #[error(
        "the room's rounds are encrypted, and nobody outside of it could use their weights; choose another defence"
    )]
    Encrypted,
    #[error("the room's model was encrypted meanwhile")]
    EncryptedMeanwhile,
    #[error("the room begins with another model, {coming}")]
    OtherModel { coming: Architecture },
    #[error("the room has begun with another model")]
    BegunAgain,
    #[error("the federation has asked for something else meanwhile")]
    Replaced,
    #[error("nobody is waiting for it any more")]
    Abandoned,
    #[error("nobody is in the room")]
    NobodyHere,
    #[error("{done} of {of} rounds were done in time{}", if *is_held { ", because the room is paused" } else { "" })]
    Late { done: u32, of: u32, is_held: bool },
}

/// The result of a request.
#[derive(Debug)]
pub struct Contribution {
    pub model: Arc<GlobalModel>,
    /// Samples behind the updates of all its rounds.
    pub samples: u64,
    /// Number of updates in the last round.
    pub clients: u32,
    /// The last round's loss.
    pub loss: Option<f32>,
    pub settings: RoundSettings,
    pub held_out: Result<HeldOut, NotMeasured>,
}

/// The room's work for the outer federation.
#[derive(Debug, Default)]
pub(super) struct OuterWork {
    view: Option<FederationView>,
    job: Option<Job>,
    /// Whether the teacher has paused the room; rounds for the federation then wait for the teacher.
    is_held: bool,
}

/// A request in progress.
struct Job {
    number: u64,
    has_begun: bool,
    samples: u64,
    reply: Answer,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("has_begun", &self.has_begun)
            .field("samples", &self.samples)
            .finish_non_exhaustive()
    }
}

/// A finished request, before the model is added to its result.
pub(super) struct Done {
    pub(super) samples: u64,
    pub(super) reply: Answer,
}

impl OuterWork {
    /// For the federation with this server; for none if `None`.
    pub(super) fn new(superlink: Option<String>) -> Self {
        let view = superlink.map(|superlink| FederationView { superlink, ..FederationView::default() });
        Self { view, ..Self::default() }
    }

    pub(super) fn view(&self) -> Option<FederationView> {
        let is_held = self.is_held && self.job.is_some();
        self.view.clone().map(|view| FederationView { is_held, ..view })
    }

    /// Notes whether the server answers; returns the line to log.
    pub(super) fn linked(&mut self, link: FederationLink, remark: Option<String>) -> Option<String> {
        let view = self.view.as_mut()?;
        let before = std::mem::replace(&mut view.link, link);
        let line = match link {
            _ if before == link => None,
            FederationLink::Connecting => None,
            FederationLink::Connected => Some("The room is in its federation; the SuperLink answers.".to_owned()),
            FederationLink::Lost => {
                Some("The federation's SuperLink does not answer; the room goes on without it.".to_owned())
            }
        };
        if before != link || remark.is_some() {
            view.remark = remark;
        }
        line
    }

    /// Begins a request, replacing any earlier one.
    pub(super) fn begin(&mut self, number: u64, rounds: u32, round: Option<u32>, reply: Answer) {
        self.fail(NoContribution::Replaced);
        if let Some(view) = &mut self.view {
            (view.round, view.done, view.of, view.remark) = (round.or(view.round), 0, rounds, None);
        }
        self.job = Some(Job { number, has_begun: false, samples: 0, reply });
    }

    pub(super) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    pub(super) fn wants_round(&self) -> bool {
        self.job.is_some() && !self.is_held
    }

    pub(super) fn has_job(&self) -> bool {
        self.job.is_some()
    }

    pub(super) fn is_at(&self, number: u64) -> bool {
        self.job.as_ref().is_some_and(|job| job.number == number)
    }

    pub(super) fn round_began(&mut self) {
        if let Some(job) = &mut self.job {
            job.has_begun = true;
        }
    }

    /// Notes that a round has closed; returns the request if it is finished. Rounds that took no step do not count.
    pub(super) fn closed(&mut self, summary: &RoundSummary) -> Option<Done> {
        let (job, view) = (self.job.as_mut()?, self.view.as_mut()?);
        if !job.has_begun || summary.updates == 0 || summary.void.is_some() {
            return None;
        }
        job.samples += summary.samples;
        view.done += 1;
        let is_done = view.done >= view.of;
        let Job { samples, reply, .. } = self.job.take_if(|_| is_done)?;
        Some(Done { samples, reply })
    }

    /// Tells the federation why the room has no result, if a request is in progress.
    pub(super) fn fail(&mut self, reason: NoContribution) {
        if let Some(job) = self.job.take() {
            if let Some(view) = &mut self.view {
                view.remark = Some(format!("Not done: {reason}."));
            }
            // The requester may be gone.
            job.reply.send(Err(reason));
        }
    }

    /// Why the request is not done when its time is up.
    pub(super) fn late(&self) -> NoContribution {
        let (done, of) = self.view.as_ref().map_or((0, 0), |view| (view.done, view.of));
        NoContribution::Late { done, of, is_held: self.is_held }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver};

    use unmask_core::{Defence, OptimiserKind, Rule};

    use super::*;

    fn reply() -> (Answer, Receiver<Result<Contribution, NoContribution>>) {
        let (sender, receiver) = mpsc::channel();
        (Reply::new(move |answer| sender.send(answer).is_ok()), receiver)
    }

    fn summary(round: u32, updates: u32) -> RoundSummary {
        let settings = RoundSettings::new(Defence::None, Rule::FedSgd, 1, OptimiserKind::Sgd { rate: 0.1 }).unwrap();
        RoundSummary {
            round,
            settings,
            updates,
            clipped: 0,
            large: Vec::new(),
            opposed: 0,
            samples: u64::from(updates) * 2,
            loss: None,
            losses: Vec::new(),
            void: None,
            late: Vec::new(),
        }
    }

    #[test]
    fn only_rounds_with_the_federations_weights_count() {
        let mut outer = OuterWork::new(Some("http://h:1".to_owned()));
        let (reply, answer) = reply();
        outer.begin(1, 2, Some(3), reply);
        assert!(outer.closed(&summary(7, 1)).is_none(), "it ran before");
        outer.round_began();
        assert!(outer.closed(&summary(8, 0)).is_none() && outer.closed(&summary(9, 3)).is_none());
        let view = outer.view().unwrap();
        assert_eq!((view.round, view.done, view.of), (Some(3), 1, 2));
        assert_eq!(outer.closed(&summary(10, 1)).unwrap().samples, 8);
        assert!(!outer.wants_round() && answer.try_recv().is_err());
    }

    #[test]
    fn a_paused_room_waits_for_its_teacher() {
        let mut outer = OuterWork::new(Some("http://h:1".to_owned()));
        let (reply, answer) = reply();
        outer.begin(1, 1, None, reply);
        outer.hold(true);
        assert!(!outer.wants_round() && outer.has_job());
        assert!(outer.view().unwrap().is_held);
        outer.hold(false);
        assert!(outer.wants_round() && !outer.view().unwrap().is_held);
        outer.fail(NoContribution::NobodyHere);
        assert_eq!(answer.try_recv().unwrap().unwrap_err(), NoContribution::NobodyHere);
        assert_eq!(outer.view().unwrap().remark.as_deref(), Some("Not done: nobody is in the room."));
    }

    #[test]
    fn what_is_new_of_the_link_is_said() {
        let mut outer = OuterWork::new(Some("http://h:1".to_owned()));
        let mut said = |link| outer.linked(link, None).is_some();
        let links =
            [FederationLink::Connected, FederationLink::Connected, FederationLink::Lost, FederationLink::Connected];
        assert_eq!(links.map(&mut said), [true, false, true, true]);
        outer.linked(FederationLink::Lost, Some("no answer".to_owned()));
        outer.linked(FederationLink::Lost, None);
        assert_eq!(outer.view().unwrap().remark.as_deref(), Some("no answer"));
        assert!(OuterWork::new(None).linked(FederationLink::Lost, None).is_none());
    }
}
