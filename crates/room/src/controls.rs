//! The teacher's controls.

use unmask_core::{Architecture, EncryptionStart, InitialWeights, Partition, RoundSettings, SettingsError, TrainOn};
use unmask_federation::{Event, GlobalModel, RoomPhase};
use unmask_recording::Forgotten;
use unmask_wire::{RelayMessage, view::Control};

use super::{
    Classroom,
    control_error::{BeginError, ControlError, UnfitModel},
    data_set::{LoadError, SharedDataSet},
    input::{Answer, Input},
    memory,
    moderation::ModerationError,
    outer::NoContribution,
    sharing::SharingError,
};
use crate::{
    attacks::{AttacksError, CandidatePicture, GivenKey, GivenKeyError},
    host::Work,
    outbox::{OutboxMessage, Slot},
};

impl Classroom {
    pub(super) fn control(&mut self, control: Control) -> Result<(), ControlError> {
        match control {
            Control::Start => {
                self.stage.hold(false);
                self.outer.hold(false);
                self.teacher("started the rounds", Event::Start);
            }
            Control::Pause => {
                self.stage.hold(true);
                self.outer.hold(true);
                self.teacher("paused; the running round still ends", Event::Pause);
            }
            Control::OneRound => {
                self.stage.hold(false);
                self.teacher("asked for one round", Event::OneRound);
            }
            Control::Reset => {
                self.reset(self.coming_architecture());
                self.hide_originals();
                self.door.let_in(None);
                self.recorder.forget(Forgotten::all_pictures());
            }
            Control::Defence { defence } => {
                self.choose(&format!("the defence {defence}"), |settings| settings.with_defence(defence))?;
            }
            Control::Rule { rule } => {
                self.choose(&format!("the rule {rule}"), |settings| settings.with_rule(rule))?;
            }
            Control::Aggregation { aggregation } => {
                let what = format!("the aggregation {aggregation}");
                self.choose(&what, |settings| settings.with_aggregation(aggregation))?;
            }
            Control::Optimiser { optimiser } => {
                self.choose(&format!("the optimiser {optimiser}"), |settings| settings.with_optimiser(optimiser))?;
            }
            Control::Batch { samples } => {
                self.choose(&format!("a batch size of {samples}"), |settings| settings.with_batch(samples))?;
            }
            Control::AprilBlock { on } => self.choose_block(on)?,
            Control::Target { client } => self.set_target(client)?,
            Control::Readmit { client } => {
                let entry = self.roster.get_mut(client).ok_or(ModerationError::Unknown { client })?;
                entry.readmitted();
                let (line, peer) = (format!("The teacher readmitted {}.", entry.nickname()), entry.peer());
                if peer.device.is_some() {
                    self.door.let_in(peer.device);
                }
                self.say_of([client], line);
                self.feed(Event::Readmit(client));
            }
            Control::Lock { on } => self.lock(on),
            Control::ApproveFirst { on } => self.approve_first(on)?,
            Control::Approve { client } => self.approve(client)?,
            Control::ShowPicture { client } => self.allow_pictures(client)?,
            Control::RemoveFrom { client } => self.remove_from(client)?,
            Control::Rename { client, nickname } => self.rename(client, &nickname)?,
            Control::Remove { client } => self.remove_for_good(client)?,
            Control::Ban { client } => self.ban(client)?,
            Control::LiftBans => self.lift_bans(),
            Control::AttackBudget { seconds } => {
                let line = self.attacks.set_budget(seconds)?;
                self.say(line);
            }
            Control::Search { on } => {
                let line = self.attacks.search(on)?;
                self.say(line);
            }
            Control::GatherAnew => {
                let line = self.attacks.gather_anew();
                self.say(line);
            }
            // Passphrases and data sets take a while, so other methods answer them.
            Control::Collude { .. } => {
                if let Some(line) = self.attacks.forget_key() {
                    self.say(line);
                }
            }
            // The relay answers it with another key.
            Control::NewKey => {}
            Control::TrainOn { .. } => {}
            Control::Together { controls } => self.control_together(controls)?,
            Control::Lesson { scene, beat } => {
                if self.stage.go(scene, beat) {
                    self.say(format!("The lesson is at scene {}, {scene}.", scene.number()));
                }
                self.look_at_beat();
                self.tell_lesson();
                self.follow_question();
            }
            Control::AskPoll { poll } => {
                let nickname = |client| self.roster.get(client).map(|entry| entry.nickname().to_owned());
                self.stage.ask(poll, nickname)?;
                self.tell_lesson();
                self.follow_question();
            }
            Control::ClosePoll => {
                self.stage.close()?;
                self.tell_lesson();
                self.follow_question();
            }
            Control::Architecture { name, april_block, initial_weights } => {
                self.begin_with(&name, april_block, initial_weights)?;
            }
            Control::TestPicture { client } => self.test_picture(client)?,
            Control::Careful { on } => self.set_careful(on),
            Control::Fish { class } => self.fish(class)?,
            Control::ForgetCandidate => self.attacks.forget_candidate(),
            Control::Partition { partition } => self.choose_partition(partition)?,
            Control::Model { initial_weights } => self.begin_from(initial_weights)?,
            Control::EvaluationBudget { seconds } => {
                let line = self.measuring.set_budget(seconds)?;
                self.say(line);
            }
        }
        Ok(())
    }

