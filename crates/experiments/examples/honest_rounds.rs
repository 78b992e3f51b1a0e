//! Counts the doubts that careful clients raise in honest rounds, over rules, optimisers, aggregations, defences, resets and
//! new models drawn at random:
//!
//!     cargo xtask example honest_rounds 10000 1

use std::error::Error;

#[path = "../tests/support/honest.rs"]
mod honest;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let seed = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let honest::Played { rounds, plans, steps, alarms, in_force, resets, refusals } = honest::play(rounds, seed);
    println!("{rounds} rounds, of which {steps} follow another one; {resets} fresh starts; {plans} plans looked at");
    println!("{} updates were refused, such as: {}", refusals.len(), refusals.first().map_or("none", |reason| reason));
    for (name, rounds) in in_force {
        println!("  {rounds:6} rounds: {name}");
    }
    for alarm in &alarms {
        println!("{alarm}");
    }
    println!("{} false alarms", alarms.len());
    Ok(())
}
