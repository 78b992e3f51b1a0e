//! The attacks as the room's actor sees them: what it hands to their threads, and what it shows of what they find.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tracing::warn;
use unmask_attack::{KnownStart, Searches, Tensors, WholeUpdate};
use unmask_core::{AttackMethod, ClientId};
use unmask_defence::ProtectedUpdate;
use unmask_federation::{GlobalModel, RoomPhase};
use unmask_wire::view::{LabelView, MembershipView};

use super::{Actor, Input, Reply, reporter};
use crate::{
    attacks::{About, Attacked, Attacker, GivenKey, Job, Labels, Pictures, Report, Sent, embeddings},
    connection::Slot,
};

/// Longest time that may be chosen for the attacks on one round, in seconds.
const MAX_BUDGET: f64 = 600.0;

/// What the actor holds of the attacks.
pub(super) struct Attacking {
    pub(super) attacker: Attacker,
    /// One for each attack.
    pub(super) cards: Attacked,
    pub(super) label: Option<LabelView>,
    pub(super) membership: Option<MembershipView>,
    /// What the attacks read of the update that is being taken.
    pub(super) job: Option<(Job, Option<WholeUpdate>)>,
    pub(super) pictures: Arc<Pictures>,
    /// Counts the updates attacked.
    serial: u64,
    /// Counts how often rounds were to be gathered anew.
    gathering: u64,
    /// Counts the pictures dropped.
    pub(super) candidates: u64,
    /// Number of the update that labels were last told of.
    labels_of: u64,
    /// Number of the update that membership was last told of.
    pub(super) membership_of: u64,
    /// The embeddings as they were sent to the client that is encrypting them.
    plain: Option<Tensors>,
    /// Where a key is reported that is made elsewhere.
    inputs: mpsc::WeakSender<Input>,
}

impl Attacking {
    pub(super) fn start(
        inputs: mpsc::WeakSender<Input>,
        pictures: Arc<Pictures>,
        budget: Duration,
        searches: Option<Arc<dyn Searches>>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            attacker: Attacker::start(reporter(inputs.clone(), Input::Attacked), budget, searches)?,
            cards: Attacked::default(),
            label: None,
            membership: None,
            job: None,
            pictures,
            serial: 0,
            gathering: 0,
            candidates: 0,
            labels_of: 0,
            membership_of: 0,
            plain: None,
            inputs,
        })
    }

    /// The update that was read is taken, and attacked.
    pub(super) fn begin(&mut self) {
        if let Some((job, whole)) = self.job.take() {
            self.cards.begin(job.concealment.methods(job.architecture));
            self.attacker.attack(job, whole);
        }
    }

    /// A new model begins: nothing found of the old one is shown beside it. The picture that was dropped stays.
    pub(super) fn forget_model(&mut self) {
        self.cards = Attacked::default();
        self.label = None;
        self.membership = self.membership.take().map(|MembershipView { picture, .. }| blank(picture));
        self.attacker.forget_model();
    }

    /// A client is asked to encrypt a model, which it is sent in the plain or makes itself.
    pub(super) fn sent_plain(&mut self, model: Option<&GlobalModel>) {
        self.plain = model.and_then(readable);
    }
}

/// A membership card with nothing told yet.
pub(super) fn blank(picture: String) -> MembershipView {
    MembershipView { picture, ..MembershipView::default() }
}

fn readable(model: &GlobalModel) -> Option<Tensors> {
    embeddings(model).inspect_err(|error| warn!("the embeddings of the room's model cannot be read: {error}")).ok()
}

impl Actor {
    /// Reads off an update what the attacks need, before the round that it completes alters the weights it was made with.
    /// Were the model kept for them, the step would have to copy it.
    pub(super) fn read(&mut self, client: ClientId, round: u32, samples: u32, update: &ProtectedUpdate) {
        let settings = self.room.settings();
        self.attacking.serial += 1;
        let about = About {
            epoch: self.epoch,
            serial: self.attacking.serial,
            gathering: self.attacking.gathering,
            client,
            round,
            defence: settings.defence(),
            rule: settings.rule(),
            samples,
        };
        let (batch, encryption) = (settings.batch(), settings.encryption());
        let sent = Sent { about, batch, encryption, model: self.room.model(), update };
        let is_searching = self.attacking.attacker.is_searching() == Some(true);
        let job = Job::new(&sent);
        let whole = is_searching.then(|| job.whole(&sent));
        self.attacking.job = Some((job, whole));
    }

    /// Keeps both forms of the embeddings that were just encrypted, if the relay had them in the plain.
    pub(super) fn compare_forms(&mut self) {
        let (plain, encrypted) = (self.attacking.plain.take(), readable(self.room.model()));
        if let (Some(plain), Some(encrypted), Some(seal)) = (plain, encrypted, self.room.seal()) {
            self.attacking.attacker.set_known_start(seal.check, KnownStart::new(plain, encrypted));
        }
    }

