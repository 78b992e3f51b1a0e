//! A student's choices before joining: nickname, private picture, label.
//!
//! A lesson or a test can fill them in by the address: `/?nickname=lucky+otter&image=astronaut&label=cat&join=1`
//! proposes that nickname, fetches that sample, chooses that class (a name or its number) and joins immediately.
//! `device=cpu` or `device=webgpu` overrides the measurement of which is faster. Each part is optional; `join=1` needs
//! an image and waits until the relay admits the page. A passphrase is read only from the fragment, as in
//! `#passphrase=blue%20whale`, which browsers do not send to a server, and is removed from the address immediately.

use gloo_file::File;
use leptos::prelude::*;
use unmask_wire::view::SessionView;
use unmask_words::say;
use wasm_bindgen_futures::spawn_local;
use web_sys::UrlSearchParams;

use super::{
    pixels,
    saved::{SavedJoin, encoded},
    trainer::Trainer,
};
use crate::{
    page::{
        logic::names::{self, NICKNAME_LENGTH, Sample},
        widgets::{api, picture::Picture, relay},
    },
    protocol::{DeviceChoice, ToWorker},
};

const NICKNAME_KEY: &str = "unmask-nickname";

/// The student's choices. They outlive the form, so that leaving the room loses nothing.
#[derive(Clone, Copy)]
pub struct JoinDraft {
    /// As typed.
    pub nickname: RwSignal<String>,
    pub picture: RwSignal<Option<Picture>>,
    /// The name of the chosen sample, if the picture is one.
    pub sample: RwSignal<Option<&'static str>>,
    /// Whether the class may see what leaks from the student's own picture.
    pub may_show: RwSignal<bool>,
    /// Whether other phones may get the masked numbers of the student's own picture and attack them.
    pub may_lend: RwSignal<bool>,
    /// The picture's class, an index into `classes`.
    pub label: RwSignal<u8>,
    /// The names of the room's classes for photographs.
    pub classes: RwSignal<Vec<String>>,
    /// The SuperLink that also receives the class's weights, if the room is in a federation.
    pub superlink: RwSignal<Option<String>>,
    /// As typed; kept only in this tab's memory.
    pub passphrase: RwSignal<String>,
    device: RwSignal<DeviceChoice>,
    /// The person who was in the room before this page was reloaded. The next join uses their ticket.
    pub saved: RwSignal<Option<SavedJoin>>,
    /// What is wrong with the nickname, until it changes.
    pub nickname_problem: RwSignal<Option<String>>,
    /// Why the last choice of a picture failed, until one succeeds.
    pub picture_problem: RwSignal<Option<String>>,
    /// What is wrong with the address's label, until one is chosen.
    pub label_problem: RwSignal<Option<String>>,
    /// Whether a new picture is being read.
    pub is_reading: RwSignal<bool>,
    /// The number of the last choice. The result of an older one is dropped.
    choice: StoredValue<u32>,
}

impl JoinDraft {
    /// No choices yet, except the last nickname or a suggested one, and the address's passphrase.
    pub fn new() -> Self {
        let storage = window().local_storage().ok().flatten();
        let last = storage.and_then(|storage| storage.get_item(NICKNAME_KEY).ok().flatten());
        let last = last.filter(|nickname| !nickname.trim().is_empty());
        Self {
            nickname: RwSignal::new(last.unwrap_or_else(suggested_nickname)),
            picture: RwSignal::new(None),
            sample: RwSignal::new(None),
            may_show: RwSignal::new(false),
            may_lend: RwSignal::new(false),
            label: RwSignal::new(0),
            classes: RwSignal::new(names::photograph_classes(&[])),
            superlink: RwSignal::new(None),
            passphrase: RwSignal::new(api::take_passphrase().unwrap_or_default()),
            device: RwSignal::new(DeviceChoice::Auto),
            saved: RwSignal::new(None),
            nickname_problem: RwSignal::new(None),
            picture_problem: RwSignal::new(None),
            label_problem: RwSignal::new(None),
            is_reading: RwSignal::new(false),
            choice: StoredValue::new(0),
        }
    }

