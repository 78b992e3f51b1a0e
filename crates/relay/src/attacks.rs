//! The attacks on a thread of their own.

mod reading;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use anyhow::Context;
use tokio::sync::mpsc;
use tracing::error;
use unmask_attack::{AttackKind, Evidence, run};
use unmask_data::{Picture, encode_png};
use unmask_defence::{Defence, ProtectedUpdate};
use unmask_federation::{ClientId, GlobalModel};
use unmask_params::Rule;

use crate::room::Input;

/// What a room must know before it trusts a mask for what these attacks cannot do.
const NAIVE: &str = "This attacker takes dropped values for zeros, as in the papers. One who also uses the mask, which is no \
                     secret, may see more.";

/// What stands beside a picture made of ciphertext.
const KEYLESS: &str = "The embeddings are encrypted, in the update and in the weights that the relay holds: this attacker has \
                       no key and takes ciphertext for values.";

/// An update to attack.
#[derive(Debug)]
pub(crate) struct Job {
    /// Tells the models of one room apart; results for an earlier one are not shown.
    pub(crate) epoch: u64,
    /// Who sent it.
    pub(crate) client: ClientId,
    /// The round.
    pub(crate) round: u32,
    /// The defence it was made under.
    pub(crate) defence: Defence,
    /// What the attacks read, or why they cannot.
    pub(crate) evidence: Result<Evidence, String>,
    /// What to know about whatever they make of it.
    pub(crate) remarks: Vec<String>,
}

impl Job {
    /// Reads off an update what the attacks need; the update itself is not kept.
    pub(crate) fn new(sent: &Sent<'_>) -> Self {
        let Sent { epoch, client, round, defence, rule, model, update } = *sent;
        let evidence = reading::evidence(model, rule, update);
        Self { epoch, client, round, defence, evidence, remarks: remarks(rule, update) }
    }
}

/// An update that was taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent<'a> {
    /// Tells the models of one room apart.
    pub(crate) epoch: u64,
    /// Who sent it.
    pub(crate) client: ClientId,
    /// The round.
    pub(crate) round: u32,
    /// The defence it was made under.
    pub(crate) defence: Defence,
    /// The rule it was made under.
    pub(crate) rule: Rule,
    /// The model it was made with.
    pub(crate) model: &'a GlobalModel,
    /// What was sent.
    pub(crate) update: &'a ProtectedUpdate,
}

fn remarks(rule: Rule, update: &ProtectedUpdate) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Rule::FedAvg { epochs, .. } = rule {
        let epochs = if epochs == 1 { "1 local epoch".to_owned() } else { format!("{epochs} local epochs") };
        // Measured on one step at rate 0.1 of vit_lab_patch4_32: 80 dB where a gradient gives 99 dB, and, where the
        // equations are nearly singular (April block), 15 dB for 35 dB.
        remarks.push(format!(
            "From weight differences after {epochs}, which stand for a gradient; as differences of rounded weights they \
             show less detail than a gradient would."
        ));
    }
    match update {
        ProtectedUpdate::Dense(_) => {}
        ProtectedUpdate::Masked { .. } => remarks.push(NAIVE.to_owned()),
        ProtectedUpdate::Encrypted { .. } => remarks.push(KEYLESS.to_owned()),
    }
    remarks
}

/// What one attack made of an update.
#[derive(Debug)]
pub(crate) struct Finding {
    /// As in the job.
    pub(crate) epoch: u64,
    /// As in the job.
    pub(crate) client: ClientId,
    /// As in the job.
    pub(crate) round: u32,
    /// As in the job.
    pub(crate) defence: Defence,
    /// Index into [`AttackKind::ALL`].
    pub(crate) kind: usize,
    /// Time the attack took.
    pub(crate) seconds: f64,
    /// The picture, or why there is none.
    pub(crate) outcome: Result<Seen, String>,
}

/// A reconstruction.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Side in pixels.
    pub(crate) side: u16,
    /// `[side, side, 3]` in `[0, 1]`.
    pub(crate) values: Vec<f32>,
    /// The same as PNG.
    pub(crate) png: Vec<u8>,
    /// What to know about it.
    pub(crate) remark: Option<String>,
}

#[derive(Debug, Default)]
struct Desk {
    job: Option<Job>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attacking thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Attacker(Arc<Shared>);

impl Attacker {
    /// Starts the thread; it reports as [`Input::Attacked`].
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub(crate) fn start(room: mpsc::WeakSender<Input>) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let desk = Arc::clone(&shared);
        thread::Builder::new()
            .name("attacks".into())
            .spawn(move || work(&desk, &room))
            .context("no thread for the attacks")?;
        Ok(Self(shared))
    }

    /// Hands in an update. Of those waiting only the newest is attacked.
    pub(crate) fn attack(&self, job: Job) {
        self.0.lock().job = Some(job);
        self.0.changed.notify_one();
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_one();
    }
}

fn work(shared: &Shared, room: &mpsc::WeakSender<Input>) {
    loop {
        let job = {
            let mut desk = shared.lock();
            loop {
                if desk.is_closed {
                    return;
                }
                match desk.job.take() {
                    Some(job) => break job,
                    None => desk = shared.changed.wait(desk).unwrap_or_else(PoisonError::into_inner),
                }
            }
        };
        for kind in 0..AttackKind::ALL.len() {
            let finding = finding(&job, kind);
            let Some(room) = room.upgrade() else { return };
            if room.blocking_send(Input::Attacked(Box::new(finding))).is_err() {
                return;
            }
        }
    }
}

fn finding(job: &Job, kind: usize) -> Finding {
    let started = Instant::now();
    // What is attacked comes from outside: whatever it makes the linear algebra do, the thread lives on.
    let outcome = catch_unwind(AssertUnwindSafe(|| attack(job, AttackKind::ALL[kind]))).unwrap_or_else(|_| {
        error!(round = job.round, "{} broke down on an update", AttackKind::ALL[kind]);
        Err("The attack broke down on this update.".to_owned())
    });
    let seconds = started.elapsed().as_secs_f64();
    Finding { epoch: job.epoch, client: job.client, round: job.round, defence: job.defence, kind, seconds, outcome }
}

fn attack(job: &Job, kind: AttackKind) -> Result<Seen, String> {
    let evidence = job.evidence.as_ref().map_err(Clone::clone)?;
    let reconstruction = run(kind, evidence).map_err(|error| error.to_string())?;
    let side = reconstruction.side;
    let picture = Picture::from_hwc(side, side, &reconstruction.image).map_err(|error| error.to_string())?;
    let png = encode_png(&picture).map_err(|error| error.to_string())?;
    let mut notes = reconstruction.notes;
    notes.extend(job.remarks.iter().cloned());
    let remark = (!notes.is_empty()).then(|| notes.join(" "));
    let side = u16::try_from(side).map_err(|_| format!("a picture of side {side} is too large to send"))?;
    Ok(Seen { side, values: reconstruction.image, png, remark })
}
