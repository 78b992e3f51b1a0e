//! What the teacher can do.

use unmask_defence::Defence;
use unmask_federation::{ClientId, Event, GlobalModel};
use unmask_params::{InitOptions, ModelSpec, initial_weights};
use unmask_wire::view::Control;

use super::Actor;
use crate::random;

impl Actor {
    /// Carries out a control.
    ///
    /// # Errors
    /// A sentence that names what cannot be done.
    pub(super) fn control(&mut self, control: Control) -> Result<(), String> {
        match control {
            Control::Start => self.teacher("started the rounds", Event::Start),
            Control::Pause => self.teacher("paused; the running round still ends", Event::Pause),
            Control::OneRound => self.teacher("asked for one round", Event::OneRound),
            Control::Reset => {
                let model = fresh_model(self.coming_spec())?;
                self.deadline = None;
                self.plan = None;
                self.teacher("reset the model", Event::Reset(model));
                self.forget_earlier_model();
            }
            Control::Defence { defence } => {
                let defence: Defence = defence.parse().map_err(|error| format!("{error}."))?;
                self.teacher(
                    &format!("chose the defence {defence} from the next round on"),
                    Event::SetDefence(defence),
                );
            }
            Control::AprilBlock { on } => {
                let spec = self.coming_spec();
                if spec.april_block != on {
                    let model = fresh_model(spec.with_april_block(on))?;
                    let what = if on { "the April block" } else { "the standard block" };
                    self.teacher(&format!("chose {what} from the next round on"), Event::SetModel(model));
                }
            }
            Control::Target { client } => {
                let id = ClientId(client);
                let entry = self.roster.get(id).ok_or_else(|| format!("There is no client {client} in the room."))?;
                if entry.link.is_none() {
                    return Err(format!("{} (client {client}) is gone; choose somebody who is there.", entry.nickname));
                }
                let what = format!("has the relay attack {}", entry.nickname);
                self.teacher(&what, Event::SetTarget(Some(id)));
            }
        }
        Ok(())
    }

    fn teacher(&mut self, what: &str, event: Event) {
        self.say(format!("The teacher {what}."));
        self.feed(event);
    }

    /// The model from the next round on.
    fn coming_spec(&self) -> ModelSpec {
        self.room.next_model().unwrap_or(self.room.model().spec)
    }
}

fn fresh_model(spec: ModelSpec) -> Result<GlobalModel, String> {
    let seed = random::seed().map_err(|error| format!("No new weights: {error}."))?;
    Ok(GlobalModel { spec, weights: initial_weights(&spec.config(), seed, InitOptions::default()) })
}