    fn control_together(&mut self, controls: Vec<Control>) -> Result<(), ControlError> {
        self.feed(Event::BeginNothing(true));
        let done = controls.into_iter().try_for_each(|control| match control {
            Control::NewKey => Err(ControlError::Alone { what: "new_key" }),
            Control::Collude { passphrase: Some(_) } => Err(ControlError::Alone { what: "collude" }),
            Control::Together { .. } => Err(ControlError::Nested),
            Control::TrainOn { pictures } if self.has_pictures(pictures) => self.choose_pictures(pictures),
            Control::TrainOn { .. } => {
                Err(ControlError::Alone { what: "train_on before the shared pictures are loaded" })
            }
            control => {
                let is_scene = matches!(control, Control::Lesson { .. });
                let done = self.control(control);
                // Everybody sees the new scene while the room follows.
                if is_scene {
                    self.publish();
                }
                done
            }
        });
        self.feed(Event::BeginNothing(false));
        done
    }

    pub(super) fn teacher(&mut self, what: &str, event: Event) {
        self.say(format!("The teacher {what}."));
        self.feed(event);
    }

    /// Restarts with pretrained weights or from scratch; later resets do the same.
    fn begin_from(&mut self, initial_weights: InitialWeights) -> Result<(), ControlError> {
        self.initialiser.check(initial_weights, self.coming_architecture())?;
        self.initialiser.choose(initial_weights);
        self.reset(self.coming_architecture());
        Ok(())
    }

    /// Restarts with another model; later resets keep it.
    fn begin_with(
        &mut self,
        name: &str,
        april_block: bool,
        initial_weights: InitialWeights,
    ) -> Result<(), ControlError> {
        let name = name.to_owned();
        if !Architecture::names().any(|preset| preset == name) {
            return Err(BeginError::Unknown { name }.into());
        }
        let architecture = self
            .fitting(&name, april_block, initial_weights)
            .map_err(|source| BeginError::Unfit { name, source: Box::new(source) })?;
        self.initialiser.choose(initial_weights);
        self.host.expect(architecture);
        let block = if april_block { " with the April block" } else { "" };
        self.say(format!("The teacher chose the model {architecture}{block}."));
        if architecture.side() != self.room.model().architecture.side() {
            // The picture was resized for the previous model.
            self.attacks.forget_candidate();
        }
        self.reset(architecture);
        Ok(())
    }

    /// The named model, if the room can begin with it.
    fn fitting(
        &self,
        name: &str,
        april_block: bool,
        initial_weights: InitialWeights,
    ) -> Result<Architecture, UnfitModel> {
        let architecture = Architecture::named(name, self.coming_architecture().classes())?;
        if april_block && architecture.vit().is_none() {
            return Err(UnfitModel::NoBlock);
        }
        let architecture = architecture.with_april_block(april_block);
        self.room.coming().defence().check(architecture)?;
        if let Some(sum) = self.room.coming().aggregation().secure_sum() {
            sum.check_model(architecture)?;
        }
        self.initialiser.check(initial_weights, architecture)?;
        memory::check(&self.config, architecture)?;
        Ok(architecture)
    }

