//! What this page may see and do, and for the teacher the outcome of controls. The relay gets a link's secret or the
//! room's PIN once; after that a cookie identifies the page, which keeps neither.

use std::time::Duration;

use gloo_timers::future::sleep;
use leptos::prelude::*;
use unmask_wire::view::{Control, Role, SessionRequest, SessionView};
use unmask_words::say;
use wasm_bindgen_futures::spawn_local;

use super::api::{self, Failure};

/// How long to wait before retrying a relay that does not answer.
const AGAIN: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
pub struct Session {
    /// `None` until the relay has answered.
    view: RwSignal<Option<SessionView>>,
    role: Memo<Option<Role>>,
    /// Why the relay does not admit this page or does not answer.
    pub problem: RwSignal<Option<String>>,
    /// Whether the relay admitted this page before but no longer knows it.
    pub is_lost: RwSignal<bool>,
    /// Whether the relay has admitted this page but the browser did not keep the cookie, so that no PIN can help.
    pub has_no_cookie: RwSignal<bool>,
    pub is_trying: RwSignal<bool>,
    /// The PIN typed so far. Kept here because a change of language rebuilds the form.
    pub typed_pin: RwSignal<String>,
}

impl Session {
    /// The session of a page that plays a recorded lesson: it may see everything, controls nothing and contacts no
    /// relay.
    pub fn of_watcher() -> Self {
        Self::new(Some(SessionView { role: Some(Role::Projector), ..SessionView::default() }))
    }

    pub fn new(view: Option<SessionView>) -> Self {
        let view = RwSignal::new(view);
        Self {
            view,
            role: Memo::new(move |_| view.with(|view| view.as_ref().and_then(|view| view.role))),
            problem: RwSignal::new(None),
            is_lost: RwSignal::new(false),
            has_no_cookie: RwSignal::new(false),
            is_trying: RwSignal::new(false),
            typed_pin: RwSignal::new(String::new()),
        }
    }

    /// Opens a session with the secret in the page's address, now or when it changes; without one, with the cookie of
    /// an earlier visit.
    pub fn open() -> Self {
        let session = Self::new(None);
        session.introduce(api::take_secret());
        // Pasting a link into this tab only changes the fragment, without loading the page again.
        let handle = window_event_listener(leptos::ev::hashchange, move |_| {
            if let Some(secret) = api::take_secret() {
                session.introduce(Some(secret));
            }
        });
        on_cleanup(move || handle.remove());
        session
    }

    /// The relay's answer, once it has admitted this page.
    pub fn admitted(self) -> Option<SessionView> {
        self.view.get().filter(|view| view.role.is_some())
    }

    /// This page's role; `None` also before the relay has answered.
    pub fn role(self) -> Option<Role> {
        self.role.get()
    }

    /// Whether the relay has answered, even if it gave this page no role.
    pub fn is_settled(self) -> bool {
        self.view.with(Option::is_some)
    }

    pub fn may_watch(self) -> bool {
        matches!(self.role(), Some(Role::Projector | Role::Teacher))
    }

    pub fn try_pin(self, pin: String) {
        self.is_trying.set(true);
        spawn_local(async move {
            match self.enter(SessionRequest { secret: None, pin: Some(pin) }).await {
                Ok(view) => self.take(view),
                Err(failure) => self.problem.set(Some(failure.reason())),
            }
            self.is_trying.set(false);
        });
    }

    /// Checks whether the relay still knows this page. After the start of another lesson it does not.
    pub fn check(self) {
        spawn_local(async move {
            self.is_known().await;
        });
    }

    /// Whether the relay answers and still knows this page.
    pub async fn is_known(self) -> bool {
        // If the relay does not answer, nothing is known.
        let Ok(view) = api::session().await else { return false };
        let is_known = view.role.is_some();
        self.take(view);
        is_known
    }

    fn introduce(self, secret: Option<(Role, String)>) {
        spawn_local(async move {
            loop {
                match self.ask(secret.as_ref()).await {
                    Ok(view) => {
                        self.problem.set(None);
                        return self.take(view);
                    }
                    Err(Failure::Refused(reason)) => {
                        self.problem.set(Some(reason));
                        if !untrack(|| self.is_settled()) {
                            self.view.set(Some(SessionView::default()));
                        }
                        return;
                    }
                    Err(Failure::NoAnswer(reason)) => self.problem.set(Some(reason)),
                }
                sleep(AGAIN).await;
            }
        });
    }

