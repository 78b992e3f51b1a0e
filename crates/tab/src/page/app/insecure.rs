//! The banner of a page that was opened without HTTPS.

use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;

use super::api;
use crate::page::address;

/// Says that WebGPU needs HTTPS and links to this very page there; nothing where the context is secure.
#[component]
pub fn InsecureBanner() -> impl IntoView {
    if window().is_secure_context() {
        return ().into_any();
    }
    let link = RwSignal::new(None::<String>);
    spawn_local(async move {
        let Ok(room) = api::room().await else { return };
        let location = window().location();
        let here = location.hostname().unwrap_or_default();
        let path = location.pathname().unwrap_or_default() + &location.search().unwrap_or_default();
        link.set(address::https_twin(&here, &room.https_address, &path));
    });
    view! {
        <aside class="banner" data-testid="insecure-banner" role="note">
            <strong>"Slower, but it works. "</strong>
            "Browsers allow WebGPU only over HTTPS, so this tab trains on the CPU. "
            {move || match link.get() {
                Some(address) => {
                    view! {
                        "To use the GPU, open "
                        <a href=address.clone() data-testid="secure-link">{address.clone()}</a>
                        " and accept the warning about the relay’s own certificate."
                    }
                        .into_any()
                }
                None => "The relay’s HTTPS address is on the projector.".into_any(),
            }}
        </aside>
    }
    .into_any()
}
