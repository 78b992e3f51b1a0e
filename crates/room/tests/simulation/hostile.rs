//! What a few students try in vain: to hold up rounds, and to stop learning.

use std::time::Duration;

use unmask_core::Aggregation;
use unmask_journal::simulated::Disk;
use unmask_room::bench::{End, Sent};
use unmask_wire::{ClientMessage, PlanHeader, RelayMessage, view::Control};

use crate::class::{Class, RATE, architecture, distance};

const HONEST: usize = 9;
/// Fewer than a fifth: otherwise the first two rounds end at their deadline.
const STALLERS: usize = 2;
/// Rounds in which stallers may still be waited for.
const PATIENT: usize = 6;
const ROUNDS: usize = 42;

/// What somebody does who wants the class to wait.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stall {
    /// Says that it was unable, as soon as a round is over.
    UnableAfterwards,
    /// Sends its update when the round is over.
    LateUpdate,
    /// Never answers, and asks to come back.
    Returns,
    /// Answers every second round in time.
    EverySecond,
    /// Says that it lacks the passphrase, as late as it can.
    Locked,
    /// Goes to the background as late as it can, and comes back when the round is over.
    Hides,
}

/// Does what a staller does; returns whether it answered in time.
fn stall(class: &mut Class, socket: usize, how: Stall, held: &mut Option<PlanHeader>, is_even: bool) {
    for sent in class.bench.sent(socket) {
        match sent {
            Sent::Model(message, _) => {
                if let RelayMessage::Plan(plan) = message.as_ref() {
                    *held = Some(plan.clone());
                    if how == Stall::EverySecond && is_even {
                        class.update(socket, plan, &Class::gradient());
                    }
                }
            }
            Sent::Message(RelayMessage::Closed { .. }) => {
                let Some(plan) = held.take() else { continue };
                let (round, policy) = (plan.round, plan.policy);
                match how {
                    Stall::UnableAfterwards => {
                        let reason = "busy".to_owned();
                        class.say(socket, &ClientMessage::Unable { round, policy, reason, is_locked: false }, &[]);
                    }
                    Stall::LateUpdate | Stall::EverySecond => class.update(socket, &plan, &Class::gradient()),
                    Stall::Hides => {
                        class.update(socket, &plan, &Class::gradient());
                        class.say(socket, &ClientMessage::Visibility { is_hidden: false }, &[]);
                    }
                    Stall::Returns | Stall::Locked => {}
                }
            }
            Sent::Message(RelayMessage::SittingOut) if matches!(how, Stall::Returns | Stall::Locked) => {
                class.say(socket, &ClientMessage::Return, &[]);
            }
            _ => {}
        }
    }
}

/// Just before others stop waiting, does what might hide that they waited.
fn give_way(class: &mut Class, how: Stall, held: &mut [Option<PlanHeader>; STALLERS]) {
    for (staller, held) in held.iter_mut().enumerate() {
        let socket = class.sockets[HONEST + staller];
        let Some(plan) = held else { continue };
        match how {
            Stall::Locked => {
                let (round, policy, reason) = (plan.round, plan.policy, "no passphrase".to_owned());
                class.say(socket, &ClientMessage::Unable { round, policy, reason, is_locked: true }, &[]);
                *held = None;
            }
            Stall::Hides => class.say(socket, &ClientMessage::Visibility { is_hidden: true }, &[]),
            _ => {}
        }
    }
}

/// Two of eleven clients that stall make others wait for a few rounds, five seconds each, and then for one in nine.
#[test]
fn clients_that_never_train_hold_nobody_up() {
    for how in
        [Stall::UnableAfterwards, Stall::LateUpdate, Stall::Returns, Stall::EverySecond, Stall::Locked, Stall::Hides]
    {
        let mut class = Class::of(HONEST + STALLERS, |_| {});
        class.bench.control(Control::Start).unwrap();
        let (mut held, mut waits): ([Option<PlanHeader>; STALLERS], _) = (Default::default(), Vec::new());
        for number in 0..ROUNDS {
            for honest in 0..HONEST {
                let socket = class.sockets[honest];
                let (plan, _) = class.plan(socket).expect("a plan");
                class.bench.pass(Duration::from_millis(10));
                class.update(socket, &plan, &Class::gradient());
            }
            let (round, mut waited) = (class.bench.view().round, Duration::ZERO);
            while class.bench.view().round == round {
                for (staller, held) in held.iter_mut().enumerate() {
                    let socket = class.sockets[HONEST + staller];
                    stall(&mut class, socket, how, held, number % 2 == 0);
                }
                if waited == Duration::from_millis(4800) {
                    give_way(&mut class, how, &mut held);
                }
                class.bench.pass(Duration::from_millis(100));
                waited += Duration::from_millis(100);
                assert!(waited < Duration::from_secs(7), "{how:?}: round {round} waits {waited:?}");
            }
            if waited > Duration::from_secs(1) {
                waits.push(number);
            }
        }
        let late = waits.iter().filter(|number| **number >= PATIENT).count();
        assert!(late <= (ROUNDS - PATIENT) / 9, "{how:?}: the rounds {waits:?} wait for those who stall");
    }
}