    pub(super) fn tell_lesson(&mut self) {
        if let Some(message) = OutboxMessage::encode(&RelayMessage::Lesson(self.stage.state()), &[]) {
            self.put_to_all(Slot::Lesson, &message);
        }
    }

    fn reset(&mut self, architecture: Architecture) {
        let initial_weights = self.begin_again(architecture);
        let what = match initial_weights {
            InitialWeights::Scratch => "from scratch",
            InitialWeights::Pretrained => "with pretrained weights",
        };
        self.say(format!("The teacher reset the model; it begins {what}."));
        self.end_fishing();
    }

    /// Gives the class a new model, and returns what it begins with.
    pub(super) fn begin_again(&mut self, architecture: Architecture) -> InitialWeights {
        let (model, initial_weights) = self.fresh_model(architecture);
        self.outer.fail(NoContribution::BegunAgain);
        self.timers.end();
        self.task = None;
        self.feed(Event::Reset(model));
        self.forget_earlier_model();
        self.attacks.keep_keys(None);
        initial_weights
    }

    /// Changes the settings from the next round on, and logs the consequences.
    fn choose(
        &mut self,
        what: &str,
        change: impl FnOnce(RoundSettings) -> Result<RoundSettings, SettingsError>,
    ) -> Result<(), ControlError> {
        let before = self.room.coming();
        let settings = change(before)?;
        settings.defence().check(self.coming_architecture())?;
        if let Some(sum) = settings.aggregation().secure_sum() {
            sum.check_model(self.coming_architecture())?;
        }
        let follows = (settings != before).then(|| self.what_follows(&settings)).flatten().unwrap_or_default();
        self.teacher(&format!("chose {what} from the next round on{follows}"), Event::SetSettings(settings));
        Ok(())
    }

