//! What several pages and screens use. Here: parts of what may not be there yet, for views, whether anybody sees the page, and
//! the choice of its language.

pub mod api;
pub mod feed;
pub mod fields;
pub mod picture;
pub mod session;

use gloo_events::EventListener;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{HtmlElement, Storage};

use super::text::{language::Language, say};

/// A part of `whole`.
pub fn part<S, T, U>(
    whole: S,
    of: impl Fn(&T) -> U + Copy + Send + Sync + 'static,
) -> impl Fn() -> Option<U> + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
    U: 'static,
{
    move || whole.with(|whole| whole.as_ref().map(of))
}

/// A part of `whole` that it may lack.
pub fn optional<S, T, U>(
    whole: S,
    of: impl Fn(&T) -> Option<U> + Copy + Send + Sync + 'static,
) -> impl Fn() -> Option<U> + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
    U: 'static,
{
    move || whole.with(|whole| whole.as_ref().and_then(of))
}

/// Whether `whole` is there and `is` holds of it.
pub fn holds<S, T>(
    whole: S,
    is: impl Fn(&T) -> bool + Copy + Send + Sync + 'static,
) -> impl Fn() -> bool + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
{
    move || whole.with(|whole| whole.as_ref().is_some_and(is))
}

/// Tells `seen` whether the page is in sight: now, and whenever that changes, for as long as the page lives.
pub fn watch_presence(seen: impl Fn(bool) + 'static) {
    let is_seen = || !document().hidden();
    seen(is_seen());
    EventListener::new(&document(), "visibilitychange", move |_| seen(is_seen())).forget();
}

/// Calls `returned` whenever the page's connections may have died without a word: it is seen again, the browser has a network
/// again, or takes the page out of its cache of pages left (bfcache).
pub fn on_return(returned: impl Fn() + Copy + 'static) {
    let seen = move |_: &web_sys::Event| {
        if !document().hidden() {
            returned();
        }
    };
    EventListener::new(&document(), "visibilitychange", seen).forget();
    for event in ["online", "pageshow"] {
        EventListener::new(&window(), event, move |_| returned()).forget();
    }
}

/// Where a browser keeps the language that was chosen; all its windows follow.
const LANGUAGE_KEY: &str = "unmask-language";

/// The language of this page. What it says is not followed word by word: what stands within [`InLanguage`] is made anew.
#[derive(Clone, Copy)]
pub struct Tongue {
    chosen: RwSignal<Language>,
    /// While the expert view is open everything is said in English, the field's words and what stands beside them.
    is_expert: RwSignal<bool>,
}

impl Tongue {
    /// Speaks the language that was chosen, else the first of the browser's that there is, and keeps document and `title` in
    /// step with it. To be called once, before anything is said.
    pub fn start(title: fn() -> &'static str) {
        let first = kept_language().unwrap_or_else(browsers_language);
        first.speak();
        let tongue = Self::new(first);
        Effect::new(move |_| {
            let language = tongue.shown();
            document().set_title(title());
            if let Some(root) = document().document_element() {
                // It can only fail for a name that is none.
                let _ = root.set_attribute("lang", language.tag());
            }
        });
        let follow = move |_: &web_sys::Event| kept_language().into_iter().for_each(|kept| tongue.speak(kept));
        EventListener::new(&window(), "storage", follow).forget();
        provide_context(tongue);
    }

    fn new(chosen: Language) -> Self {
        Self { chosen: RwSignal::new(chosen), is_expert: RwSignal::new(false) }
    }

    /// That of the page.
    pub fn spoken() -> Self {
        use_context().unwrap_or_else(|| Self::new(Language::now()))
    }

    /// The one that was chosen.
    pub fn now(self) -> Language {
        self.chosen.get()
    }

    /// The one in which everything is said.
    fn shown(self) -> Language {
        if self.is_expert.get() { Language::English } else { self.chosen.get() }
    }

    /// Says everything in English while the expert view is open, and then again in the language that was chosen. To be called
    /// before what is to be said in it.
    pub fn keep_english(self, is_expert: bool) {
        if self.is_expert.get_untracked() != is_expert {
            let language = if is_expert { Language::English } else { self.chosen.get_untracked() };
            language.speak();
            self.is_expert.set(is_expert);
        }
    }

    /// Speaks this language from here on, and keeps it.
    pub fn choose(self, language: Language) {
        let has_focus = is_choosing_language();
        if let Some(storage) = storage() {
            // Where the browser keeps nothing, this window alone speaks it, until it is closed.
            let _ = storage.set_item(LANGUAGE_KEY, language.tag());
        }
        self.speak(language);
        if has_focus {
            // The stage's key is made anew with everything else.
            request_animation_frame(|| {
                let switch = document().query_selector(SWITCH).ok().flatten();
                let _ = switch.and_then(|switch| switch.dyn_into::<HtmlElement>().ok()).map(|switch| switch.focus());
            });
        }
    }

    fn speak(self, language: Language) {
        if self.chosen.get_untracked() != language {
            if !self.is_expert.get_untracked() {
                language.speak();
            }
            self.chosen.set(language);
        }
    }
}

/// Finds what the language is chosen with.
const SWITCH: &str = "[data-testid='language']";

/// Whether the keyboard's attention is where the language is chosen.
fn is_choosing_language() -> bool {
    document().active_element().is_some_and(|focused| focused.matches(SWITCH).unwrap_or(false))
}

fn storage() -> Option<Storage> {
    window().local_storage().ok().flatten()
}

fn kept_language() -> Option<Language> {
    storage()?.get_item(LANGUAGE_KEY).ok().flatten().as_deref().and_then(Language::read)
}

fn browsers_language() -> Language {
    let tags: Vec<String> = window().navigator().languages().iter().filter_map(|tag| tag.as_string()).collect();
    Language::preferred(tags.iter().map(String::as_str))
}

/// What it holds is made anew in another language as soon as that is chosen; what lasts longer belongs outside.
#[component]
pub fn InLanguage(children: ChildrenFn) -> impl IntoView {
    let tongue = Tongue::spoken();
    move || {
        tongue.shown();
        children()
    }
}

/// The languages, each by its own name.
#[component]
pub fn LanguageSwitch() -> impl IntoView {
    let tongue = Tongue::spoken();
    let option = move |language: Language| {
        view! {
            <option value=language.tag() lang=language.tag() selected=move || tongue.now() == language>
                {language.own_name()}
            </option>
        }
    };
    let label = move || {
        tongue.shown();
        say::page::language()
    };
    view! {
        <select
            class="language"
            data-testid="language"
            aria-label=label
            prop:value=move || tongue.now().tag()
            on:change=move |event| {
                if let Some(language) = Language::read(&event_target_value(&event)) {
                    tongue.choose(language);
                }
            }
        >
            {Language::ALL.map(option).collect_view()}
        </select>
    }
}
