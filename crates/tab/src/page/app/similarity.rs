//! How similar a reconstruction is to the picture, with the SSIM from which people recognise it.

use leptos::prelude::*;
use unmask_data::metrics::RECOGNISABLE_FROM;

use crate::page::words::verdict;

/// A bar from 0 to 1 with a line at [`RECOGNISABLE_FROM`], both numbers, and the verdict in a word.
#[component]
pub fn SimilarityGauge(
    #[prop(into)] ssim: Signal<Option<f32>>,
    /// In dB.
    #[prop(into)]
    psnr: Signal<Option<f32>>,
    /// What to say where the picture cannot be recognised: that much about the attack shown, and nothing of others.
    #[prop(into)]
    below: Signal<&'static str>,
    /// What to say as long as neither number is there.
    #[prop(into)]
    waiting: Signal<String>,
) -> impl IntoView {
    let verdict_now = move || ssim.get().map(verdict);
    let width = move || format!("width:{:.1}%", ssim.get().unwrap_or(0.0).clamp(0.0, 1.0) * 100.0);
    let line = format!("left:{}%", RECOGNISABLE_FROM * 100.0);
    view! {
        <div class="gauge" data-verdict=verdict_now>
            <div class="gauge-head">
                <p class="gauge-verdict" data-testid="verdict">
                    {move || match verdict_now() {
                        Some("recognisable") => "✕ leaked: recognisable".to_owned(),
                        Some(_) => below.get().to_owned(),
                        None => waiting.get(),
                    }}
                </p>
                <p class="gauge-numbers">
                    <span>"SSIM " <b>{move || ssim.get().map_or("–".to_owned(), |ssim| format!("{ssim:.2}"))}</b></span>
                    <span>"PSNR " <b>{move || psnr.get().map_or("–".to_owned(), |psnr| format!("{psnr:.1} dB"))}</b></span>
                </p>
            </div>
            <div class="gauge-bar" aria-hidden="true">
                <span class="gauge-fill" style=width></span>
                <span class="gauge-line" style=line></span>
            </div>
            <p class="gauge-scale" aria-hidden="true">
                <span>"0"</span>
                <span>{RECOGNISABLE_FROM.to_string()}</span>
                <span>"1"</span>
            </p>
        </div>
    }
}