    /// Says which other changes the settings cause.
    fn what_follows(&self, settings: &RoundSettings) -> Option<&'static str> {
        let begins_anew = self.room.needs_new_model(settings);
        let comes_from_encryption = self.room.settings().encryption().is_some();
        match settings.encryption() {
            None if begins_anew => {
                Some("; the model begins with new weights, since the relay cannot decrypt the old ones")
            }
            None => None,
            Some(EncryptionStart::Plain) if begins_anew && comes_from_encryption => Some(
                "; the model begins with new weights, since the relay does not know the old ones, and a client \
                 encrypts them first",
            ),
            Some(EncryptionStart::Plain) => Some("; a client encrypts the model first"),
            Some(EncryptionStart::Keyed) => Some(
                "; the model begins with new weights, which a client makes and encrypts, so that the relay never sees \
                 them",
            ),
        }
    }

    fn choose_block(&mut self, on: bool) -> Result<(), ControlError> {
        let architecture = self.coming_architecture();
        if architecture.vit().is_none() {
            return Err(BeginError::NoBlock { architecture }.into());
        }
        if architecture.april_block() == on {
            return Ok(());
        }
        let architecture = architecture.with_april_block(on);
        // The choice goes back to the current model, and no weights were made for another one.
        let is_back = self.room.next_model().is_none() && architecture == self.room.model().architecture;
        self.initialiser.set_next((!is_back).then_some(architecture));
        let what = if on { "the April block" } else { "the standard block" };
        let is_pretrained = self.initialiser.chosen() == InitialWeights::Pretrained;
        let follows = match self.initialiser.title(architecture) {
            _ if is_back => "",
            Some(_) if is_pretrained => ", with pretrained weights",
            None if is_pretrained => ", with new weights from scratch: the pretrained ones are of the other block",
            _ => ", with new weights",
        };
        self.say(format!("The teacher chose {what} from the next round on{follows}."));
        self.settle();
        Ok(())
    }

    /// Derives a key on another thread, because the password hash is slow on purpose.
    pub(super) fn derive_key(&mut self, passphrase: String, reply: Answer) {
        let Some(seal) = self.room.seal().copied() else {
            return reply.send(Err(AttacksError::from(GivenKeyError::NotEncrypted).into()));
        };
        let architecture = self.room.model().architecture;
        self.host.start(Work::new("key", move |outside| {
            let key = GivenKey::derive(&passphrase, &seal, architecture);
            outside.tell(Input::KeyDerived { key, reply });
        }));
    }

    pub(super) fn take_key(&mut self, key: Result<GivenKey, GivenKeyError>) -> Result<(), ControlError> {
        let line = self.attacks.take_key(key, self.room.seal())?;
        self.say(line);
        Ok(())
    }

    pub(super) fn take_candidate(&mut self, picture: CandidatePicture) -> Result<(), ControlError> {
        let line = self.attacks.take_candidate(picture, self.room.model().architecture.side())?;
        self.say(line);
        Ok(())
    }

    /// Chooses the pictures that rounds train on. Shared pictures that are not in memory yet are first loaded on
    /// another thread.
    pub(super) fn train_on(&mut self, train_on: TrainOn, reply: Answer) {
        if self.has_pictures(train_on) {
            return reply.send(self.choose_pictures(train_on));
        }
        let load = self.sharing.loading();
        self.host.start(Work::new("data set", move |outside| {
            let data_set = load();
            outside.tell(Input::DataSetLoaded { data_set, reply });
        }));
    }

    /// Takes the requested data set and trains on it from the next round on.
    pub(super) fn set_data_set(&mut self, data_set: Result<Box<SharedDataSet>, LoadError>) -> Result<(), ControlError> {
        self.sharing.loaded(data_set.map_err(SharingError::from)?);
        self.choose_pictures(TrainOn::Shared)
    }

    fn has_pictures(&self, train_on: TrainOn) -> bool {
        train_on == TrainOn::Private || self.sharing.data_set().is_some()
    }

    fn choose_pictures(&mut self, train_on: TrainOn) -> Result<(), ControlError> {
        let (pictures, what) = self.sharing.choose(train_on, self.coming_architecture().classes())?;
        let settings = self.room.coming().with_pictures(pictures);
        self.teacher(&format!("has rounds train on {what} from the next one on"), Event::SetSettings(settings));
        Ok(())
    }

    fn choose_partition(&mut self, partition: Partition) -> Result<(), ControlError> {
        let coming = self.room.coming();
        let line = format!("divides the shared pictures differently from the next round on: {partition}");
        match self.sharing.choose_partition(partition, coming.pictures())? {
            Some(pictures) => self.teacher(&line, Event::SetSettings(coming.with_pictures(pictures))),
            None => self.say(format!("The teacher {line}.")),
        }
        Ok(())
    }

    /// The model from the next round on.
    pub(super) fn coming_architecture(&self) -> Architecture {
        self.initialiser.next().or_else(|| self.room.next_model()).unwrap_or(self.room.model().architecture)
    }

    pub(super) fn begins_anew(&self) -> bool {
        self.initialiser.next().is_some()
            || self.room.next_model().is_some()
            || self.room.needs_new_model(&self.room.coming())
    }

    pub(super) fn may_begin(&self, event: &Event) -> bool {
        if self.room.begins_nothing() && !matches!(event, Event::BeginNothing(false)) {
            return false;
        }
        match self.room.phase() {
            RoomPhase::Training | RoomPhase::Sealing => false,
            RoomPhase::Waiting => true,
            RoomPhase::Paused | RoomPhase::Between => matches!(event, Event::Start | Event::OneRound | Event::Begin),
        }
    }

    /// Makes the new weights that the next round needs. Waits until a round may begin: a choice reverted before then
    /// costs nothing, and a running round already holds enough models in memory.
    pub(super) fn make_weights(&mut self) {
        if self.initialiser.next().is_none() && !self.room.needs_new_model(&self.room.coming()) {
            return;
        }
        let (model, _) = self.fresh_model(self.coming_architecture());
        self.outer.fail(NoContribution::BegunAgain);
        self.handle(Event::SetModel(model));
    }

    fn fresh_model(&mut self, architecture: Architecture) -> (GlobalModel, InitialWeights) {
        let seed = self.randomness.seed();
        self.initialiser.begin(architecture, seed)
    }

    /// Applies choices immediately while a client encrypts the model, because no round is running.
    pub(super) fn settle(&mut self) {
        if self.room.phase() == RoomPhase::Sealing && !self.room.begins_nothing() {
            self.make_weights();
        }
    }
}