    /// Fills in the form from the address, or else from the time before a reload, and joins if the address says so.
    /// Call it once the relay has admitted this page; `session` says as whom.
    pub fn begin(self, session: &SessionView, trainer: Trainer) {
        self.classes.set(names::photograph_classes(&session.classes));
        self.superlink.set(session.superlink.clone());
        let search = search();
        let query = UrlSearchParams::new_with_str(&search).ok();
        let asked = |name: &str| query.as_ref().and_then(|query| query.get(name));
        if let Some(nickname) = asked("nickname").filter(|nickname| !nickname.trim().is_empty()) {
            self.nickname.set(shortened(&nickname));
        }
        self.device.set(DeviceChoice::from_query(asked("device").as_deref()));
        let (asked_image, asked_label) = (asked("image"), asked("label"));
        let joins = asked("join").is_some_and(|join| join == "1");
        spawn_local(async move {
            if !self.take_saved(&search).await {
                // Propose a picture, so that one tap suffices to join. A page that joins immediately uses only the
                // address's picture.
                self.take_address(asked_image, asked_label, !joins).await;
            }
            if joins && self.picture.with_untracked(Option::is_some) {
                self.join(trainer);
            }
        });
    }

    /// Whether the picture is the student's own rather than a sample.
    pub fn has_own_picture(self) -> bool {
        self.picture.with(Option::is_some) && self.sample.with(Option::is_none)
    }

    /// Forgets all of the student's choices, here and in the browser's storage, and suggests a new nickname.
    pub fn forget(self) {
        SavedJoin::forget();
        if let Ok(Some(storage)) = window().local_storage() {
            // This fails only if the browser stores nothing.
            let _ = storage.remove_item(NICKNAME_KEY);
        }
        self.nickname.set(suggested_nickname());
        self.picture.set(None);
        self.agree(false, false);
        self.label.set(self.classes.with_untracked(|all| names::proposed_label(all, "")));
        self.passphrase.set(String::new());
        self.saved.set(None);
        spawn_local(self.take_sample(proposed_sample(), None));
    }

    /// Whether the class may see what leaks from the picture. Samples are public.
    pub fn may_be_shown(self) -> bool {
        !self.has_own_picture() || self.may_show.get()
    }

    /// Sets both answers for the student's own picture. Nobody may attack numbers whose picture nobody may see.
    pub fn agree(self, may_show: bool, may_lend: bool) {
        self.may_show.set(may_show);
        self.may_lend.set(may_show && may_lend);
    }

    /// Takes the picture and label from the address. Without a picture there, proposes one if `proposes`.
    async fn take_address(self, image: Option<String>, class: Option<String>, proposes: bool) {
        let label =
            class.as_deref().and_then(|class| self.classes.with_untracked(|all| names::class_label(all, class)));
        if let Some(label) = label {
            self.label.set(label);
        }
        let sample = image.as_deref().and_then(names::sample);
        // The student may already have chosen one.
        let is_free = !self.is_reading.get_untracked() && self.picture.with_untracked(Option::is_none);
        let proposed = (image.is_none() && proposes && is_free).then(proposed_sample);
        if let Some(sample) = sample.or(proposed) {
            self.take_sample(sample, label).await;
        }
        if let (Some(class), None) = (&class, label) {
            self.label_problem.set(Some(say::join::no_class(class)));
        }
        if let (Some(image), None) = (&image, sample) {
            self.picture_problem.set(Some(say::join::no_sample(image)));
        }
    }

    /// Restores the choices from before a reload and returns whether there were any. An address that asks for something
    /// else takes precedence.
    async fn take_saved(self, search: &str) -> bool {
        let Some(saved) = SavedJoin::read().filter(|saved| saved.search == search) else { return false };
        self.nickname.set(saved.nickname.clone());
        let sample = saved.sample.as_deref().and_then(names::sample);
        match saved.picture() {
            Some(picture) => {
                self.take(self.next_choice(), Ok(picture));
                self.label.set(saved.label);
                self.sample.set(sample.map(|sample| sample.name));
                self.agree(saved.may_show, saved.may_lend);
            }
            // An earlier version of the page saved it in another form. A picture of one's own must be chosen again.
            None => self.take_sample(sample.unwrap_or_else(proposed_sample), sample.map(|_| saved.label)).await,
        }
        self.saved.set(Some(saved));
        true
    }

