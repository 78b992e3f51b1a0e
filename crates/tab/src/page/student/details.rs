//! *Details* of one's own part in the room: figures, the relay's reconstructions, the share of the data set, and what
//! leaves this device.

use std::collections::VecDeque;

use leptos::prelude::*;
use unmask_core::{AttackMethod, Defence};
use unmask_words::say;

use super::{classify::Classify, draft::JoinDraft, trainer::Trainer};
use crate::{
    page::{
        logic::{self, attacks, chart::sparkline, learning, names, turn},
        widgets::{
            fields::{Bar, Bars, SimilarityGauge, is_open},
            holds, optional, part,
            picture::Pixels,
        },
    },
    protocol::{GroupView, OwnBatch, Reconstruction, SentUpdate},
};

const SPARK_WIDTH: f32 = 120.0;
const SPARK_HEIGHT: f32 = 32.0;

/// The storage key for whether *Details* is open in this tab.
const OPEN_KEY: &str = "unmask-details";

/// Everything that is not needed to follow the lesson. It stays open or closed as the student left it, in every scene
/// and after a reload.
#[component]
pub fn Details(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let storage = || window().session_storage().ok().flatten();
    let was_open = storage().and_then(|storage| storage.get_item(OPEN_KEY).ok().flatten()).is_some();
    let keep = move |event| {
        // Without storage it starts closed.
        let _ = storage().map(|storage| match is_open(&event) {
            true => storage.set_item(OPEN_KEY, "open"),
            false => storage.remove_item(OPEN_KEY),
        });
    };
    view! {
        <details class="fold" data-testid="details" open=was_open on:toggle=keep>
            <summary>{say::room::details()}</summary>
            <div class="folded">
                <Facts draft trainer/>
                <Messages trainer/>
                <SharedPictures trainer/>
                <OwnAttackPanel trainer/>
                <Reconstructions trainer/>
                <Classify draft trainer/>
                <SentUpdatePanel trainer/>
            </div>
        </details>
    }
}

#[component]
fn Facts(draft: JoinDraft, trainer: Trainer) -> impl IntoView {
    let round = part(trainer.training, |training| training.round);
    let step = move || turn::work_step(trainer.work(), part(trainer.sent, |sent| sent.milliseconds)());
    let device = part(trainer.device, |device| device.name.clone());
    let label = move || draft.classes.with(|all| names::class_name(all, draft.label.get().into()));
    let shared = Memo::new(move |_| optional(trainer.training, |training| training.shared)());
    view! {
        <section class="tiles" aria-label=say::details::this_tab()>
            <div class="tile wide">
                <h3>{say::details::picture()}</h3>
                <p data-testid="trains-on" data-shared=move || shared.get().unwrap_or(0)>
                    {move || if shared.get().is_some() { say::details::picture_unused().to_owned() } else { say::details::label(label()) }}
                </p>
            </div>
            <div class="tile">
                <h3>{say::details::round()}</h3>
                <p class="figure" data-testid="round" data-round=move || round().unwrap_or(0)>
                    {move || round().map_or("–".to_owned(), |round| round.to_string())}
                </p>
                <p class="sub">{step}</p>
            </div>
            <div class="tile">
                <h3>{say::details::device()}</h3>
                <p class="figure" data-testid="device" data-device=device>
                    {move || device().unwrap_or_else(|| say::details::choosing_device().to_owned())}
                </p>
                <p class="sub" data-testid="device-reason">{part(trainer.device, |device| device.reason.clone())}</p>
            </div>
            <LossTile trainer shared/>
            <div class="tile">
                <h3>{say::details::sent()}</h3>
                <p
                    class="figure"
                    data-testid="bytes"
                    data-bytes=move || trainer.bytes.get().0
                    data-plain-bytes=move || trainer.bytes.get().1
                >
                    {move || logic::bytes(trainer.bytes.get().0)}
                </p>
                <p class="sub">{move || say::details::without_defence(logic::bytes(trainer.bytes.get().1))}</p>
            </div>
            <SettingsTile trainer/>
        </section>
    }
}

