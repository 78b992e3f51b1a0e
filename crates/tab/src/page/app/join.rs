//! The form in which a student chooses a nickname, a private picture and its label.

use gloo_file::File;
use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;

use super::{
    camera::Camera,
    consent::Consent,
    fields::PassphraseField,
    files::FileButton,
    join_draft::{JoinDraft, suggested_nickname},
    picture::Picture,
    pixels::Pixels,
    saved_join,
    signals::part,
    trainer::Trainer,
};
use crate::page::{
    classes::{SAMPLES, Sample},
    nicknames::NICKNAME_LENGTH,
};

/// The form.
#[component]
pub fn JoinForm(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let on_file = Callback::new(move |file: File| spawn_local(draft.take_file(file)));
    let on_picture = Callback::new(move |taken: Result<Picture, String>| {
        let choice = draft.next_choice();
        draft.take(choice, taken);
    });
    let thumbnail = move |sample: Sample| {
        view! {
            <button
                type="button"
                class="thumb"
                data-testid=format!("sample-{}", sample.name)
                data-sample=sample.name
                aria-pressed=move || (draft.sample.get() == Some(sample.name)).to_string()
                on:click=move |_| spawn_local(draft.take_sample(sample, None))
            >
                <img src=format!("/samples/{}", sample.file) alt="" width="96" height="96"/>
                <span>{sample.name}</span>
            </button>
        }
    };
    let option = move |(place, class): (usize, String)| {
        view! {
            <option value=place.to_string() selected=move || usize::from(draft.label.get()) == place>
                {class}
            </option>
        }
    };
    view! {
        <section class="intro">
            <p>
                "This tab helps to train a shared image model, either on one of your pictures or on public ones that the relay hands out. Your picture stays on this device. Only an "
                <em>"update"</em>
                " of the model leaves it. The relay collects the updates and tries to reconstruct your picture from yours, and you can watch here whether it succeeds."
            </p>
        </section>
        <Rejoin draft trainer/>
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
                        maxlength=NICKNAME_LENGTH.to_string()
                        bind:value=draft.nickname
                    />
                    <button
                        type="button"
                        class="button"
                        data-testid="nickname-roll"
                        aria-label="Suggest another nickname"
                        title="Suggest another nickname"
                        on:click=move |_| draft.nickname.set(suggested_nickname())
                    >
                        "⟳"
                    </button>
                </div>
            </div>
            <fieldset class="card field">
                <legend><span class="step">"2"</span>"Private picture"</legend>
                <div class="picker">
                    <div class="preview">
                        <Pixels
                            picture=Signal::derive(part(draft.picture, |picture| picture.pixels.clone()))
                            label="The chosen picture"
                            class="photo"
                        />
                        <p class="caption" data-testid="picture-name">
                            {move || part(draft.picture, |picture| picture.name.clone())().unwrap_or("no picture yet".to_owned())}
                        </p>
                    </div>
                    <div class="sources">
                        <div class="gallery" role="group" aria-label="Sample photographs">
                            {SAMPLES.into_iter().map(thumbnail).collect_view()}
                        </div>
                        <div class="row">
                            <FileButton title="Choose a file" testid="file" on_file/>
                            <Camera on_picture on_file/>
                        </div>
                        <p class="hint">"PNG, JPEG, WebP, GIF or AVIF, up to 64 megapixels. The square in the middle is used."</p>
                        <Consent draft/>
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
                    {move || draft.classes.get().into_iter().enumerate().map(option).collect_view()}
                </select>
                <p class="hint">"The class that the model should learn for it. If none fits, choose the nearest: what leaks does not depend on it."</p>
            </div>
            <div class="card field">
                <label for="passphrase"><span class="step">"4"</span>"Passphrase"<span class="optional">" optional"</span></label>
                <PassphraseField id="passphrase" value=draft.passphrase/>
                <p class="hint">"Only needed if the teacher announces an encrypted round. It never leaves this tab."</p>
            </div>
            <div class="join-end">
                <p class="problem" role="alert" data-testid="problem">{move || draft.problem.get()}</p>
                <button type="submit" class="button accent large" data-testid="join">"Join"</button>
            </div>
        </form>
    }
}

/// One tap back into the room, after this page was reloaded.
#[component]
fn Rejoin(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    view! {
        <Show when=move || draft.saved.with(Option::is_some)>
            <section class="card rejoin">
                <Pixels
                    picture=Signal::derive(part(draft.picture, |picture| picture.pixels.clone()))
                    label="Your private picture"
                    class="photo"
                />
                <div>
                    <h2>{part(draft.saved, |saved| format!("You were here as {}", saved.nickname))}</h2>
                    <p class="sub">"This tab kept your nickname and picture. Nobody else has them."</p>
                </div>
                <div class="row">
                    <button type="button" class="button accent large" data-testid="rejoin" on:click=move |_| draft.join(trainer)>
                        "Rejoin"
                    </button>
                    <button
                        type="button"
                        class="button"
                        data-testid="start-anew"
                        on:click=move |_| {
                            saved_join::forget();
                            draft.saved.set(None);
                        }
                    >
                        "Join as someone else"
                    </button>
                </div>
            </section>
        </Show>
    }
}
