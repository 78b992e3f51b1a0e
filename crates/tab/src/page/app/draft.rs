//! What a student has chosen before joining: nickname, private picture, label.
//!
//! A lesson or a test can fill it in by the address: `/?nickname=lucky+otter&image=astronaut&label=cat&join=1` proposes
//! that nickname, fetches that sample, chooses that class (a name or its number) and joins at once. `device=cpu` or
//! `device=webgpu` overrules the measurement of which is faster. Each part may be left out; `join=1` needs an image.
//! A passphrase is taken from the fragment alone, as in `#passphrase=blue%20whale`, which no browser sends to a server, and
//! is taken out of the address at once.

use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{File, UrlSearchParams};

use super::{
    api,
    comeback::{self, Comeback},
    picture::{self, Picture},
    trainer::Trainer,
};
use crate::{
    page::{
        address,
        classes::{self, Sample, label, sample},
        names,
    },
    protocol::{DeviceChoice, ToWorker},
};

const NICKNAME_KEY: &str = "unmask-nickname";

/// What the student has chosen so far; it outlives the form, so that leaving the room loses nothing.
#[derive(Clone, Copy)]
pub struct Draft {
    /// The nickname as typed.
    pub nickname: RwSignal<String>,
    /// The picture.
    pub picture: RwSignal<Option<Picture>>,
    /// Name of the sample chosen, if the picture is one.
    pub sample: RwSignal<Option<&'static str>>,
    /// Its class, a place in `classes`.
    pub label: RwSignal<u8>,
    /// Names of the room's classes for photographs.
    pub classes: RwSignal<Vec<String>>,
    /// The room's passphrase as typed; it is kept in this tab's memory alone.
    pub passphrase: RwSignal<String>,
    /// The device to train on.
    device: RwSignal<DeviceChoice>,
    /// Who was in the room before this page was loaded anew; their ticket is used by the next join.
    pub comeback: RwSignal<Option<Comeback>>,
    /// Why the last choice did not work.
    pub problem: RwSignal<Option<String>>,
    /// Number of the last choice; one that was overtaken by another is dropped.
    choice: StoredValue<u32>,
}

impl Draft {
    /// Nothing chosen yet; the nickname of last time, else a friendly one.
    pub fn new() -> Self {
        let remembered = window().local_storage().ok().flatten().and_then(|storage| {
            storage.get_item(NICKNAME_KEY).ok().flatten().filter(|nickname| !nickname.trim().is_empty())
        });
        Self {
            nickname: RwSignal::new(remembered.unwrap_or_else(friendly)),
            picture: RwSignal::new(None),
            sample: RwSignal::new(None),
            label: RwSignal::new(0),
            classes: RwSignal::new(classes::of_photographs(None)),
            passphrase: RwSignal::new(String::new()),
            device: RwSignal::new(DeviceChoice::Auto),
            comeback: RwSignal::new(None),
            problem: RwSignal::new(None),
            choice: StoredValue::new(0),
        }
    }

    /// Fills in what the address asks for, and joins if it says so; otherwise what was chosen before this page was loaded
    /// anew.
    pub fn begin(self, trainer: Trainer) {
        if let Some(passphrase) = api::take_passphrase() {
            self.passphrase.set(passphrase);
        }
        let search = window().location().search().unwrap_or_default();
        let query = UrlSearchParams::new_with_str(&search).ok();
        let asked = |name: &str| query.as_ref().and_then(|query| query.get(name));
        if let Some(nickname) = asked("nickname").filter(|nickname| !nickname.trim().is_empty()) {
            self.nickname.set(shortened(&nickname));
        }
        self.device.set(DeviceChoice::from_query(asked("device").as_deref()));
        let (asked_image, asked_label) = (asked("image"), asked("label"));
        let joins = asked("join").is_some_and(|join| join == "1");
        spawn_local(async move {
            // Without an answer the usual ten stay; the worker will say what is wrong with the relay.
            if let Ok(room) = api::room().await {
                self.classes.set(classes::of_photographs(room.data.as_ref()));
            }
            if !self.come_back(&search).await {
                self.take_address(asked_image, asked_label).await;
            }
            if joins && self.picture.with_untracked(Option::is_some) {
                self.join(trainer);
            }
        });
    }