/// The last loss, the curve of those before, and the loss of the room.
#[component]
fn LossTile(
    trainer: Trainer,
    /// The number of shared pictures that this tab trains on, if it does.
    shared: Memo<Option<u32>>,
) -> impl IntoView {
    let loss = move || trainer.losses.with(|losses| losses.last().copied());
    let room = part(trainer.closed, |closed| match closed.loss {
        Some(loss) => say::details::room_loss(logic::decimal(format!("{loss:.3}")), closed.updates, closed.round),
        None => say::details::room_no_update(closed.round),
    });
    let curve = move || trainer.losses.with(|losses| sparkline(losses, SPARK_WIDTH, SPARK_HEIGHT));
    view! {
        <div class="tile">
            <h3>{move || learning::loss_heading(shared.get().is_some())}</h3>
            <p class="figure spread">
                <span data-testid="loss" data-loss=move || loss().map(|loss| loss.to_string())>
                    {move || loss().map_or("–".to_owned(), |loss| logic::decimal(format!("{loss:.3}")))}
                </span>
                <svg class="spark" viewBox=format!("-4 -4 {} {}", SPARK_WIDTH + 8.0, SPARK_HEIGHT + 8.0) aria-hidden="true">
                    <path d=move || curve().0></path>
                    {move || curve().1.map(|(x, y)| view! { <circle cx=x cy=y r="3"></circle> })}
                </svg>
            </p>
            <p class="sub">{move || room().unwrap_or_else(|| say::details::no_round_closed().to_owned())}</p>
        </div>
    }
}

/// The model, the update rule and the defence.
#[component]
fn SettingsTile(trainer: Trainer) -> impl IntoView {
    view! {
        <div class="tile wide">
            <h3>{say::details::settings()}</h3>
            <p class="figure small" data-testid="model">
                {move || part(trainer.training, |training| training.model.clone())().unwrap_or("–".to_owned())}
            </p>
            <p class="sub" data-testid="rule" data-rule=part(trainer.training, |training| training.rule.to_string())>
                {part(trainer.training, |training| logic::rule(training.rule))}
            </p>
            <p class="sub" data-testid="defence" data-defence=part(trainer.training, |training| training.defence.to_string())>
                {part(trainer.training, |training| training.defence.phrase())}
            </p>
        </div>
    }
}

/// The state of this tab's attack on its own update.
#[component]
fn OwnAttackPanel(trainer: Trainer) -> impl IntoView {
    let attack = trainer.own_attack;
    let sentence = part(attack, |attack| {
        let (defence, time) = (attack.defence.phrase(), logic::duration(attack.milliseconds));
        let took = say::details::own_attack_took(attack.round, defence, time);
        attack.remark.as_deref().map_or_else(|| took.clone(), |remark| format!("{took} {}", logic::sentence(remark)))
    });
    view! {
        <section class="panel" data-testid="own-attack" hidden=move || attack.with(Option::is_none)>
            <h2>{say::details::own_attack()}</h2>
            <p class="panel-summary">{say::details::own_attack_hint()}</p>
            <p>{sentence}</p>
            <OwnBatchPanel trainer/>
        </section>
    }
}

/// The pictures of this tab's own batch that came back from its update, each beside the original.
#[component]
fn OwnBatchPanel(trainer: Trainer) -> impl IntoView {
    let batch = Memo::new(move |_| trainer.own_attack.with(|attack| attack.as_ref()?.batch.clone()));
    let sentence = part(batch, |OwnBatch { round, of, certain, found, seconds, remark }| {
        let told = say::sum::found(found.len() as u32, *of, *certain, seconds.ceil() as u32);
        let round = say::details::attacked_round(*round);
        let told = [&*round, &*told].into_iter().chain(remark.as_deref());
        told.map(logic::sentence).collect::<Vec<_>>().join(" ")
    });
    let pictures = move || batch.with(|batch| batch.as_ref().map(|batch| batch.found.clone()).unwrap_or_default());
    view! {
        <div data-testid="own-batch" hidden=move || batch.with(Option::is_none)>
            <p>{sentence}</p>
            <div class="reconstructions">
                {move || pictures().into_iter().map(|found| view! { <OwnPair found/> }).collect_view()}
            </div>
        </div>
    }
}

