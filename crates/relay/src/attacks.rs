//! The attacks, on threads of their own: rounds never wait for them.
//!
//! The room reads off an update of the client under attack what they need ([`Attacks::read`]) and goes on. A small pool of
//! threads runs closed forms, labels and membership on the newest update, one thread gathers rounds, and one searches through
//! the model where this relay can. What they find comes back as [`Report`]s, which the room hands to [`Attacks::heard`].

mod about;
mod attacker;
mod budget;
mod candidate;
mod cards;
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

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tracing::warn;
use unmask_attack::{KnownStart, Searches, Tensors, WholeUpdate};
use unmask_core::{AttackMethod, ClientId, Defence, KeyCheck, RoundSettings, VitConfig};
use unmask_defence::ProtectedUpdate;
use unmask_federation::{GlobalModel, Seal};
use unmask_wire::{
    RelayMessage,
    view::{AttackView, BudgetView, LabelView, MembershipView},
};

use self::{
    about::About,
    attacker::Attacker,
    candidate::{Candidate, MembershipCard},
    cards::Attacked,
    job::{Job, Sent},
    keys::embeddings,
    labels::LabelCard,
};
pub(crate) use self::{candidate::CandidatePicture, keys::GivenKey, pictures::Pictures, report::Report};

/// Longest time that may be chosen for the attacks on one round, in seconds.
const MAX_BUDGET: f64 = 600.0;

/// What an attacked client is sent: the picture made of its update, for its score.
#[derive(Debug)]
pub(crate) struct Reconstruction {
    pub(crate) client: ClientId,
    pub(crate) method: AttackMethod,
    pub(crate) message: RelayMessage,
    pub(crate) values: Vec<f32>,
}

/// What the teacher chose of the attacks, as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttacksRecord {
    target: Option<ClientId>,
    is_searching: bool,
    /// Of the budget for one round.
    seconds: f64,
}

/// The attacks as the room has them: whom they are on, what their threads are handed, and what is shown of what they find.
/// Where there is something to say, the line is returned.
pub(crate) struct Attacks {
    attacker: Attacker,
    /// The client under attack.
    target: Option<ClientId>,
    /// Who was under attack before the relay was started again, until they are back or somebody else is chosen.
    awaited: Option<ClientId>,
    /// One for each attack.
    cards: Attacked,
    label: LabelCard,
    membership: MembershipCard,
    /// What was read of the update that is being taken.
    job: Option<(Job, Option<Arc<WholeUpdate>>)>,
    pictures: Arc<Pictures>,
    /// Counts the models: what is known about an earlier one is not mixed in.
    epoch: u64,
    /// Counts the updates attacked.
    serial: u64,
    /// Counts how often rounds were to be gathered anew.
    gathering: u64,
    /// The embeddings as they were sent to the client that is encrypting them.
    plain: Option<Tensors>,
}

