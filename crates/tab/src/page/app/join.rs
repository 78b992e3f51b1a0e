//! The form in which a student chooses a nickname, a private picture and its label.

use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::File;

use super::{
    camera::Camera,
    comeback,
    draft::{Draft, friendly},
    files::FileButton,
    picture::Picture,
    pixels::Pixels,
    secret::SecretInput,
    trainer::Trainer,
};
use crate::page::{classes::SAMPLES, names};

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
                "This tab helps to train a shared image model, on one picture of yours or on public ones that the relay hands out. Your picture stays on this device, and only an "
                <em>"update"</em>
                " of the model leaves it. The relay that collects the updates will try to see your picture in yours, and here you can watch whether it succeeds."
            </p>
        </section>
        <ComeBack draft trainer/>
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
                            <FileButton title="Choose a file" testid="file" on_file/>
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
                    {move || {
                        let option = |(place, class): (usize, String)| {
                            view! {
                                <option value=place.to_string() selected=move || usize::from(draft.label.get()) == place>
                                    {class}
                                </option>
                            }
                        };
                        draft.classes.get().into_iter().enumerate().map(option).collect_view()
                    }}
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

/// One tap back into the room, after this page was loaded anew.
#[component]
fn ComeBack(draft: Draft, trainer: Trainer) -> impl IntoView {
    let known = move || draft.comeback.get();
    view! {
        <Show when=move || draft.comeback.with(Option::is_some)>
            <section class="card comeback" data-testid="comeback">
                <Pixels
                    picture=Signal::derive(move || draft.picture.get().map(|picture| picture.pixels))
                    label="Your private picture"
                    class="photo"
                />
                <div>
                    <h2>{move || known().map(|known| format!("You were here as {}", known.nickname))}</h2>
                    <p class="sub">"Nickname and picture were kept in this tab, and nowhere else."</p>
                </div>
                <div class="row">
                    <button type="button" class="button accent large" data-testid="rejoin" on:click=move |_| draft.join(trainer)>
                        "Come back"
                    </button>
                    <button
                        type="button"
                        class="button"
                        data-testid="start-anew"
                        on:click=move |_| {
                            comeback::forget();
                            draft.comeback.set(None);
                        }
                    >
                        "Join as somebody else"
                    </button>
                </div>
            </section>
        </Show>
    }
}
