//! What there is to know of one's own part in the room: what the relay reconstructed, what the model says of a picture, the share of
//! the data set, and what leaves this device.

use gloo_file::File;
use leptos::prelude::*;
use unmask_core::{AttackMethod, Defence};
use wasm_bindgen_futures::spawn_local;
use web_sys::DragEvent;

use super::{draft::JoinDraft, join::Camera, trainer::Trainer};
use crate::{
    page::{
        text::{self, attacks, learning, names},
        widgets::{
            fields::{Bar, Bars, SimilarityGauge},
            holds, optional, part,
            picture::{self, FileButton, Picture, Pixels, dropped_file, keep_page},
        },
    },
    protocol::{GroupView, Prediction, Reconstruction, SentUpdate},
};

/// The attack that came closest large, the others small.
#[component]
pub fn Reconstructions(trainer: Trainer) -> impl IntoView {
    let methods = Memo::new(move |_| {
        let mut methods: Vec<AttackMethod> =
            trainer.attacks.with(|attacks| attacks.iter().map(|attack| attack.attack).collect());
        methods.sort();
        methods
    });
    let closest = Memo::new(move |_| {
        trainer.attacks.with(|attacks| {
            let ssim = |attack: &Reconstruction| attack.comparison.as_ref().map_or(f32::NEG_INFINITY, |it| it.ssim);
            // Of equals the first counts, so that the large card does not change without need.
            let order = |one: &&Reconstruction, other: &&Reconstruction| {
                ssim(one).total_cmp(&ssim(other)).then(other.attack.cmp(&one.attack))
            };
            attacks.iter().max_by(order).map(|attack| attack.attack)
        })
    });
    view! {
        <section class="panel" data-testid="attacks" hidden=move || methods.with(Vec::is_empty)>
            <h2>"What the relay reconstructed"</h2>
            <p class="panel-summary">
                "The relay attacked your update in several ways. This tab compares the results with your picture. Only the two scores go back."
            </p>
            <div class="reconstructions">
                <For each=move || methods.get() key=|method| *method let:method>
                    <Card trainer closest method/>
                </For>
            </div>
        </section>
    }
}

