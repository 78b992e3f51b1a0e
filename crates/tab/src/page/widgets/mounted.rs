//! A view in the document of a browser test. Its relay accepts every control.

use std::{any::Any, time::Duration};

use gloo_timers::future::sleep;
use js_sys::{Array, Function, Reflect};
use leptos::{mount::mount_to, prelude::*};
use unmask_wire::view::{Control, Role, RoomView, SessionView};
use wasm_bindgen::{JsCast, JsValue};
use web_sys::HtmlElement;

use super::{
    feed::{Feed, Link},
    session::{Session, Teacher},
};

/// How often a tap looks for its control.
const LOOKS: u32 = 200;
const LOOK: Duration = Duration::from_millis(10);

/// Sends no request, and keeps its body.
const RELAY: &str =
    "return request.text().then(body => { asked.push(body); return new Response(null, { status: 204 }) })";

const SHOWN: &str = "return [...root.querySelectorAll(selector)].filter(element => element.checkVisibility())";

/// The view; gone when dropped, and the browser's own `fetch` is back.
pub struct Mounted {
    root: HtmlElement,
    /// The bodies of the requests.
    asked: Array,
    fetch: JsValue,
    view: Option<Box<dyn Any>>,
}

impl Mounted {
    pub fn new<V: IntoView + 'static>(view: impl FnOnce() -> V + 'static) -> Self {
        let root: HtmlElement = document().create_element("div").expect("an element").unchecked_into();
        document().body().expect("a body").append_child(&root).expect("a place");
        super::relay::choose_http();
        let asked = Array::new();
        let fetch = Reflect::get(&window(), &"fetch".into()).expect("a window");
        let relay = Function::new_with_args("asked, request", RELAY).bind1(&JsValue::NULL, &asked);
        Reflect::set(&window(), &"fetch".into(), &relay).expect("a window");
        let view = mount_to(root.clone(), view);
        Self { root, asked, fetch, view: Some(Box::new(view)) }
    }

    /// The elements that match this selector and are displayed, once the last change is.
    pub async fn shown(&self, selector: &str) -> Vec<HtmlElement> {
        leptos::task::tick().await;
        let shown = Function::new_with_args("root, selector", SHOWN);
        let shown = shown.call2(&JsValue::NULL, &self.root, &selector.into()).expect("a selector");
        shown.unchecked_into::<Array>().iter().map(JsCast::unchecked_into).collect()
    }

    /// Their texts.
    pub async fn says(&self, selector: &str) -> Vec<String> {
        self.shown(selector).await.iter().map(HtmlElement::inner_text).collect()
    }

    /// Taps the only displayed button with this test id, and returns the control that the relay got.
    pub async fn tap(&self, id: &str) -> Control {
        let shown = self.shown(&format!("[data-testid={id}]")).await;
        let [button] = shown.as_slice() else { panic!("{id}: {} buttons", shown.len()) };
        let before = self.asked.length();
        button.click();
        for _ in 0..LOOKS {
            if let Some(body) = self.asked.get(before).as_string() {
                assert_eq!(self.asked.length(), before + 1, "{id}: more than one request");
                return serde_json::from_str(&body).unwrap_or_else(|error| panic!("{id}: {error}: {body}"));
            }
            sleep(LOOK).await;
        }
        panic!("{id}: no request");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.view.take();
        self.root.remove();
        Reflect::set(&window(), &"fetch".into(), &self.fetch).expect("a window");
    }
}

/// Who looks at a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Viewer {
    Teacher,
    /// The page for the class.
    Class,
    /// The page that plays the recording.
    Replay,
}

impl Viewer {
    /// What this page knows of a room. Call it while the view is made.
    pub fn sees(self, room: RoomView) -> (Feed, Teacher) {
        let (session, link) = match self {
            Self::Teacher => {
                (Session::new(Some(SessionView { role: Some(Role::Teacher), ..SessionView::default() })), Link::Live)
            }
            Self::Class => (Session::of_watcher(), Link::Live),
            Self::Replay => (Session::of_watcher(), Link::Recorded),
        };
        let feed = Feed::recorded();
        feed.show(room);
        feed.link.set(link);
        (feed, Teacher::new(session))
    }
}
