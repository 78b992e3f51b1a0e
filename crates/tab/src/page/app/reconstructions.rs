//! What the relay reconstructed from the updates of this client.

use leptos::prelude::*;
use unmask_core::{AttackMethod, Defence};

use super::{
    pixels::Pixels,
    signals::{holds, optional, part},
    similarity::SimilarityGauge,
    trainer::Trainer,
};
use crate::{page::words, protocol::Reconstruction};

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
                    below=Signal::derive(move || words::not_recognisable(is_defended(), false))
                    waiting=Signal::derive(|| "made from several pictures, so there is none to compare with".to_owned())
                />
                {words::comparison_note(method).map(|note| view! { <p class="sub">{note}</p> })}
            </div>
        </article>
    }
}