#[component]
fn Card(trainer: Trainer, closest: Memo<Option<AttackMethod>>, method: AttackMethod) -> impl IntoView {
    let result = Memo::new(move |_| trainer.attack(method));
    let is_closest = Memo::new(move |_| closest.get() == Some(method));
    let ssim = optional(result, |result| Some(result.comparison.as_ref()?.ssim));
    let psnr = optional(result, |result| Some(result.comparison.as_ref()?.psnr));
    let is_private = holds(result, |result| result.comparison.as_ref().is_some_and(|comparison| comparison.is_private));
    let own = optional(result, |result| result.comparison.as_ref()?.own.clone());
    let is_defended = holds(trainer.training, |training| training.defence != Defence::None);
    view! {
        <article
            class="reconstruction"
            class:closest=move || is_closest.get()
            data-testid="attacked"
            data-attack=method.name()
            data-private=move || is_private().to_string()
            data-round=part(result, |result| result.round)
            data-ssim=move || ssim().map(|ssim| ssim.to_string())
            data-psnr=move || psnr().map(|psnr| psnr.to_string())
        >
            <h3>
                {method.title()}
                <span class="sub">{part(result, |result| format!(" round {}", result.round))}</span>
            </h3>
            <div class="pair">
                <figure class="own" hidden=move || own().is_none()>
                    <Pixels picture=Signal::derive(own) label="The picture as the model sees it" class="photo"/>
                    <figcaption>{move || if is_private() { "your picture" } else { "the shared picture" }}</figcaption>
                </figure>
                <figure>
                    <Pixels
                        picture=Signal::derive(optional(result, |result| result.picture.clone()))
                        label="What the relay reconstructed"
                        class="photo"
                    />
                    <figcaption>"reconstruction"</figcaption>
                </figure>
            </div>
            <div class="reconstruction-end">
                <SimilarityGauge
                    ssim=Signal::derive(ssim)
                    psnr=Signal::derive(psnr)
                    below=Signal::derive(move || attacks::not_recognisable(is_defended(), false))
                    waiting=Signal::derive(|| "made from several pictures, so there is none to compare with".to_owned())
                />
                {attacks::comparison_note(method).map(|note| view! { <p class="sub">{note}</p> })}
            </div>
        </article>
    }
}

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
        Some(learning::prediction(&names::class_name(&names(prediction), first), probability))
    });
    let bars = part(prediction, move |prediction| {
        let names = names(prediction);
        let bar = |&(label, probability): &(usize, f32)| Bar {
            name: names::class_name(&names, label),
            share: probability.into(),
            text: text::percent(probability),
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
                    <p class="sub">{part(prediction, |prediction| learning::model_asked(prediction.after, prediction.classes))}</p>
                </div>
            </div>
        </section>
    }
}

/// Once this tab has shared pictures: some of them, how many there are of each class, and whether they are used now.
#[component]
pub fn SharedPictures(trainer: Trainer) -> impl IntoView {
    let shard = trainer.shard;
    let used = Memo::new(move |_| optional(trainer.training, |training| training.shared)());
    let now = move || match used.get() {
        Some(pictures) => format!("This round uses {pictures} of them."),
        None => "This round trains on your private picture instead.".to_owned(),
    };
    let bars = part(shard, |shard| {
        let most = shard.counts.iter().copied().max().unwrap_or(0).max(1);
        let bar = |(name, count): (&String, &u32)| Bar {
            name: name.clone(),
            share: f64::from(*count) / f64::from(most),
            text: count.to_string(),
            is_found: false,
        };
        shard.classes.iter().zip(&shard.counts).map(bar).collect::<Vec<_>>()
    });
    view! {
        <section
            class="panel"
            data-testid="shard"
            data-pictures=part(shard, |shard| shard.counts.iter().sum::<u32>())
            hidden=move || shard.with(Option::is_none)
        >
            <h2>
                {move || if used.get().is_some() { "This tab trains on " } else { "This tab also has " }}
                {part(shard, |shard| learning::shared_pictures(&shard.data, &shard.classes, &shard.counts))}
            </h2>
            <p class="panel-summary">
                {now} " Shared pictures are public: the relay handed them out, divided "
                {part(shard, |shard| learning::partition(shard.partition))} ". Only your own picture is private."
            </p>
            <div class="shard">
                <Pixels
                    picture=Signal::derive(optional(shard, |shard| shard.contact_sheet.clone()))
                    label="Some of the shared pictures, ordered by class"
                    class="sheet"
                />
                <Bars rows=Signal::derive(move || bars().unwrap_or_default()) testid="shard-class"/>
            </div>
        </section>
    }
}

/// The last update, group by group, as computed and as sent.
#[component]
pub fn SentUpdatePanel(trainer: Trainer) -> impl IntoView {
    let sent = trainer.sent;
    let titles = Memo::new(move |_| {
        let titles = |sent: &SentUpdate| sent.groups.iter().map(|group| group.title.clone()).collect::<Vec<_>>();
        part(sent, titles)().unwrap_or_default()
    });
    let summary = part(sent, |sent| {
        format!(
            "Round {}: {}. {} sent, {} without a defence.{}",
            sent.round,
            text::update_content(sent.rule, sent.samples),
            text::bytes(sent.bytes),
            text::bytes(sent.plain_bytes),
            text::drawing_note(sent.rule)
        )
    });
    let has_ciphertext = holds(sent, |sent| sent.groups.iter().any(|group| group.ciphertext));
    view! {
        <section class="panel" data-testid="leaving">
            <h2>"What leaves this device"</h2>
            <p class="panel-summary">
                {move || summary().unwrap_or_else(|| "Nothing so far. After the first round you see here what did.".to_owned())}
            </p>
            <p class="legend">
                <span><i class="swatch minus"></i>"below zero"</span>
                <span><i class="swatch zero"></i>"zero"</span>
                <span><i class="swatch plus"></i>"above zero"</span>
                <span><i class="swatch masked"></i>"removed by the defence"</span>
                <span class="long" hidden=move || !has_ciphertext()><b class="tag">"ciphertext"</b>" encrypted; the other groups leave as computed"</span>
            </p>
            <div class="groups">
                <For each=move || titles.get() key=Clone::clone let:title>
                    <Group sent title/>
                </For>
            </div>
        </section>
    }
}

/// One parameter group of the last update.
#[component]
fn Group(sent: RwSignal<Option<SentUpdate>>, title: String) -> impl IntoView {
    let name = title.clone();
    let group = Memo::new_with_compare(
        move |_| {
            let find = |sent: &SentUpdate| sent.groups.iter().find(|group| group.title == name).cloned();
            sent.with(|sent| sent.as_ref().and_then(find))
        },
        // Every update is new; comparing its pictures would cost more than drawing them.
        |_, _| true,
    );
    let number = move |of: fn(&GroupView) -> f32| part(group, of)().unwrap_or_default();
    let noise = optional(group, |group| group.noise);
    let is_ciphertext = holds(group, |group| group.ciphertext);
    view! {
        <article
            class="group"
            data-testid="group"
            data-group=title.clone()
            data-zeros=move || number(|group| group.zeros)
            data-noise=move || noise().map(|noise| noise.to_string())
            data-ciphertext=move || is_ciphertext().to_string()
        >
            <h3>{title.clone()} <b class="tag" hidden=move || !is_ciphertext()>"ciphertext"</b></h3>
            <div class="pair">
                <figure>
                    <Pixels
                        picture=Signal::derive(optional(group, |group| group.before.clone()))
                        label=format!("{title}: the update as computed")
                        class="update"
                    />
                    <figcaption>"as computed"</figcaption>
                </figure>
                <figure>
                    <Pixels
                        picture=Signal::derive(optional(group, |group| group.after.clone()))
                        label=format!("{title}: what leaves")
                        class="update"
                    />
                    <figcaption>"as sent"</figcaption>
                </figure>
            </div>
            <dl>
                <div><dt>"zeros"</dt><dd>{move || text::percent(number(|group| group.zeros))}</dd></div>
                <div><dt>"values"</dt><dd>{part(group, |group| text::count(group.values))}</dd></div>
                <div>
                    <dt>"norm"</dt>
                    <dd>{part(group, |group| format!("{:.3} → {:.3}", group.norm_before, group.norm_after))}</dd>
                </div>
                <div hidden=move || noise().is_none()>
                    <dt>"noise to signal"</dt>
                    <dd>{move || noise().map(text::ratio)}</dd>
                </div>
            </dl>
        </article>
    }
}
