//! What a student sees after joining.

use leptos::prelude::*;

use super::{
    draft::Draft, leaving::Leaving, pixels::Pixels, question::PassphrasePrompt, seen::Attacks, shard::TrainsOn,
    trainer::Trainer, trial::TryPicture,
};
use crate::{
    page::{chart::sparkline, classes, words},
    protocol::Connection,
};

const SPARK_WIDTH: f32 = 120.0;
const SPARK_HEIGHT: f32 = 32.0;

/// The running session.
#[component]
pub fn Session(
    /// The picture and label that were joined with.
    draft: Draft,
    /// What the worker says.
    trainer: Trainer,
) -> impl IntoView {
    view! {
        <Closed trainer/>
        <PassphrasePrompt draft trainer/>
        <Status draft trainer/>
        <Notices trainer/>
        <TrainsOn trainer/>
        <Attacks trainer/>
        <TryPicture draft trainer/>
        <Leaving trainer/>
        <p class="session-end">
            <button type="button" class="button" data-testid="leave" on:click=move |_| trainer.leave()>
                "Leave the room"
            </button>
        </p>
    }
}

/// Why the room closed the connection for good.
#[component]
fn Closed(trainer: Trainer) -> impl IntoView {
    let reason = move || match trainer.connection.get() {
        Some(Connection::Closed { reason }) => Some(reason),
        _ => None,
    };
    view! {
        <p class="banner error" role="alert" data-testid="closed" hidden=move || reason().is_none()>
            <strong>"The connection is closed. "</strong>
            {reason}
        </p>
    }
}

#[component]
fn Status(draft: Draft, trainer: Trainer) -> impl IntoView {
    let nickname = move || match trainer.connection.get() {
        Some(Connection::Online { nickname, .. }) => nickname,
        _ => draft.nickname.get(),
    };
    let round = move || trainer.plan.get().map(|plan| plan.round);
    let doing = move || match (trainer.is_busy.get(), trainer.sent.get()) {
        _ if trainer.question.with(Option::is_some) => "waiting for the passphrase".to_owned(),
        (true, _) => "training…".to_owned(),
        (false, Some(sent)) => format!("update sent after {}", words::duration(sent.milliseconds)),
        (false, None) => "waiting for the teacher to start".to_owned(),
    };
    let device = move || trainer.device.get();
    let loss = move || trainer.losses.with(|losses| losses.last().copied());
    let room = move || match trainer.closed.get() {
        Some(closed) => match closed.loss {
            Some(loss) => format!("room: {loss:.3}, mean of {} in round {}", closed.updates, closed.round),
            None => format!("room: no update came in round {}", closed.round),
        },
        None => "room: no round closed yet".to_owned(),
    };
    let curve = move || trainer.losses.with(|losses| sparkline(losses, SPARK_WIDTH, SPARK_HEIGHT));
    let label = move || draft.classes.with(|all| classes::name(all, draft.label.get().into()));
    let shared = Memo::new(move |_| trainer.plan.with(|plan| plan.as_ref().and_then(|plan| plan.shared)));
    view! {
        <section class="tiles" aria-label="This tab">
            <div class="tile own">
                <Pixels
                    picture=Signal::derive(move || draft.picture.get().map(|picture| picture.pixels))
                    label="Your private picture"
                    class="photo"
                />
                <div>
                    <h2 data-testid="room-nickname">{nickname}</h2>
                    <p class="sub" data-testid="trains-on" data-shared=move || shared.get().unwrap_or(0)>
                        {move || if shared.get().is_some() {
                            "your private picture is not used now; it stays here".to_owned()
                        } else {
                            format!("private picture, trained as {}; it stays here", label())
                        }}
                    </p>
                </div>
            </div>
            <div class="tile">
                <h3>"Round"</h3>
                <p class="figure" data-testid="round" data-round=move || round().unwrap_or(0)>
                    {move || round().map_or("–".to_owned(), |round| round.to_string())}
                </p>
                <p class="sub" data-testid="doing">{doing}</p>
            </div>
            <div class="tile">
                <h3>"Computes on"</h3>
                <p class="figure" data-testid="device" data-device=move || device().map(|(name, _)| name)>
                    {move || device().map_or("measuring…".to_owned(), |(name, _)| name)}
                </p>
                <p class="sub" data-testid="device-reason">{move || device().map(|(_, reason)| reason)}</p>
            </div>
            <div class="tile">
                <h3>{move || words::trained_loss(shared.get().is_some())}</h3>
                <p class="figure spread">
                    <span data-testid="loss" data-loss=move || loss().map(|loss| loss.to_string())>
                        {move || loss().map_or("–".to_owned(), |loss| format!("{loss:.3}"))}
                    </span>
                    <svg class="spark" viewBox=format!("-4 -4 {} {}", SPARK_WIDTH + 8.0, SPARK_HEIGHT + 8.0) aria-hidden="true">
                        <path d=move || curve().0></path>
                        {move || curve().1.map(|(x, y)| view! { <circle cx=x cy=y r="3"></circle> })}
                    </svg>
                </p>
                <p class="sub" data-testid="room-loss">{room}</p>
            </div>
            <div class="tile">
                <h3>"Sent"</h3>
                <p
                    class="figure"
                    data-testid="bytes"
                    data-bytes=move || trainer.bytes.get().0
                    data-plain-bytes=move || trainer.bytes.get().1
                >
                    {move || words::bytes(trainer.bytes.get().0)}
                </p>
                <p class="sub">{move || format!("{} if nothing were protected", words::bytes(trainer.bytes.get().1))}</p>
            </div>
            <div class="tile wide">
                <h3>"Model, rule and defence"</h3>
                <p class="figure small" data-testid="model">
                    {move || trainer.plan.get().map_or("–".to_owned(), |plan| plan.model)}
                </p>
                <p class="sub" data-testid="rule" data-rule=move || trainer.plan.get().map(|plan| plan.rule.to_string())>
                    {move || trainer.plan.get().map(|plan| words::rule(plan.rule))}
                </p>
                <p class="sub" data-testid="defence" data-defence=move || trainer.plan.get().map(|plan| plan.defence.to_string())>
                    {move || trainer.plan.get().map(|plan| words::defence(&plan.defence))}
                </p>
            </div>
        </section>
    }
}

#[component]
fn Notices(trainer: Trainer) -> impl IntoView {
    view! {
        <ul class="notices" aria-live="polite" data-testid="notices">
            <For each=move || trainer.notices.get() key=|(number, _)| *number let:notice>
                <li data-testid="notice">{notice.1}</li>
            </For>
        </ul>
    }
}