#[component]
fn OwnPair(found: Reconstruction) -> impl IntoView {
    let Reconstruction { picture, comparison, .. } = found;
    let is_private = comparison.as_ref().is_some_and(|comparison| comparison.is_private);
    let caption = if is_private { say::details::own_picture() } else { say::details::shared_picture() };
    let has_original = comparison.is_some();
    let psnr = comparison.as_ref().map(|comparison| logic::decimal(format!("{:.1}\u{a0}dB", comparison.psnr)));
    let own = comparison.and_then(|comparison| comparison.own);
    view! {
        <div class="pair" data-testid="own-pair">
            <figure hidden=!has_original>
                <Pixels picture=Signal::stored(own) label=say::details::as_the_model_sees() class="photo"/>
                <figcaption>{caption}</figcaption>
            </figure>
            <figure>
                <Pixels picture=Signal::stored(picture) label=say::details::reconstructed() class="photo"/>
                <figcaption>{say::details::reconstruction()} " " <b>{psnr}</b></figcaption>
            </figure>
        </div>
    }
}

/// The worker's messages, newest first.
#[component]
fn Messages(trainer: Trainer) -> impl IntoView {
    view! {
        <section class="panel" hidden=move || trainer.notices.with(VecDeque::is_empty)>
            <h2>{say::details::messages()}</h2>
            <ul class="notices" data-testid="notices">
                <For each=move || trainer.notices.get() key=|(number, _)| *number let:notice>
                    <li data-testid="notice">{logic::notice(&notice.1)}</li>
                </For>
            </ul>
        </section>
    }
}

/// A large picture of the closest attack and small ones of the others.
#[component]
fn Reconstructions(trainer: Trainer) -> impl IntoView {
    let methods = Memo::new(move |_| {
        let mut methods: Vec<AttackMethod> =
            trainer.attacks.with(|attacks| attacks.iter().map(|attack| attack.attack).collect());
        methods.sort();
        methods
    });
    let closest = Memo::new(move |_| trainer.closest());
    view! {
        <section class="panel" data-testid="attacks" hidden=move || methods.with(Vec::is_empty)>
            <h2>{say::details::reconstructed()}</h2>
            <p class="panel-summary">{say::details::reconstructed_hint()}</p>
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
                <span class="sub">" " {part(result, |result| say::details::attacked_round(result.round))}</span>
            </h3>
            <div class="pair">
                <figure class="own" hidden=move || own().is_none()>
                    <Pixels picture=Signal::derive(own) label=say::details::as_the_model_sees() class="photo"/>
                    <figcaption>{move || if is_private() { say::details::own_picture() } else { say::details::shared_picture() }}</figcaption>
                </figure>
                <figure>
                    <Pixels
                        picture=Signal::derive(optional(result, |result| result.picture.clone()))
                        label=say::details::reconstructed()
                        class="photo"
                    />
                    <figcaption>{say::details::reconstruction()}</figcaption>
                </figure>
            </div>
            <div class="reconstruction-end">
                <SimilarityGauge
                    ssim=Signal::derive(ssim)
                    psnr=Signal::derive(psnr)
                    below=Signal::derive(move || attacks::not_recognisable(is_defended(), method.is_search()))
                    waiting=Signal::derive(|| say::details::several().to_owned())
                />
                {attacks::comparison_note(method).map(|note| view! { <p class="sub">{note}</p> })}
            </div>
        </article>
    }
}

