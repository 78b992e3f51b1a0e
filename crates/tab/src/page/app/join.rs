//! The form in which a student chooses a nickname, a private picture and its label.
//!
//! A lesson or a test can fill it in by the address: `/?nickname=lucky+otter&image=astronaut&label=cat&join=1` proposes
//! that nickname, fetches that sample, chooses that class (a name or its number) and joins at once. `device=cpu` or
//! `device=webgpu` overrules the measurement of which is faster. Each part may be left out; `join=1` needs an image.
//! A passphrase is taken from the fragment alone, as in `#passphrase=blue%20whale`, which no browser sends to a server, and
//! is taken out of the address at once.

use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{File, HtmlInputElement, UrlSearchParams};

use super::{
    api,
    camera::Camera,
    picture::{self, Picture},
    pixels::Pixels,
    secret::SecretInput,
    trainer::Trainer,
};
use crate::{
    page::{
        address,
        classes::{CLASSES, SAMPLES, Sample, label, sample},
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
    sample: RwSignal<Option<&'static str>>,
    /// Its class, a place in [`CLASSES`].
    pub label: RwSignal<u8>,
    /// The room's passphrase as typed; it is kept in this tab's memory alone.
    pub passphrase: RwSignal<String>,
    /// The device to train on.
    device: RwSignal<DeviceChoice>,
    /// Why the last choice did not work.
    problem: RwSignal<Option<String>>,
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
            passphrase: RwSignal::new(String::new()),
            device: RwSignal::new(DeviceChoice::Auto),
            problem: RwSignal::new(None),
            choice: StoredValue::new(0),
        }
    }

    /// Fills in what the address asks for, and joins if it says so.
    pub fn read_address(self, trainer: Trainer) {
        if let Some(passphrase) = api::take_passphrase() {
            self.passphrase.set(passphrase);
        }
        let search = window().location().search().unwrap_or_default();
        let Ok(query) = UrlSearchParams::new_with_str(&search) else { return };
        if let Some(nickname) = query.get("nickname").filter(|nickname| !nickname.trim().is_empty()) {
            self.nickname.set(shortened(&nickname));
        }
        self.device.set(DeviceChoice::from_query(query.get("device").as_deref()));
        let asked_label = query.get("label");
        let known_label = asked_label.as_deref().and_then(label);
        if let Some(known) = known_label {
            self.label.set(known);
        }
        let asked_image = query.get("image");
        let joins = query.get("join").is_some_and(|join| join == "1");
        let known_image = asked_image.as_deref().and_then(sample);
        if let Some(known) = known_image {
            spawn_local(async move {
                if self.take_sample(known, known_label).await && joins {
                    self.join(trainer);
                }
            });
        }
        if let (Some(asked), None) = (&asked_label, known_label) {
            self.problem.set(Some(format!("The address asks for the class “{asked}”, which is not among the ten.")));
        }
        if let (Some(asked), None) = (&asked_image, known_image) {
            self.problem.set(Some(format!("The address asks for the sample “{asked}”, which is not in the gallery.")));
        }
    }

    /// Says whether the sample is now the picture.
    async fn take_sample(self, sample: Sample, wanted_label: Option<u8>) -> bool {
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

    async fn take_file(self, file: File) {
        let choice = self.next_choice();
        let taken = picture::from_blob(&file.name(), &file).await;
        self.take(choice, taken);
    }

    fn next_choice(self) -> u32 {
        self.choice.update_value(|choice| *choice += 1);
        self.choice.get_value()
    }

    fn take(self, choice: u32, taken: Result<Picture, String>) -> bool {
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
    fn join(self, trainer: Trainer) {
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
        let location = window().location();
        let socket = address::socket(&location.protocol().unwrap_or_default(), &location.host().unwrap_or_default());
        let search = location.search().unwrap_or_default();
        let query = UrlSearchParams::new_with_str(&search).ok();
        let device = DeviceChoice::from_query(query.and_then(|query| query.get("device")).as_deref());
        let label = self.label.get_untracked();
        let passphrase = Some(self.passphrase.get_untracked()).filter(|passphrase| !passphrase.trim().is_empty());
        trainer.join(ToWorker::Join { socket, nickname, picture: picture.rgb(), label, device, passphrase });
    }
}

fn friendly() -> String {
    names::nickname(js_sys::Math::random(), js_sys::Math::random())
}

fn shortened(nickname: &str) -> String {
    nickname.trim().chars().take(names::NICKNAME_LENGTH).collect::<String>().trim_end().to_owned()
}

/// The form.
#[component]
pub fn JoinForm(
    /// What is chosen.
    draft: Draft,
    /// Who gets it.
    trainer: Trainer,
) -> impl IntoView {
    let on_file = Callback::new(move |file: File| spawn_local(draft.take_file(file)));
    let on_picture = Callback::new(move |taken: Result<Picture, String>| {
        let choice = draft.next_choice();
        if draft.take(choice, taken) {
            draft.sample.set(None);
        }
    });
    let chosen = move || draft.picture.get().map(|picture| picture.pixels);
    view! {
        <section class="intro">
            <p>
                "This tab helps to train a shared image model on one picture of yours: the picture stays on this device, and only an "
                <em>"update"</em>
                " of the model leaves it. The relay that collects the updates will try to see your picture in yours, and here you can watch whether it succeeds."
            </p>
        </section>
        <form
            class="join"
            on:submit=move |event| {
                event.prevent_default();
                draft.join(trainer);
            }
        >
            <div class="card field">
                <label for="nickname"><span class="step">"1"</span>"Nickname"</label>
                <div class="row">
                    <input
                        id="nickname"
                        data-testid="nickname"
                        autocomplete="off"
                        maxlength=names::NICKNAME_LENGTH.to_string()
                        bind:value=draft.nickname
                    />
                    <button
                        type="button"
                        class="button"
                        data-testid="nickname-roll"
                        aria-label="Propose another nickname"
                        title="Propose another nickname"
                        on:click=move |_| draft.nickname.set(friendly())
                    >
                        "⟳"
                    </button>
                </div>
            </div>
            <fieldset class="card field">
                <legend><span class="step">"2"</span>"Private picture"</legend>
                <div class="picker">
                    <div class="preview">
                        <Pixels picture=Signal::derive(chosen) label="The chosen picture" class="photo"/>
                        <p class="caption" data-testid="picture-name">
                            {move || {
                                draft.picture.with(|picture| match picture {
                                    Some(picture) => picture.name.clone(),
                                    None => "nothing chosen yet".to_owned(),
                                })
                            }}
                        </p>
                    </div>
                    <div class="sources">
                        <div class="gallery" role="group" aria-label="Sample photographs">
                            {SAMPLES
                                .into_iter()
                                .map(|sample| {
                                    view! {
                                        <button
                                            type="button"
                                            class="thumb"
                                            data-testid=format!("sample-{}", sample.name)
                                            data-sample=sample.name
                                            aria-pressed=move || (draft.sample.get() == Some(sample.name)).to_string()
                                            on:click=move |_| {
                                                spawn_local(async move {
                                                    draft.take_sample(sample, None).await;
                                                });
                                            }
                                        >
                                            <img src=format!("/samples/{}", sample.file) alt="" width="96" height="96"/>
                                            <span>{sample.name}</span>
                                        </button>
                                    }
                                })
                                .collect_view()}
                        </div>
                        <div class="row">
                            <label class="button file-button">
                                "Choose a file"
                                <input
                                    type="file"
                                    accept="image/png,image/jpeg,image/webp"
                                    data-testid="file"
                                    on:change=move |event| {
                                        let input: HtmlInputElement = event_target(&event);
                                        if let Some(file) = input.files().and_then(|files| files.get(0)) {
                                            on_file.run(file);
                                        }
                                        input.set_value("");
                                    }
                                />
                            </label>
                            <Camera on_picture on_file/>
                        </div>
                        <p class="hint">"PNG, JPEG or WebP, up to 64 megapixels; the square in the middle is used."</p>
                    </div>
                </div>
            </fieldset>
            <div class="card field">
                <label for="label"><span class="step">"3"</span>"What it shows"</label>
                <select
                    id="label"
                    data-testid="label"
                    prop:value=move || draft.label.get().to_string()
                    on:change=move |event| {
                        if let Ok(label) = event_target_value(&event).parse() {
                            draft.label.set(label);
                        }
                    }
                >
                    {CLASSES
                        .into_iter()
                        .enumerate()
                        .map(|(place, class)| {
                            view! {
                                <option value=place.to_string() selected=move || usize::from(draft.label.get()) == place>
                                    {class}
                                </option>
                            }
                        })
                        .collect_view()}
                </select>
                <p class="hint">"The class that the model is to learn for it. If none fits, take the nearest: what leaks does not depend on it."</p>
            </div>
            <div class="card field">
                <label for="passphrase"><span class="step">"4"</span>"Passphrase"<span class="optional">" optional"</span></label>
                <SecretInput id="passphrase" testid="passphrase" value=draft.passphrase/>
                <p class="hint">"Only needed if the teacher announces an encrypted round. It never leaves this tab."</p>
            </div>
            <div class="join-end">
                <p class="problem" role="alert" data-testid="problem">{move || draft.problem.get()}</p>
                <button type="submit" class="button accent large" data-testid="join">"Join"</button>
            </div>
        </form>
    }
}