/// Three of eleven answer first, with next to nothing. Learning goes on at half its speed at least.
#[test]
fn quick_tiny_updates_do_not_stop_learning() {
    let mut class = Class::of(11, |config| config.aggregation = Aggregation::Clipped);
    class.bench.control(Control::Start).unwrap();
    let (before, rounds) = (class.weights(), 3);
    for _ in 0..rounds {
        for number in 0..11 {
            let socket = class.sockets[number];
            let (plan, _) = class.plan(socket).expect("a plan");
            let mut values = Class::gradient();
            if number < 3 {
                values.fill(1e-12);
            }
            class.update(socket, &plan, &values);
        }
        class.bench.pass(Duration::from_millis(200));
    }
    let usual = f64::from(RATE) * distance(&Class::gradient(), &vec![0.0; before.len()]) * f64::from(rounds);
    let moved = distance(&class.weights(), &before);
    assert!(moved >= 0.5 * usual, "the model moved {moved:.1e}, and {usual:.1e} is usual");
}

/// One browser opens as many sockets as there are places. Another student still gets in.
#[test]
fn one_browser_does_not_fill_the_room() {
    let mut class = Class::of(0, |config| config.limits.clients = 30);
    let came: Vec<bool> = (0..40)
        .map(|_| {
            let socket = class.bench.connect_from(7);
            class.join(socket, None).is_some()
        })
        .collect();
    assert_eq!(came.iter().filter(|came| **came).count(), 4, "tabs of one browser");
    let student = class.bench.connect_from(8);
    assert!(class.join(student, None).is_some());
}

/// Strangers do not take the places of students whose connections break for nearly two minutes.
#[test]
fn students_find_their_places_kept() {
    const STUDENTS: usize = 15;
    let mut class = Class::of(0, |config| config.limits.clients = 30);
    let mut tickets = Vec::new();
    for number in 0..STUDENTS {
        let socket = class.bench.connect_from(number as u128);
        class.sockets.push(socket);
        tickets.push(class.join(socket, None));
    }
    class.bench.control(Control::OneRound).unwrap();
    for socket in class.sockets.clone() {
        let (plan, _) = class.plan(socket).expect("a plan");
        class.update(socket, &plan, &Class::gradient());
    }
    class.sockets.clone().into_iter().for_each(|socket| class.bench.close(socket));
    class.bench.pass(Duration::from_secs(119));
    let strangers = (100..140).filter(|cookie| {
        let socket = class.bench.connect_from(*cookie);
        class.join(socket, None).is_some()
    });
    assert_eq!(strangers.count(), 15, "half of the room at most is kept");
    for (number, ticket) in tickets.into_iter().enumerate() {
        let socket = class.bench.connect_from(number as u128);
        assert!(class.join(socket, ticket).is_some(), "student {number}");
    }
}

/// A client that was left out after three refused updates does not get back in by joining again from the same browser,
/// not even after a restart. The teacher can let it in.
#[test]
fn who_is_left_out_stays_out() {
    let disk = Disk::new(1);
    let mut class = Class::on(disk, 3, |_| {});
    class.bench.control(Control::Start).unwrap();
    let hostile = class.sockets[0];
    for _ in 0..3 {
        let (plan, _) = class.plan(hostile).expect("a plan");
        class.update(hostile, &plan, &vec![f32::NAN; architecture().layout().len()]);
        for honest in [1, 2] {
            let socket = class.sockets[honest];
            let (plan, _) = class.plan(socket).expect("a plan");
            class.update(socket, &plan, &Class::gradient());
        }
        class.bench.pass(Duration::from_secs(1));
    }
    class.bench.close(hostile);
    let again = |class: &mut Class| {
        let socket = class.bench.connect_from(0);
        class.join(socket, None).expect("a ticket");
        class.bench.pass(Duration::from_secs(61));
        (class.plan(socket).is_some(), class.bench.view().clients.last().expect("a client").id)
    };
    assert!(!again(&mut class).0, "it joins again");
    class.bench.restart(End::Orderly).unwrap();
    class.bench.control(Control::Start).unwrap();
    let (is_asked, client) = again(&mut class);
    assert!(!is_asked, "it joins again after a restart");
    class.bench.control(Control::Readmit { client }).unwrap();
    assert!(again(&mut class).0, "the teacher has let it in");
}

/// Somebody subtracts what is known from the difference of two plans. Of two clients, what is left is the other's update:
/// so from three people on, a step needs three of them, and robots do not stand in for people.
#[test]
fn a_neighbours_update_cannot_be_computed() {
    for answers in [[true, true, false], [true, true, true]] {
        let mut class = Class::of(3, |config| config.aggregation = Aggregation::Mean);
        let robot = class.join_as_robot();
        class.bench.control(Control::Start).unwrap();
        let (plan, before) = class.plan(robot).expect("a plan");
        assert_eq!(plan.least, 3);
        class.update(robot, &plan, &vec![0.5; before.len()]);
        for (client, _) in answers.into_iter().enumerate().filter(|(_, answers)| *answers) {
            class.update(class.sockets[client], &plan, &Class::gradient());
        }
        class.bench.pass(Duration::from_secs(61));
        let view = class.bench.view();
        let void = view.log.iter().any(|line| line.text.contains("only 2 of at least 3 updates came from people"));
        assert_eq!((void, class.weights() == before), (!answers[2], !answers[2]), "{answers:?}");
    }
}