impl Attacks {
    /// Starts the threads; `report` gives false once nobody listens.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub(crate) fn start(
        report: impl Fn(Report) -> bool + Send + Sync + 'static,
        pictures: Arc<Pictures>,
        budget: Duration,
        searches: Option<Arc<dyn Searches>>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            attacker: Attacker::start(report, budget, searches)?,
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
        })
    }

    /// The client under attack.
    pub(crate) fn target(&self) -> Option<ClientId> {
        self.target
    }

    /// Attacks this client from its next update on. A search on an update of somebody else ends where it is.
    pub(crate) fn set_target(&mut self, client: ClientId) {
        self.awaited = None;
        self.turn_to(client);
    }

    fn turn_to(&mut self, client: ClientId) {
        if self.target.replace(client) != Some(client) {
            self.attacker.forget_search();
        }
    }

    /// Somebody is there whose pictures the class may see: attacked where nobody is, or where they were before the relay was
    /// started again.
    pub(crate) fn joined(&mut self, client: ClientId) {
        let is_awaited = self.awaited.take_if(|awaited| *awaited == client).is_some();
        if is_awaited || self.target.is_none() {
            self.turn_to(client);
        }
    }

    /// Somebody left, or the class may not see their pictures any more: what was made of their updates is forgotten. Where
    /// that was the client under attack, `next` is.
    pub(crate) fn left(&mut self, client: ClientId, next: Option<ClientId>) {
        if self.target == Some(client) {
            self.target = next;
            // Rounds of before are not put together with those that may follow.
            self.gathering += 1;
        }
        self.awaited.take_if(|awaited| *awaited == client);
        self.job.take_if(|(job, _)| job.about.client == client);
        self.attacker.forget_client(client);
        self.cards.forget(client);
        self.label.forget_client(client);
        self.membership.forget_client(client);
        self.pictures.forget(|other| other == client);
    }

    /// Reads off an update of the client under attack, one that will be taken, what the attacks need, before the round that it
    /// completes alters the weights it was made with. Were the model kept for them, the step would have to copy it.
    pub(crate) fn read(
        &mut self,
        (client, round, samples): (ClientId, u32, u32),
        settings: &RoundSettings,
        model: &GlobalModel,
        update: &ProtectedUpdate,
    ) {
        if self.target != Some(client) {
            return;
        }
        self.serial += 1;
        let about = About {
            epoch: self.epoch,
            serial: self.serial,
            gathering: self.gathering,
            client,
            round,
            defence: settings.defence(),
            rule: settings.rule(),
            samples,
        };
        let sent = Sent { about, batch: settings.batch(), encryption: settings.encryption(), model, update };
        let job = Job::new(&sent);
        // Else two would be there for a moment.
        self.attacker.drop_model();
        let whole = if self.attacker.is_searching() == Some(true) {
            Some(Arc::new(job.whole(&sent)))
        } else {
            // Membership runs the model too, also on a picture that is dropped only later.
            self.attacker.runs_models().then(|| job.model(&sent)).flatten().map(Arc::new)
        };
        self.job = Some((job, whole));
    }

    /// The update that was read is taken, and attacked.
    pub(crate) fn begin(&mut self) {
        if let Some((job, whole)) = self.job.take() {
            self.cards.begin(job.concealment.methods(job.architecture));
            self.attacker.attack(job, whole);
        }
    }

    /// The update that was read is dealt with.
    pub(crate) fn forget_read(&mut self) {
        self.job = None;
    }

    /// A new model begins: nothing found of the old one is shown beside it. The picture that was dropped stays.
    pub(crate) fn forget_model(&mut self) {
        self.epoch += 1;
        self.cards = Attacked::default();
        self.label.forget();
        self.membership.forget_answer();
        self.pictures.forget(|_| true);
        self.attacker.forget_model();
    }

    /// Takes news of a thread; returns what the attacked client is to be sent. `nickname` is that of a client whose pictures
    /// the class may see now, for the attack may have taken longer than the client stayed.
    pub(crate) fn heard(
        &mut self,
        report: Report,
        config: Option<&VitConfig>,
        nickname: impl Fn(ClientId) -> Option<String>,
    ) -> Option<Reconstruction> {
        let nickname = nickname(report.about()?.client)?;
        match report {
            Report::Found(finding) if self.is_current(&finding.about) => {
                let (client, method) = (finding.about.client, finding.method);
                // Of rounds that were to be forgotten.
                if method == AttackMethod::Rounds && finding.about.gathering != self.gathering {
                    return None;
                }
                let found = self.cards.found(*finding, &nickname, config, &self.pictures);
                return found.map(|(message, values)| Reconstruction { client, method, message, values });
            }
            Report::Gathered(about, outcome) if self.is_current(&about) && about.gathering == self.gathering => {
                self.cards.gathered(&about, outcome, &nickname, config);
            }
            Report::Labels(about, outcome) if self.is_current(&about) => {
                self.label.told(&about, outcome, nickname);
            }
            Report::Membership(about, number, outcome) if self.is_current(&about) => {
                self.membership.told(&about, number, outcome, nickname);
            }
            // Of a model that is gone; or nothing but time spent, which the view shows.
            _ => {}
        }
        None
    }

    fn is_current(&self, about: &About) -> bool {
        about.epoch == self.epoch
    }

    /// Takes the score that a client gives the reconstruction of its picture; returns the defence that it is of, unless it
    /// comes too late to be shown.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn score(
        &mut self,
        client: ClientId,
        round: u32,
        attack: AttackMethod,
        psnr: f32,
        ssim: f32,
    ) -> Result<Option<Defence>, String> {
        self.cards.score(client, round, attack, psnr, ssim)
    }

    /// Lets a search know whether rounds run.
    pub(crate) fn room_is_paused(&self, is_paused: bool) {
        self.attacker.room_is_paused(is_paused);
    }

    /// Asks for this picture from now on, in place of the one before. `side` is that of the room's model.
    pub(crate) fn take_candidate(
        &mut self,
        CandidatePicture { values, png }: CandidatePicture,
        side: usize,
    ) -> Result<&'static str, String> {
        if values.len() != 3 * side * side {
            return Err(format!(
                "The picture has not the {side} x {side} pixels that the room's model sees; drop it again."
            ));
        }
        let number = self.membership.next_number();
        self.membership.ask(self.pictures.keep_candidate(number, png));
        self.attacker.ask(Some(Candidate { number, values }));
        Ok("The teacher dropped a picture: was it among those of the client under attack?")
    }

    /// The picture that was dropped is asked for no more.
    pub(crate) fn forget_candidate(&mut self) {
        self.attacker.ask(None);
        self.pictures.forget_candidate();
        self.membership.forget_picture();
    }

    /// Chooses the time for the attacks on one round.
    pub(crate) fn set_budget(&self, seconds: f64) -> Result<String, String> {
        if !(0.0..=MAX_BUDGET).contains(&seconds) {
            return Err(format!("{seconds} is no time for the attacks; give seconds a round, 0 to {MAX_BUDGET}."));
        }
        self.attacker.set_budget(Duration::from_secs_f64(seconds));
        Ok(match seconds {
            0.0 => "The teacher stopped the attacks.".to_owned(),
            _ => format!("The teacher gives the attacks {seconds} s a round."),
        })
    }

    /// What the teacher chose, to be written down.
    pub(crate) fn record(&self) -> AttacksRecord {
        AttacksRecord {
            target: self.awaited.or(self.target),
            is_searching: self.is_searching() == Some(true),
            seconds: self.budget().seconds,
        }
    }

    /// Takes up what was chosen before; the budget in force holds where it was given anew.
    pub(crate) fn restore(&mut self, record: AttacksRecord, is_budget_given: bool) {
        self.awaited = record.target;
        self.attacker.search(record.is_searching);
        if let Ok(budget) = Duration::try_from_secs_f64(record.seconds)
            && !is_budget_given
        {
            self.attacker.set_budget(budget);
        }
    }

    /// Searches through the model, or stops.
    pub(crate) fn search(&self, on: bool) -> Result<&'static str, String> {
        if self.attacker.is_searching().is_none() {
            return Err("This relay cannot search through the model: it was started without token matching.".to_owned());
        }
        self.attacker.search(on);
        Ok(match on {
            true => "The teacher has the relay search through the model for the picture behind an update.",
            false => "The teacher stopped the search.",
        })
    }

    /// Forgets the rounds gathered.
    pub(crate) fn gather_anew(&mut self) -> &'static str {
        self.gathering += 1;
        self.cards.remove(AttackMethod::Rounds);
        "The teacher has the relay gather rounds anew."
    }

    /// A client is asked to encrypt a model, which it is sent in the plain or makes itself.
    pub(crate) fn sent_plain(&mut self, model: Option<&GlobalModel>) {
        self.plain = model.and_then(readable);
    }

    /// Keeps both forms of the embeddings of the model that was just encrypted, if the relay had them in the plain.
    pub(crate) fn compare_forms(&mut self, model: &GlobalModel, seal: Option<&Seal>) {
        let (plain, encrypted) = (self.plain.take(), readable(model));
        if let (Some(plain), Some(encrypted), Some(seal)) = (plain, encrypted, seal) {
            self.attacker.set_known_start(seal.check, KnownStart::new(plain, encrypted));
        }
    }

    /// Takes the key that a client gave away, if it is that of the encryption in force.
    pub(crate) fn take_key(&self, key: Result<GivenKey, String>, seal: Option<&Seal>) -> Result<&'static str, String> {
        let key = key?;
        if seal.is_none_or(|seal| seal.check != key.check()) {
            return Err("The encryption that this key belonged to has ended.".to_owned());
        }
        self.attacker.set_key(Some(key));
        Ok("A client, played by the teacher, gave the relay the key of the room.")
    }

    /// Forgets the key that a client gave away, if one did.
    pub(crate) fn forget_key(&self) -> Option<&'static str> {
        self.attacker.has_key().then(|| {
            self.attacker.set_key(None);
            "The relay has forgotten the key of the room."
        })
    }

    /// Forgets all keys but those of the encryption of this check.
    pub(crate) fn keep_keys(&self, check: Option<KeyCheck>) {
        self.attacker.keep_keys(check);
    }

    /// The results there are, in the order of [`AttackMethod::ALL`].
    pub(crate) fn cards(&self) -> impl Iterator<Item = &AttackView> {
        self.cards.views()
    }

    /// The labels told last.
    pub(crate) fn label(&self) -> Option<&LabelView> {
        self.label.view()
    }

    /// What was last told of the picture that was dropped.
    pub(crate) fn membership(&self) -> Option<&MembershipView> {
        self.membership.view()
    }

    /// How much of the time is spent.
    pub(crate) fn budget(&self) -> BudgetView {
        self.attacker.budget()
    }

    /// Whether they search; `None` where this relay cannot.
    pub(crate) fn is_searching(&self) -> Option<bool> {
        self.attacker.is_searching()
    }

    /// Whether a client gave the key away.
    pub(crate) fn has_key(&self) -> bool {
        self.attacker.has_key()
    }
}

fn readable(model: &GlobalModel) -> Option<Tensors> {
    embeddings(model).inspect_err(|error| warn!("the embeddings of the room's model cannot be read: {error}")).ok()
}