    /// Sends a secret to the relay, unless this page already has that role or a higher one. Students may have an earlier key
    /// of the room, which no longer lets anybody in.
    async fn ask(self, secret: Option<&(Role, String)>) -> Result<SessionView, Failure> {
        let known = api::session().await?;
        match secret {
            // All tabs of a browser share one cookie. A teacher who also opens the students' page remains the teacher.
            Some((role, secret)) if rank(known.role) < rank(Some(*role)) || known.role == Some(Role::Student) => {
                let secret = Some(secret.clone());
                let entered = self.enter(SessionRequest { secret, pin: None }).await;
                if known.role == Some(*role) {
                    // Who was in the room comes back with the earlier one.
                    return Ok(entered.unwrap_or(known));
                }
                if entered.is_err() {
                    self.take(known);
                }
                entered
            }
            _ => Ok(known),
        }
    }

    /// Opens a session, and checks that the browser has kept its cookie: without it the next request is a stranger's.
    async fn enter(self, request: SessionRequest) -> Result<SessionView, Failure> {
        let entered = api::enter(&request).await?;
        match api::session().await?.role {
            Some(_) => Ok(entered),
            None => {
                self.has_no_cookie.set(true);
                Err(Failure::Refused(say::api::no_cookies().to_owned()))
            }
        }
    }

    fn take(self, view: SessionView) {
        let was_in = self.role.get_untracked().is_some();
        if view.role.is_some() {
            self.is_lost.set(false);
            self.has_no_cookie.set(false);
            self.problem.set(None);
        } else if was_in {
            self.is_lost.set(true);
        }
        if self.view.with_untracked(|last| last.as_ref() != Some(&view)) {
            self.view.set(Some(view));
        }
    }
}

/// The rank of a role: each may do everything that lower ones may.
fn rank(role: Option<Role>) -> u8 {
    match role {
        None => 0,
        Some(Role::Student) => 1,
        Some(Role::Projector) => 2,
        Some(Role::Teacher) => 3,
    }
}

/// The controls of a teacher's page and the outcome of the last one.
#[derive(Clone, Copy)]
pub struct Teacher {
    session: Session,
    /// Why the last control failed.
    pub problem: RwSignal<Option<String>>,
    /// The last control that the relay refused, until one succeeds.
    pub refused: RwSignal<Option<Control>>,
}

impl Teacher {
    pub fn new(session: Session) -> Self {
        Self { session, problem: RwSignal::new(None), refused: RwSignal::new(None) }
    }

    pub fn is_here(self) -> bool {
        self.session.role() == Some(Role::Teacher)
    }

    /// Keeps an editor in step with the room. `show` gets the present or pending value whenever it changes, and again
    /// whenever a control has failed.
    pub fn follow<T: Clone + PartialEq + Send + Sync + 'static>(
        self,
        room: Memo<Option<T>>,
        show: impl Fn(T) + Copy + 'static,
    ) {
        Effect::new(move |_| room.get().into_iter().for_each(show));
        Effect::new(move |_| {
            if self.problem.with(Option::is_some) {
                room.get_untracked().into_iter().for_each(show);
            }
        });
    }

    /// Sends a control and reports its failure in `problem`, next to where it was requested. Nothing of the control is
    /// kept.
    pub fn ask(self, control: Control, problem: RwSignal<Option<String>>) {
        problem.set(None);
        spawn_local(async move { problem.set(self.checked(api::control(&control).await).err()) });
    }

    /// Sends a control; errors appear above the controls.
    pub fn send(self, control: Control) {
        self.send_all(vec![control]);
    }

    pub fn forget_problem(self) {
        self.refused.set(None);
        self.problem.set(None);
    }

    /// Sends controls as one, without waiting for the answer; see [`send_together`](Self::send_together).
    pub fn send_all(self, controls: Vec<Control>) {
        spawn_local(self.send_together(controls));
    }

    /// Sends controls as one, so that no round begins between them. The relay carries them out up to the first that it
    /// refuses. Clears an earlier error.
    pub async fn send_together(self, mut controls: Vec<Control>) {
        self.forget_problem();
        let control = match controls.len() {
            0 => return,
            1 => controls.remove(0),
            _ => Control::Together { controls },
        };
        if let Err(problem) = self.checked(api::control(&control).await) {
            self.refused.set(Some(control));
            self.problem.set(Some(problem));
        }
    }

    /// Returns the same outcome. A failure may be the first sign that the relay no longer knows this page, so the
    /// session is checked.
    pub fn checked(self, outcome: Result<(), String>) -> Result<(), String> {
        if outcome.is_err() {
            self.session.check();
        }
        outcome
    }
}

/// The error of the request beside it.
#[component]
pub fn Problem(problem: RwSignal<Option<String>>) -> impl IntoView {
    view! {
        <p class="problem" role="alert" data-testid="problem" hidden=move || problem.with(Option::is_none)>
            {move || problem.get()}
        </p>
    }
}