/// The tab's shared pictures, if any: some of them, the number in each class, and whether they are in use.
#[component]
fn SharedPictures(trainer: Trainer) -> impl IntoView {
    let shard = trainer.shard;
    let used = Memo::new(move |_| optional(trainer.training, |training| training.shared)());
    let now = move || match used.get() {
        Some(pictures) => say::details::used(pictures),
        None => say::details::unused().to_owned(),
    };
    let bars = part(shard, |shard| {
        let most = shard.counts.iter().copied().max().unwrap_or(0).max(1);
        let bar = |(name, count): (&String, &u32)| Bar {
            name: names::shown_class(name),
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
                {move || if used.get().is_some() { say::details::trains_on() } else { say::details::also_has() }} " "
                {part(shard, |shard| learning::shared_pictures(&shard.data, &shard.classes, &shard.counts))}
            </h2>
            <p class="panel-summary">
                {now} " " {part(shard, |shard| say::details::shared(learning::partition(shard.partition)))}
            </p>
            <div class="shard">
                <Pixels
                    picture=Signal::derive(optional(shard, |shard| shard.contact_sheet.clone()))
                    label=say::details::sheet()
                    class="sheet"
                />
                <Bars rows=Signal::derive(move || bars().unwrap_or_default()) testid="shard-class"/>
            </div>
        </section>
    }
}

/// The last update, by parameter group, as computed and as sent.
#[component]
fn SentUpdatePanel(trainer: Trainer) -> impl IntoView {
    let sent = trainer.sent;
    let titles = Memo::new(move |_| {
        let titles = |sent: &SentUpdate| sent.groups.iter().map(|group| group.title.clone()).collect::<Vec<_>>();
        part(sent, titles)().unwrap_or_default()
    });
    let summary = part(sent, |sent| {
        let content = logic::update_content(sent.rule, sent.samples);
        let (bytes, plain) = (logic::bytes(sent.bytes), logic::bytes(sent.plain_bytes));
        let said = say::details::sent_update(sent.round, content, bytes, plain);
        format!("{said} {}", logic::drawing_note(sent.rule)).trim_end().to_owned()
    });
    let has_ciphertext = holds(sent, |sent| sent.groups.iter().any(|group| group.ciphertext));
    view! {
        <section class="panel" data-testid="leaving">
            <h2>{say::details::leaving()}</h2>
            <p class="panel-summary">
                {move || summary().unwrap_or_else(|| say::details::nothing_left().to_owned())}
            </p>
            <p class="legend">
                <span><i class="swatch minus"></i>{say::details::below()}</span>
                <span><i class="swatch zero"></i>{say::details::zero()}</span>
                <span><i class="swatch plus"></i>{say::details::above()}</span>
                <span><i class="swatch masked"></i>{say::details::masked()}</span>
                <span class="long" hidden=move || !has_ciphertext()><b class="tag">{say::details::ciphertext()}</b>" " {say::details::ciphertext_hint()}</span>
            </p>
            <div class="groups">
                <For each=move || titles.get() key=Clone::clone let:title>
                    <Group sent title/>
                </For>
            </div>
        </section>
    }
}

#[component]
fn Group(sent: RwSignal<Option<SentUpdate>>, title: String) -> impl IntoView {
    let name = title.clone();
    let group = Memo::new_with_compare(
        move |_| {
            let find = |sent: &SentUpdate| sent.groups.iter().find(|group| group.title == name).cloned();
            sent.with(|sent| sent.as_ref().and_then(find))
        },
        // Every update is new, and comparing its pictures would cost more than drawing them.
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
            <h3>{title.clone()} <b class="tag" hidden=move || !is_ciphertext()>{say::details::ciphertext()}</b></h3>
            <div class="pair">
                <figure>
                    <Pixels
                        picture=Signal::derive(optional(group, |group| group.before.clone()))
                        label=say::details::computed(&title)
                        class="update"
                    />
                    <figcaption>{say::details::as_computed()}</figcaption>
                </figure>
                <figure>
                    <Pixels
                        picture=Signal::derive(optional(group, |group| group.after.clone()))
                        label=say::details::leaves(&title)
                        class="update"
                    />
                    <figcaption>{say::details::as_sent()}</figcaption>
                </figure>
            </div>
            <dl>
                <div><dt>{say::details::zeros()}</dt><dd>{move || logic::percent(number(|group| group.zeros))}</dd></div>
                <div><dt>{say::details::values()}</dt><dd>{part(group, |group| logic::count(group.values))}</dd></div>
                <div>
                    <dt>{say::details::norm()}</dt>
                    <dd>{part(group, |group| logic::decimal(format!("{:.3} → {:.3}", group.norm_before, group.norm_after)))}</dd>
                </div>
                <div hidden=move || noise().is_none()>
                    <dt>{say::details::noise()}</dt>
                    <dd>{move || noise().map(logic::ratio)}</dd>
                </div>
            </dl>
        </article>
    }
}
