//! What the room's model says of a picture of the student's choice.

use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{DragEvent, File};

use super::{
    camera::Camera,
    draft::Draft,
    files::{FileButton, dropped_file, keep_page},
    picture::{self, Picture},
    pixels::Pixels,
    reports::Answered,
    trainer::Trainer,
};
use crate::{
    page::{classes, words},
    protocol::Answer,
};

/// A picture to try, and the classes that the model finds most probable.
#[component]
pub fn TryPicture(
    /// The private picture, which can be tried too, and the names of the classes.
    draft: Draft,
    /// Who asks the model.
    trainer: Trainer,
) -> impl IntoView {
    let tried = RwSignal::new(None::<Picture>);
    let problem = RwSignal::new(None::<String>);
    let is_over = RwSignal::new(false);
    let take = move |taken: Result<Picture, String>| match taken {
        Ok(picture) => {
            problem.set(None);
            trainer.ask(picture.rgb());
            tried.set(Some(picture));
        }
        Err(reason) => problem.set(Some(reason)),
    };
    let on_file = Callback::new(move |file: File| {
        spawn_local(async move { take(picture::from_blob(&file.name(), &file).await) });
    });
    let on_picture = Callback::new(take);
    keep_page();
    let answer = move |of: fn(&Answer) -> String| {
        move || trainer.answer.with(|answered| answered.as_ref().and_then(|it| it.answer.as_ref().ok().map(of)))
    };
    let failure = move || {
        problem.get().or_else(|| {
            trainer.answer.with(|answered| answered.as_ref().and_then(|it| it.answer.as_ref().err().cloned()))
        })
    };
    let waiting = move || {
        if tried.with(Option::is_none) || trainer.answer.with(Option::is_some) {
            None
        } else if trainer.plan.with(Option::is_none) {
            Some("The room’s model has not come yet: it comes with the first round. Your picture waits for it.")
        } else if trainer.is_busy.get() {
            Some("Waiting until this round’s step is done…")
        } else {
            Some("Asking the model…")
        }
    };
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
                "Ask the room’s model what a picture shows. It is computed here: the picture does not leave this device, and nobody else sees the answer."
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
                            picture=Signal::derive(move || tried.get().map(|picture| picture.pixels))
                            label="The picture to try"
                            class="tried-picture"
                        />
                        <figcaption>{move || tried.with(|picture| picture.as_ref().map(|picture| picture.name.clone()))}</figcaption>
                    </figure>
                    <figure hidden=move || trainer.answer.with(|it| it.as_ref().is_none_or(|it| it.seen.is_none()))>
                        <Pixels
                            picture=Signal::derive(move || trainer.answer.with(|it| it.as_ref().and_then(|it| it.seen.clone())))
                            label="The same as the model sees it"
                            class="photo"
                        />
                        <figcaption>"as the model sees it"</figcaption>
                    </figure>
                </div>
                <div
                    data-testid="try-answer"
                    data-after=answer(|answer| answer.after.to_string())
                    data-shared=answer(|answer| answer.is_shared.to_string())
                    data-best=answer(|answer| answer.best.len().to_string())
                >
                    {move || trainer.answer.get().and_then(|answered| said(draft, trainer, answered))}
                </div>
            </div>
        </section>
    }
}

fn said(draft: Draft, trainer: Trainer, answered: Answered) -> Option<impl IntoView + use<>> {
    let answer = answered.answer.ok()?;
    let names = if answer.is_shared {
        trainer.shard.with(|shard| shard.as_ref().map(|shard| shard.classes.clone())).unwrap_or_default()
    } else {
        draft.classes.get()
    };
    let (first, probability) = *answer.best.first()?;
    let headline = words::answer(&classes::name(&names, first), probability);
    let bars = answer.best.iter().map(|&(place, probability)| {
        let name = classes::name(&names, place);
        view! {
            <li data-testid="try-class" data-class=name.clone() data-probability=probability.to_string()>
                <span>{name.clone()}</span>
                <span class="meter" aria-hidden="true">
                    <span class="meter-fill" style=format!("width:{:.1}%", probability * 100.0)></span>
                </span>
                <span class="sub">{words::percent(probability)}</span>
            </li>
        }
    });
    Some(view! {
        <p class="verdict-line">{headline}</p>
        <ul class="bars">{bars.collect_view()}</ul>
        <p class="sub">{words::asked(answer.after, answer.classes)}</p>
    })
}