    /// Takes a sample with this label, or else with its proposed one.
    pub async fn take_sample(self, sample: Sample, label: Option<u8>) {
        let choice = self.next_choice();
        let taken = match api::file(&format!("samples/{}", sample.file)).await {
            Ok(file) => pixels::from_blob(sample.title(), &file).await,
            Err(problem) => Err(problem),
        };
        if self.take(choice, taken) {
            self.sample.set(Some(sample.name));
            let proposed = || self.classes.with_untracked(|all| names::proposed_label(all, sample.name));
            self.label.set(label.unwrap_or_else(proposed));
        }
    }

    pub async fn take_file(self, file: File) {
        let choice = self.next_choice();
        let taken = pixels::from_blob(&file.name(), &file).await;
        self.take(choice, taken);
    }

    /// Starts a new choice and returns its number.
    pub fn next_choice(self) -> u32 {
        self.is_reading.set(true);
        self.choice.update_value(|choice| *choice += 1);
        self.choice.get_value()
    }

    /// Takes the result of choice number `choice`, unless a newer one has started. Returns whether its picture is now
    /// in use.
    pub fn take(self, choice: u32, taken: Result<Picture, String>) -> bool {
        if choice != self.choice.get_value() {
            return false;
        }
        let (picture, problem) = match taken {
            Ok(picture) => (Some(picture), None),
            Err(problem) => (None, Some(problem)),
        };
        self.is_reading.set(false);
        self.picture_problem.set(problem);
        let is_taken = picture.is_some();
        if is_taken {
            self.sample.set(None);
            // Consent for one picture does not extend to another.
            self.agree(false, false);
            let name = picture.as_ref().map(|picture| picture.name.clone()).unwrap_or_default();
            self.label.set(self.classes.with_untracked(|all| names::proposed_label(all, &name)));
            self.picture.set(picture);
        }
        is_taken
    }

    /// Joins with the last choices, as the same client if the room still knows it.
    pub fn join_again(self, trainer: Trainer) {
        self.saved.set(SavedJoin::read());
        self.join(trainer);
    }

    /// Sends picture, label and nickname to the worker, or shows what is missing.
    pub fn join(self, trainer: Trainer) {
        let nickname = shortened(&self.nickname.get_untracked());
        if nickname.is_empty() {
            self.nickname_problem.set(Some(say::join::no_nickname().to_owned()));
            return;
        }
        let Some(picture) = self.picture.get_untracked() else {
            self.picture_problem.set(Some(say::join::no_picture().to_owned()));
            return;
        };
        if let Ok(Some(storage)) = window().local_storage() {
            // Private windows may refuse; next time another nickname is suggested.
            let _ = storage.set_item(NICKNAME_KEY, &nickname);
        }
        let (label, sample) = (self.label.get_untracked(), self.sample.get_untracked());
        let is_sample = sample.is_some();
        let (may_show, may_lend) =
            (is_sample || self.may_show.get_untracked(), is_sample || self.may_lend.get_untracked());
        let before = self.saved.try_update(Option::take).flatten();
        if let Some(before) = &before {
            trainer.recall_careful(before.careful);
        }
        let ticket = before.and_then(|saved| saved.ticket);
        let saved = SavedJoin {
            nickname: nickname.clone(),
            label,
            name: picture.name.clone(),
            sample: sample.map(str::to_owned),
            may_show,
            may_lend,
            careful: trainer.is_careful_by_choice(),
            picture: encoded(&picture),
            search: search(),
            ticket,
        };
        saved.write();
        let passphrase = Some(self.passphrase.get_untracked()).filter(|passphrase| !passphrase.trim().is_empty());
        let (picture, device) = (picture.pixels, self.device.get_untracked());
        trainer.join(ToWorker::Join {
            socket: relay::socket(),
            nickname,
            picture,
            label,
            device,
            may_show,
            may_lend,
            passphrase,
            ticket,
        });
    }
}

pub fn suggested_nickname() -> String {
    names::nickname(js_sys::Math::random(), js_sys::Math::random())
}

fn proposed_sample() -> Sample {
    names::proposed_sample(js_sys::Math::random())
}

fn search() -> String {
    window().location().search().unwrap_or_default()
}

fn shortened(nickname: &str) -> String {
    nickname.trim().chars().take(NICKNAME_LENGTH).collect::<String>().trim_end().to_owned()
}
