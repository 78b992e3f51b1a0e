//! What the room's model says of a picture of the student's choice.

use gloo_file::File;
use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::DragEvent;

use super::{
    camera::Camera,
    fields::{Bar, Bars},
    files::{FileButton, dropped_file, keep_page},
    join_draft::JoinDraft,
    picture::{self, Picture},
    pixels::Pixels,
    signals::{optional, part},
    trainer::Trainer,
};
use crate::{
    page::{classes, words},
    protocol::Prediction,
};

/// A picture, and the classes that the model finds most probable. `draft` has the private picture, which can be asked about
/// too, and the names of the classes.
#[component]
pub fn Classify(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let tried = RwSignal::new(None::<Picture>);
    let problem = RwSignal::new(None::<String>);
    let is_over = RwSignal::new(false);
    let take = move |taken: Result<Picture, String>| match taken {
        Ok(picture) => {
            problem.set(None);
            trainer.classify(picture.pixels.clone());
            tried.set(Some(picture));
        }
        Err(reason) => problem.set(Some(reason)),
    };
    let on_file = Callback::new(move |file: File| {
        spawn_local(async move { take(picture::from_blob(&file.name(), &file).await) });
    });
    let on_picture = Callback::new(take);
    keep_page();
    let prediction = Signal::derive(optional(trainer.prediction, |prediction| prediction.as_ref().ok().cloned()));
    let failure = optional(trainer.prediction, |prediction| prediction.as_ref().err().cloned());
    let failure = move || problem.get().or_else(failure);
    let waiting = move || {
        if tried.with(Option::is_none) || trainer.prediction.with(Option::is_some) {
            None
        } else if trainer.training.with(Option::is_none) {
            Some("The room’s model comes with the first round. Your picture waits for it.")
        } else if trainer.is_busy.get() {
            Some("Waiting for this round’s step to end…")
        } else {
            Some("Asking the model…")
        }
    };
    let input = optional(prediction, |prediction: &Prediction| prediction.input.clone());
    let shared_classes = part(trainer.shard, |shard| shard.classes.clone());
    let names = move |prediction: &Prediction| {
        if prediction.is_shared { shared_classes().unwrap_or_default() } else { draft.classes.get() }
    };
    let headline = optional(prediction, move |prediction| {
        let &(first, probability) = prediction.best.first()?;
        Some(words::prediction(&classes::name(&names(prediction), first), probability))
    });
    let bars = part(prediction, move |prediction| {
        let names = names(prediction);
        let bar = |&(label, probability): &(usize, f32)| Bar {
            name: classes::name(&names, label),
            share: probability.into(),
            text: words::percent(probability),
            is_found: false,
        };
        prediction.best.iter().map(bar).collect::<Vec<_>>()
    });
    view! {
        <section
            class="panel try"
            class:over=move || is_over.get()
            data-testid="try"
            on:dragover=move |_| is_over.set(true)
            on:dragleave=move |_| is_over.set(false)
            on:drop=move |event: DragEvent| {
                event.prevent_default();
                is_over.set(false);
                if let Some(file) = dropped_file(&event) {
                    on_file.run(file);
                }
            }
        >
            <h2>"Try your own picture"</h2>
            <p class="panel-summary">
                "Ask the room’s model what a picture shows. The answer is computed here: the picture does not leave this device, and nobody else sees the answer."
            </p>
            <div class="row">
                <button
                    type="button"
                    class="button"
                    data-testid="try-private"
                    on:click=move |_| {
                        if let Some(picture) = draft.picture.get_untracked() {
                            take(Ok(picture));
                        }
                    }
                >
                    "My private picture"
                </button>
                <FileButton title="Choose a file" testid="try-file" on_file/>
                <Camera on_picture on_file/>
                <span class="sub wide-only">"or drop one here"</span>
            </div>
            <p class="problem" role="alert" data-testid="try-problem" hidden=move || failure().is_none()>{failure}</p>
            <p class="sub" role="status" data-testid="try-waiting" hidden=move || waiting().is_none()>{waiting}</p>
            <div class="tried" hidden=move || tried.with(Option::is_none)>
                <div class="pair">
                    <figure>
                        <Pixels
                            picture=Signal::derive(part(tried, |picture| picture.pixels.clone()))
                            label="The picture to try"
                            class="tried-picture"
                        />
                        <figcaption>{part(tried, |picture| picture.name.clone())}</figcaption>
                    </figure>
                    <figure hidden=move || input().is_none()>
                        <Pixels picture=Signal::derive(input) label="The same as the model sees it" class="photo"/>
                        <figcaption>"as the model sees it"</figcaption>
                    </figure>
                </div>
                <div
                    data-testid="try-answer"
                    data-after=part(prediction, |prediction| prediction.after.to_string())
                    data-shared=part(prediction, |prediction| prediction.is_shared.to_string())
                    hidden=move || prediction.with(Option::is_none)
                >
                    <p class="verdict-line">{headline}</p>
                    <Bars rows=Signal::derive(move || bars().unwrap_or_default()) testid="try-class"/>
                    <p class="sub">{part(prediction, |prediction| words::model_asked(prediction.after, prediction.classes))}</p>
                </div>
            </div>
        </section>
    }
}
