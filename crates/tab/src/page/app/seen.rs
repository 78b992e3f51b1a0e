//! What the relay saw of this client.

use leptos::prelude::*;
use unmask_core::{AttackMethod, Defence};

use super::{
    gauge::Gauge,
    pixels::{Pixels, Rgba},
    reports::Attacked,
    trainer::Trainer,
};
use crate::page::words;

/// What the relay saw of this client: the attack that came closest large, the others small.
#[component]
pub fn Attacks(
    /// Who compares them.
    trainer: Trainer,
) -> impl IntoView {
    let methods = Memo::new(move |_| {
        let mut methods: Vec<AttackMethod> =
            trainer.attacks.with(|attacks| attacks.iter().map(|attack| attack.attack).collect());
        methods.sort();
        methods
    });
    let worst = Memo::new(move |_| {
        trainer.attacks.with(|attacks| {
            // Of equals the first counts, so that the large card does not change without need.
            let closest = |one: &&Attacked, other: &&Attacked| {
                let ssim = |attack: &Attacked| attack.ssim.unwrap_or(f32::NEG_INFINITY);
                ssim(one).total_cmp(&ssim(other)).then(other.attack.cmp(&one.attack))
            };
            attacks.iter().max_by(closest).map(|attack| attack.attack)
        })
    });
    view! {
        <section class="panel" data-testid="attacks" hidden=move || methods.with(Vec::is_empty)>
            <h2>"What the relay saw"</h2>
            <p class="panel-summary">
                "The relay attacked your update, each time another way. The comparison is made here; only the two numbers go back."
            </p>
            <div class="seen">
                <For each=move || methods.get() key=|method| *method let:method>
                    <Seen trainer worst method/>
                </For>
            </div>
        </section>
    }
}

#[component]
fn Seen(trainer: Trainer, worst: Memo<Option<AttackMethod>>, method: AttackMethod) -> impl IntoView {
    let result = Memo::new_with_compare(
        move |_| trainer.attacks.with(|attacks| attacks.iter().find(|attack| attack.attack == method).cloned()),
        |_, _| true,
    );
    let is_worst = Memo::new(move |_| worst.get() == Some(method));
    let ssim = Signal::derive(move || result.with(|result| result.as_ref().and_then(|result| result.ssim)));
    let psnr = Signal::derive(move || result.with(|result| result.as_ref().and_then(|result| result.psnr)));
    let is_defended =
        Memo::new(move |_| trainer.plan.with(|plan| plan.as_ref().is_some_and(|plan| plan.defence != Defence::None)));
    let below = Signal::derive(move || words::unrecognised(is_defended.get(), false));
    let waiting = Signal::derive(|| "made from several pictures: none to compare with".to_owned());
    let is_private = Memo::new(move |_| result.with(|result| result.as_ref().is_some_and(|result| result.is_private)));
    let has_own = Memo::new(move |_| result.with(|result| result.as_ref().is_some_and(|result| result.own.is_some())));
    let own_name = move || if is_private.get() { "your picture" } else { "the shared picture" };
    let picture = move |side: fn(&Attacked) -> &Option<Rgba>| {
        Signal::derive(move || result.with(|result| result.as_ref().and_then(|result| side(result).clone())))
    };
    view! {
        <article
            class="seen-card"
            class:worst=move || is_worst.get()
            data-testid="attacked"
            data-attack=method.name()
            data-private=move || is_private.get().to_string()
            data-round=move || result.with(|result| result.as_ref().map(|result| result.round))
            data-ssim=move || ssim.get().map(|ssim| ssim.to_string())
            data-psnr=move || psnr.get().map(|psnr| psnr.to_string())
        >
            <h3>
                {method.title()}
                <span class="sub">
                    {move || result.with(|result| result.as_ref().map(|result| format!(" round {}", result.round)))}
                </span>
            </h3>
            <div class="pair">
                <figure class="own" hidden=move || !has_own.get()>
                    <Pixels picture=picture(|result| &result.own) label="The picture as the model sees it" class="photo"/>
                    <figcaption>{own_name}</figcaption>
                </figure>
                <figure>
                    <Pixels picture=picture(|result| &result.reconstruction) label="What the relay reconstructed" class="photo"/>
                    <figcaption>"what the relay saw"</figcaption>
                </figure>
            </div>
            <div class="seen-end">
                <Gauge ssim psnr below waiting/>
                {words::comparison(method).map(|comparison| view! { <p class="sub">{comparison}</p> })}
            </div>
        </article>
    }
}
