//! What a determined student can still do: scenarios that fail today. The one that passes is to become an ordinary test.

use std::time::Duration;

use unmask_core::Aggregation;
use unmask_federation::Quorum;
use unmask_wire::view::Control;

use crate::class::{Class, RATE, distance};

/// Runs a scenario that is known to fail until the issue is done.
fn fails_until(issue: &str, scenario: impl FnOnce() -> Result<(), String>) {
    match scenario() {
        Ok(()) => panic!("this holds now: make it an ordinary test, and take it off the list of {issue}"),
        Err(broken) => println!("expected until {issue}: {broken}"),
    }
}

const NOBODY: &str = "\"Nobody stops the class\"";

/// Of two clients, one subtracts its own update from the difference of two plans. What is left is not the other's update.
#[test]
fn a_neighbours_update_cannot_be_computed() {
    fails_until(&format!("{NOBODY}, item 6"), || {
        let mut class = Class::of(2, |config| {
            (config.aggregation, config.quorum) = (Aggregation::Mean, Quorum::default());
        });
        class.bench.control(Control::Start).unwrap();
        let [curious, other] = [class.sockets[0], class.sockets[1]];
        let (plan, before) = class.plan(curious).expect("a plan");
        let (own, secret) = (vec![0.25; before.len()], Class::gradient());
        class.update(curious, &plan, &own);
        class.update(other, &plan, &secret);
        class.bench.pass(Duration::from_secs(1));
        let Some((_, after)) = class.plan(curious) else { return Ok(()) };
        let guess: Vec<f32> = before
            .iter()
            .zip(&after)
            .zip(&own)
            .map(|((before, after), own)| 2.0 * (before - after) / RATE - own)
            .collect();
        let error = distance(&guess, &secret) / distance(&secret, &vec![0.0; secret.len()]);
        if error > 0.1 { Ok(()) } else { Err(format!("it is known with a relative error of {error:.1e}")) }
    });
}
