//! What this page may see and do, and for the teacher what came of it. A link's secret or the room's PIN is shown to the relay
//! once; after that a cookie speaks for the page, and nothing of it is kept here.

use std::time::Duration;

use gloo_timers::future::sleep;
use leptos::prelude::*;
use unmask_wire::view::{Control, Role, SessionRequest, SessionView};
use wasm_bindgen_futures::spawn_local;

use super::api::{self, Failure};

/// How long a relay that does not answer is left alone before it is asked again.
const AGAIN: Duration = Duration::from_secs(2);

/// Who this page is to the relay.
#[derive(Clone, Copy)]
pub struct Session {
    /// `None` until the relay has answered.
    view: RwSignal<Option<SessionView>>,
    role: Memo<Option<Role>>,
    /// Why the relay does not let this page in, or does not answer.
    pub problem: RwSignal<Option<String>>,
    /// Whether the relay has let this page in before, and does not know it any more.
    pub is_lost: RwSignal<bool>,
    /// Whether a PIN is being tried.
    pub is_trying: RwSignal<bool>,
    /// What is typed of a PIN; the form is made anew in another language.
    pub typed_pin: RwSignal<String>,
}

impl Session {
    /// Of a page that watches a recorded lesson: it may see all of it and control nothing, and asks no relay.
    pub fn of_watcher() -> Self {
        Self::new(Some(SessionView { role: Some(Role::Projector), ..SessionView::default() }))
    }

    fn new(view: Option<SessionView>) -> Self {
        let view = RwSignal::new(view);
        Self {
            view,
            role: Memo::new(move |_| view.with(|view| view.as_ref().and_then(|view| view.role))),
            problem: RwSignal::new(None),
            is_lost: RwSignal::new(false),
            is_trying: RwSignal::new(false),
            typed_pin: RwSignal::new(String::new()),
        }
    }

    /// By the secret in the page's address, now or when that changes; else by the cookie of an earlier visit.
    pub fn open() -> Self {
        let session = Self::new(None);
        session.introduce(api::take_secret());
        // A link pasted into this very tab changes the fragment only and loads nothing.
        let handle = window_event_listener(leptos::ev::hashchange, move |_| {
            if let Some(secret) = api::take_secret() {
                session.introduce(Some(secret));
            }
        });
        on_cleanup(move || handle.remove());
        session
    }

    /// What the relay says of this page, once it lets it in.
    pub fn admitted(self) -> Option<SessionView> {
        self.view.get().filter(|view| view.role.is_some())
    }

    /// Absent before the relay has answered, too.
    pub fn role(self) -> Option<Role> {
        self.role.get()
    }

    /// Whether the relay has said who this page is, if only nobody.
    pub fn is_settled(self) -> bool {
        self.view.with(Option::is_some)
    }

    /// Whether this page may see the room.
    pub fn may_watch(self) -> bool {
        matches!(self.role(), Some(Role::Projector | Role::Teacher))
    }

    /// Tries a PIN of six digits.
    pub fn try_pin(self, pin: String) {
        self.is_trying.set(true);
        spawn_local(async move {
            match api::enter(&SessionRequest { secret: None, pin: Some(pin) }).await {
                Ok(view) => self.take(view),
                Err(failure) => self.problem.set(Some(failure.reason())),
            }
            self.is_trying.set(false);
        });
    }

    /// Asks whether the relay still knows this page: one that has begun another lesson does not.
    pub fn check(self) {
        spawn_local(async move {
            // A relay that does not answer has forgotten nobody.
            if let Ok(view) = api::session().await {
                self.take(view);
            }
        });
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

    /// Shows the relay a secret, unless this page already may do as much.
    async fn ask(self, secret: Option<&(Role, String)>) -> Result<SessionView, Failure> {
        let known = api::session().await?;
        match secret {
            // All tabs of a browser share one cookie. A teacher who looks at the students' page too remains the teacher.
            Some((role, secret)) if rank(known.role) < rank(Some(*role)) => {
                let secret = Some(secret.clone());
                let entered = api::enter(&SessionRequest { secret, pin: None }).await;
                if entered.is_err() {
                    self.take(known);
                }
                entered
            }
            _ => Ok(known),
        }
    }

    fn take(self, view: SessionView) {
        let was_in = self.role.get_untracked().is_some();
        if view.role.is_some() {
            self.is_lost.set(false);
            self.problem.set(None);
        } else if was_in {
            self.is_lost.set(true);
        }
        if self.view.with_untracked(|last| last.as_ref() != Some(&view)) {
            self.view.set(Some(view));
        }
    }
}

/// Roles by what they may do: each may do what those before it may.
fn rank(role: Option<Role>) -> u8 {
    match role {
        None => 0,
        Some(Role::Student) => 1,
        Some(Role::Projector) => 2,
        Some(Role::Teacher) => 3,
    }
}

/// The controls of a page whose session is the teacher's, and what came of the last one.
#[derive(Clone, Copy)]
pub struct Teacher {
    session: Session,
    /// Why the last control failed.
    pub problem: RwSignal<Option<String>>,
    /// The control that the relay refused last, until one succeeds.
    pub refused: RwSignal<Option<Control>>,
}

impl Teacher {
    /// Nothing has been asked for yet.
    pub fn new(session: Session) -> Self {
        Self { session, problem: RwSignal::new(None), refused: RwSignal::new(None) }
    }

    /// Whether this page may use the controls.
    pub fn is_here(self) -> bool {
        self.session.role() == Some(Role::Teacher)
    }

    /// Keeps a control in step with the room: `show` gets what the room has or will have, whenever that changes, and again
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

    /// Sends a control whose failure is shown where it was asked for, in `problem`. Nothing of the control is kept.
    pub fn ask(self, control: Control, problem: RwSignal<Option<String>>) {
        problem.set(None);
        spawn_local(async move { problem.set(self.checked(api::control(&control).await).err()) });
    }

    /// Sends a control; what goes wrong is shown above the controls.
    pub fn send(self, control: Control) {
        self.send_all(vec![control]);
    }

    /// Forgets why the last control failed.
    pub fn forget_problem(self) {
        self.refused.set(None);
        self.problem.set(None);
    }

    /// Sends controls one after the other, up to the first that fails. What an earlier one left behind is forgotten.
    pub fn send_all(self, controls: Vec<Control>) {
        self.forget_problem();
        spawn_local(async move {
            for control in controls {
                if let Err(problem) = self.checked(api::control(&control).await) {
                    self.refused.set(Some(control));
                    self.problem.set(Some(problem));
                    return;
                }
            }
        });
    }

    /// The same outcome. One that failed may be the first sign of a relay that does not know this page any more.
    pub fn checked(self, outcome: Result<(), String>) -> Result<(), String> {
        if outcome.is_err() {
            self.session.check();
        }
        outcome
    }
}

/// Why what was asked for beside it failed.
#[component]
pub fn Problem(problem: RwSignal<Option<String>>) -> impl IntoView {
    view! {
        <p class="problem" role="alert" data-testid="problem" hidden=move || problem.with(Option::is_none)>
            {move || problem.get()}
        </p>
    }
}