    /// Picture and label that the address asks for.
    async fn take_address(self, image: Option<String>, label_asked: Option<String>) {
        let known_label = label_asked.as_deref().and_then(|class| self.classes.with_untracked(|all| label(all, class)));
        if let Some(known) = known_label {
            self.label.set(known);
        }
        let known_image = image.as_deref().and_then(sample);
        if let Some(known) = known_image {
            self.take_sample(known, known_label).await;
        }
        if let (Some(asked), None) = (&label_asked, known_label) {
            self.problem
                .set(Some(format!("The address asks for the class “{asked}”, which is not one of the room’s.")));
        }
        if let (Some(asked), None) = (&image, known_image) {
            self.problem.set(Some(format!("The address asks for the sample “{asked}”, which is not in the gallery.")));
        }
    }

    /// Takes over what was chosen before this page was loaded anew. Says whether there was anything; an address that asks
    /// for something else has its way.
    async fn come_back(self, search: &str) -> bool {
        let Some(known) = comeback::read().filter(|known| known.search == search) else { return false };
        let Some(file) = known.file() else { return false };
        let choice = self.next_choice();
        let taken = picture::from_blob(&known.name, &file).await;
        // What cannot be read any more is chosen again.
        if choice != self.choice.get_value() || taken.is_err() {
            return false;
        }
        self.take(choice, taken);
        self.nickname.set(known.nickname.clone());
        self.label.set(known.label);
        self.comeback.set(Some(known));
        true
    }

    /// Says whether the sample is now the picture.
    pub async fn take_sample(self, sample: Sample, wanted_label: Option<u8>) -> bool {
        let choice = self.next_choice();
        let path = format!("/samples/{}", sample.file);
        let taken = match api::blob(&path).await {
            Ok(blob) => picture::from_blob(sample.name, &blob).await,
            Err(problem) => Err(problem),
        };
        let is_taken = self.take(choice, taken);
        if is_taken {
            self.sample.set(Some(sample.name));
            self.label.set(wanted_label.unwrap_or(sample.label));
        }
        is_taken
    }

    /// Takes a picture file.
    pub async fn take_file(self, file: File) {
        let choice = self.next_choice();
        let taken = picture::from_blob(&file.name(), &file).await;
        self.take(choice, taken);
    }

    /// A number for a choice that begins now.
    pub fn next_choice(self) -> u32 {
        self.choice.update_value(|choice| *choice += 1);
        self.choice.get_value()
    }

    /// Takes what came of choice number `choice`, unless another has overtaken it. Says whether it is the picture now.
    pub fn take(self, choice: u32, taken: Result<Picture, String>) -> bool {
        if choice != self.choice.get_value() {
            return false;
        }
        match taken {
            Ok(picture) => {
                self.problem.set(None);
                self.sample.set(None);
                self.picture.set(Some(picture));
                true
            }
            Err(problem) => {
                self.problem.set(Some(problem));
                false
            }
        }
    }

    /// Hands picture, label and nickname to the worker, or says what is missing.
    pub fn join(self, trainer: Trainer) {
        let nickname = shortened(&self.nickname.get_untracked());
        if nickname.is_empty() {
            self.problem.set(Some("Type a nickname, or let the page propose one.".to_owned()));
            return;
        }
        let Some(picture) = self.picture.get_untracked() else {
            self.problem.set(Some("Choose a picture first: a sample, a file or the camera.".to_owned()));
            return;
        };
        if let Ok(Some(storage)) = window().local_storage() {
            // Private windows may refuse; the nickname is then proposed anew next time.
            let _ = storage.set_item(NICKNAME_KEY, &nickname);
        }
        self.problem.set(None);
        let label = self.label.get_untracked();
        let ticket = self.comeback.try_update(Option::take).flatten().and_then(|known| known.ticket);
        comeback::remember(&nickname, label, &picture, &window().location().search().unwrap_or_default());
        let location = window().location();
        let socket = address::socket(&location.protocol().unwrap_or_default(), &location.host().unwrap_or_default());
        let search = location.search().unwrap_or_default();
        let query = UrlSearchParams::new_with_str(&search).ok();
        let device = DeviceChoice::from_query(query.and_then(|query| query.get("device")).as_deref());
        let passphrase = Some(self.passphrase.get_untracked()).filter(|passphrase| !passphrase.trim().is_empty());
        trainer.join(ToWorker::Join { socket, nickname, picture: picture.rgb(), label, device, passphrase, ticket });
    }
}

/// A nickname nobody has to think of.
pub fn friendly() -> String {
    names::nickname(js_sys::Math::random(), js_sys::Math::random())
}

fn shortened(nickname: &str) -> String {
    nickname.trim().chars().take(names::NICKNAME_LENGTH).collect::<String>().trim_end().to_owned()
}
