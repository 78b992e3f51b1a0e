//! What holds after every step, and at the end.

use std::{sync::Arc, time::Duration};

use unmask_core::{Defence, Rule, TrainOn};
use unmask_lesson::{Question, Scene};
use unmask_room::{
    Size,
    bench::{Bench, End},
    digest,
};
use unmask_wire::view::{ClientState, Control, RoomView};

use crate::{
    script::{Fate, Kind, Step},
    world::World,
};

/// Lines that the room shows at most.
const LINES: usize = 100;

/// Checks everything; the error says what is broken.
pub fn check(world: &mut World) -> Result<(), String> {
    let view = world.bench.view();
    weights_are_finite(&world.bench)?;
    bounds(&world.bench, &view)?;
    only_who_agrees_is_shown(world, &view)?;
    updates_are_counted_once(world, &view)?;
    if let Some(left) = &world.told_too_early {
        return Err(format!("goodbye: told of a deletion while {left}"));
    }
    if let Some(control) = &world.changed_by_refusal {
        return Err(format!("refusal: {control} was refused and changed the room"));
    }
    restart_goes_on(world, &view)?;
    // The weights are others only after a round, or for another model.
    let model = world.bench.model();
    if !std::ptr::eq(world.seen.as_ptr(), Arc::as_ptr(model)) {
        let (seen, digest) = (Arc::downgrade(model), digest(&model.state.weights));
        world.seen = seen;
        world.known.insert(digest);
    }
    Ok(())
}

fn weights_are_finite(bench: &Bench) -> Result<(), String> {
    match bench.model().state.weights.iter().position(|weight| !weight.is_finite()) {
        Some(at) => Err(format!("weights: weight {at} is not finite")),
        None => Ok(()),
    }
}

fn bounds(bench: &Bench, view: &RoomView) -> Result<(), String> {
    if let Some(Size { what, count, most }) = bench.sizes().find(|size| size.count > size.most) {
        return Err(format!("bounds: {count} {what}, and {most} are the bound"));
    }
    if view.log.len() > LINES {
        return Err(format!("bounds: {} log lines are shown", view.log.len()));
    }
    if let Some(line) = view.log.iter().find(|line| line.text.chars().count() > 600) {
        return Err(format!("bounds: a log line of {} characters", line.text.chars().count()));
    }
    Ok(())
}

fn only_who_agrees_is_shown(world: &World, view: &RoomView) -> Result<(), String> {
    let shown = view
        .attacks
        .iter()
        .map(|card| card.client)
        .chain(view.leaks.iter().map(|leak| leak.client))
        .chain(view.sum.iter().flat_map(|sum| sum.clients.iter().copied()))
        .chain(view.label.iter().map(|label| label.client))
        .chain(view.membership.iter().filter(|card| card.verdict.is_some()).map(|card| card.client))
        .chain(view.clients.iter().filter(|client| client.original.is_some()).map(|client| client.id));
    for client in view.sum.iter().flat_map(|sum| &sum.clients) {
        if view.clients.iter().all(|entry| entry.id != *client || entry.original.is_none()) {
            return Err(format!("consent: client {client} is in a sum and shows no picture"));
        }
    }
    for client in shown {
        let agrees = world.people.iter().any(|person| person.id == Some(client) && person.may_show);
        if !agrees {
            return Err(format!("consent: client {client} is shown and has not agreed"));
        }
        if view.clients.iter().all(|entry| entry.id != client || entry.state == ClientState::Gone) {
            return Err(format!("consent: client {client} is shown and has left"));
        }
    }
    Ok(())
}

fn updates_are_counted_once(world: &World, view: &RoomView) -> Result<(), String> {
    let Some(last) = view.losses.last() else { return Ok(()) };
    let senders = world.contributors.get(&last.round).map_or(0, |senders| senders.len());
    if last.updates as usize > senders {
        return Err(format!("counting: round {} took {} updates of {senders} clients", last.round, last.updates));
    }
    Ok(())
}