    /// Lets a search know whether rounds run.
    pub(super) fn tell_attacker(&self) {
        self.attacking.attacker.room_is_paused(self.room.phase() == RoomPhase::Paused);
    }

    pub(super) fn heard(&mut self, report: Report) {
        let config = self.room.model().architecture.vit();
        match report {
            Report::Found(finding) if self.is_current(&finding.about) => {
                let (client, method) = (finding.about.client, finding.method);
                // Of rounds that were to be forgotten.
                if method == AttackMethod::Rounds && finding.about.gathering != self.attacking.gathering {
                    return;
                }
                let nickname = self.roster.name(client).to_owned();
                let Attacking { cards, pictures, .. } = &mut self.attacking;
                if let Some((message, values)) = cards.found(*finding, &nickname, config.as_ref(), pictures) {
                    let slot = AttackMethod::ALL.iter().position(|other| *other == method).unwrap_or_default();
                    self.send(client, Slot::Reconstruction(slot), &message, &values);
                }
            }
            Report::Gathered(about, outcome)
                if self.is_current(&about) && about.gathering == self.attacking.gathering =>
            {
                let nickname = self.roster.name(about.client);
                self.attacking.cards.gathered(&about, outcome, nickname, config.as_ref());
            }
            Report::Labels(about, outcome) if self.is_current(&about) => self.labelled(&about, outcome),
            Report::Membership(about, number, outcome) if self.is_current(&about) => {
                self.take_membership(&about, number, outcome);
            }
            // Of a model that is gone; or nothing but time spent, which the view shows.
            _ => {}
        }
    }

    fn is_current(&self, about: &About) -> bool {
        about.epoch == self.epoch
    }

    fn labelled(&mut self, about: &About, outcome: Result<Labels, String>) {
        if about.serial < self.attacking.labels_of {
            return;
        }
        self.attacking.labels_of = about.serial;
        let (counts, shares, remark) = match outcome {
            Ok(Labels { counts, shares, remark }) => {
                (counts.into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect(), shares, remark)
            }
            Err(reason) => (Vec::new(), Vec::new(), Some(format!("Cannot, because {reason}."))),
        };
        self.attacking.label = Some(LabelView {
            round: about.round,
            client: about.client,
            nickname: self.roster.name(about.client).to_owned(),
            defence: about.defence,
            samples: about.samples,
            counts,
            shares,
            remark,
        });
    }

    pub(super) fn set_attack_budget(&mut self, seconds: f64) -> Result<(), String> {
        if !(0.0..=MAX_BUDGET).contains(&seconds) {
            return Err(format!("{seconds} is no time for the attacks; give seconds a round, 0 to {MAX_BUDGET}."));
        }
        self.attacking.attacker.set_budget(Duration::from_secs_f64(seconds));
        self.say(match seconds {
            0.0 => "The teacher stopped the attacks.".to_owned(),
            _ => format!("The teacher gives the attacks {seconds} s a round."),
        });
        Ok(())
    }

    pub(super) fn search(&mut self, on: bool) -> Result<(), String> {
        if self.attacking.attacker.is_searching().is_none() {
            return Err("This relay cannot search through the model: it was started without token matching.".to_owned());
        }
        self.attacking.attacker.search(on);
        self.say(match on {
            true => "The teacher has the relay search through the model for the picture behind an update.".to_owned(),
            false => "The teacher stopped the search.".to_owned(),
        });
        Ok(())
    }

    pub(super) fn gather_anew(&mut self) {
        self.attacking.gathering += 1;
        self.attacking.cards.remove(AttackMethod::Rounds);
        self.say("The teacher has the relay gather rounds anew.".to_owned());
    }

    /// Makes a key of a passphrase on another thread: the password hash is slow on purpose.
    pub(super) fn derive_key(&self, passphrase: String, reply: Reply) {
        let Some(seal) = self.room.seal().copied() else {
            let reason = "The room's model is not encrypted, so that there is no key to give away.";
            return drop(reply.send(Err(reason.to_owned())));
        };
        let (architecture, inputs) = (self.room.model().architecture, self.attacking.inputs.clone());
        tokio::task::spawn_blocking(move || {
            let key = GivenKey::derive(&passphrase, &seal, architecture);
            if let Some(inputs) = inputs.upgrade() {
                drop(inputs.blocking_send(Input::KeyDerived { key, reply }));
            }
        });
    }

    pub(super) fn take_key(&mut self, key: Result<GivenKey, String>) -> Result<(), String> {
        let key = key?;
        if self.room.seal().is_none_or(|seal| seal.check != key.check()) {
            return Err("The encryption that this key belonged to has ended.".to_owned());
        }
        self.attacking.attacker.set_key(Some(key));
        self.say("A client, played by the teacher, gave the relay the key of the room.".to_owned());
        Ok(())
    }

    pub(super) fn forget_key(&mut self) {
        if self.attacking.attacker.has_key() {
            self.attacking.attacker.set_key(None);
            self.say("The relay has forgotten the key of the room.".to_owned());
        }
    }
}
