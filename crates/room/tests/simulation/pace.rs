//! Rounds go at the pace of those who answer.

use std::time::Duration;

use unmask_room::bench::Sent;
use unmask_wire::{ClientMessage, PlanHeader, RelayMessage, view::Control};

use crate::class::Class;

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
                    Stall::Returns => {}
                }
            }
            Sent::Message(RelayMessage::SittingOut { .. }) if how == Stall::Returns => {
                class.say(socket, &ClientMessage::Return, &[]);
            }
            _ => {}
        }
    }
}

/// Two of eleven clients that stall make others wait for a few rounds, five seconds each, and then for one in nine.
#[test]
fn clients_that_never_train_hold_nobody_up() {
    for how in [Stall::UnableAfterwards, Stall::LateUpdate, Stall::Returns, Stall::EverySecond] {
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