fn restart_goes_on(world: &World, view: &RoomView) -> Result<(), String> {
    let Some(before) = &world.restarted else { return Ok(()) };
    if view.clients.iter().any(|client| client.state != ClientState::Gone) {
        return Err("restart: somebody is present right after it".to_owned());
    }
    let weights = &world.bench.model().state.weights;
    let digest = digest(weights);
    // Within one step, a model may come and go.
    let is_known = world.known.contains(&digest) || world.disk.was_given(&digest);
    if world.disk.has_lesson() && !is_known {
        return Err("restart: the room never had these weights".to_owned());
    }
    if before.end == End::Orderly && before.could_write {
        if world.bench.model().state.weights != before.weights_before {
            return Err("restart: the weights are not those of the last round".to_owned());
        }
        let mut lesson = before.lesson_before.clone();
        // Lent updates are on no disk, so the question about them is taken back.
        lesson.poll.take_if(|asked| asked.poll.question == Question::WhoseUpdate);
        if view.lesson != lesson {
            return Err(format!("restart: the lesson was at {lesson:?}"));
        }
    }
    Ok(())
}

/// Nothing names a client whose data was deleted, once the disk has caught up.
pub fn forgotten_are_gone(world: &mut World) -> Result<(), String> {
    world.disk.fill(false);
    // The attacks that wait would take most of the time.
    world.bench.control(Control::AttackBudget { seconds: 0.0 }).map_err(|reason| format!("end: {reason}"))?;
    world.bench.be_lazy(false);
    // Both files of the journal are written again.
    world.bench.pass(Duration::from_secs(6));
    world.hear_farewells();
    let view = serde_json::to_string(world.bench.view().as_ref()).expect("it is JSON");
    world.bench.be_lazy(true);
    for name in &world.forgotten {
        if view.contains(name.as_str()) {
            return Err(format!("deletion from the view: {name} is in {}", around(&view, name)));
        }
        if let Some(left) = world.left_of(name) {
            return Err(format!("deletion from the disk: {left}"));
        }
    }
    Ok(())
}

/// Two honest clients complete a round within this time, whatever happened before.
const PATIENCE: Duration = Duration::from_secs(300);

/// A room that two honest clients join goes on learning.
pub fn learning_goes_on(world: &mut World) -> Result<(), String> {
    world.bench.be_lazy(false);
    world.everybody_leaves();
    let calm = [
        // Some scenes ask only those who agree to be shown.
        Control::Lesson { scene: Scene::Lobby, beat: 0 },
        Control::LiftBans,
        Control::ApproveFirst { on: false },
        Control::Approve { client: None },
        Control::Lock { on: false },
        Control::Defence { defence: Defence::None },
        Control::Rule { rule: Rule::FedSgd },
        Control::Batch { samples: 1 },
        Control::TrainOn { pictures: TrainOn::Private },
        Control::Reset,
        Control::Start,
    ];
    for control in calm {
        let what = format!("{control:?}");
        world.bench.control(control).map_err(|reason| format!("learning: {what} is refused: {reason}"))?;
    }
    let mut waited = Duration::ZERO;
    while waited < PATIENCE {
        for who in [0, 1] {
            // A browser whose earlier tabs still count as here is turned away, and its owner tries again.
            if world.is_away(who) && waited.as_secs().is_multiple_of(60) {
                world.take(&Step::Join { who, kind: Kind::Honest, may_show: false, may_lend: false });
            }
            world.take(&Step::Act { who, seed: 1 });
            world.take(&Step::Deliver { who, fate: Fate::Arrives });
        }
        world.bench.pass(Duration::from_secs(1));
        waited += Duration::from_secs(1);
        if world.bench.view().losses.last().is_some_and(|last| last.updates == 2) {
            return Ok(());
        }
    }
    Err(format!("learning: no round of two honest clients in {PATIENCE:?}: {:?}", world.bench.view().log.last()))
}

fn around(text: &str, name: &str) -> String {
    let at = text.find(name).unwrap_or_default();
    let from = text[..at].char_indices().rev().nth(60).map_or(0, |(from, _)| from);
    text[from..].chars().take(160).map(|c| if c.is_control() { '.' } else { c }).collect()
}
