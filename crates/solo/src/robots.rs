//! The room's robots. They share one thread: on a phone, training side by side would not be faster.

use unmask_client::{
    Caution, Client, ClientEvent, Fresh, Outcome, PrivatePicture, Reaction, Robot, RobotError, RobotEvent,
    RoundPictures, RoundPlan, nickname,
};
use unmask_data::{PHOTOGRAPH_CLASSES, Picture, photograph_label};
use unmask_model::device::OpenDevice;

/// The file of one of [`PHOTOGRAPHS`](unmask_client::PHOTOGRAPHS) in the folder of sample photographs.
#[cfg(any(test, target_family = "wasm"))]
pub(crate) fn file(name: &str) -> String {
    let ending = if ["hubble", "cameraman"].contains(&name) { "jpg" } else { "png" };
    format!("{name}.{ending}")
}

/// Why there are no robots.
#[derive(Debug, thiserror::Error)]
pub enum RobotsError {
    #[error("there is no photograph called \"{0}\" for the robots")]
    NoPhotograph(String),
}

/// Robots, each with a photograph of its own, numbered from 0.
#[derive(Debug)]
pub struct Robots {
    all: Vec<Member>,
}

/// What a robot trains next.
#[derive(Debug)]
pub struct Task {
    pub robot: usize,
    pub plan: Box<RoundPlan>,
    /// The error says why there are none, for the room.
    pub pictures: Result<RoundPictures, String>,
    pub caution: Caution,
}

#[derive(Debug)]
struct Member {
    robot: Robot,
    /// The newest plan that it has not trained.
    plan: Option<Box<RoundPlan>>,
    /// Whether the room has closed its socket for good.
    is_gone: bool,
}

impl Robots {
    /// A robot for each name of a photograph; `photographs` are pictures by their names. `seed` draws the answers to the
    /// class's questions. `fresh` gives random bytes of the operating system.
    ///
    /// # Errors
    /// If a photograph is missing.
    pub fn new(
        names: &[impl AsRef<str>],
        seed: u64,
        photographs: &[(String, Picture)],
        classes: &[String],
        fresh: Fresh,
    ) -> Result<Self, RobotsError> {
        let device = OpenDevice::cpu().description();
        let classes =
            if classes.is_empty() { PHOTOGRAPH_CLASSES.map(str::to_owned).to_vec() } else { classes.to_vec() };
        let member = |(number, name): (usize, &str)| {
            let found = photographs.iter().find(|(known, _)| known == name);
            let (_, picture) = found.ok_or_else(|| RobotsError::NoPhotograph(name.to_owned()))?;
            let own = PrivatePicture::new(picture.clone(), photograph_label(&classes, name));
            let client = Client::new(&nickname(number), &device)
                .with_pictures(vec![own])
                .with_consent(true, true)
                .as_robot(true);
            let robot = Robot::new(client, true, Some(seed.wrapping_add(number as u64)), fresh);
            Ok(Member { robot, plan: None, is_gone: false })
        };
        let all = names.iter().map(AsRef::as_ref).enumerate().map(member).collect::<Result<_, _>>()?;
        Ok(Self { all })
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The frames with which a robot introduces itself on a new socket.
    ///
    /// # Errors
    /// If there are no random numbers.
    pub fn hello(&mut self, number: usize) -> Result<Vec<Vec<u8>>, RobotError> {
        let Some(member) = self.all.get_mut(number) else { return Ok(Vec::new()) };
        member.robot.hello()
    }

    /// Takes a frame for a robot, and returns the frames with its answer.
    ///
    /// # Errors
    /// If the room sent something that no client can use.
    pub fn receive(&mut self, number: usize, frame: &[u8]) -> Result<Vec<Vec<u8>>, RobotError> {
        let Some(member) = self.all.get_mut(number) else { return Ok(Vec::new()) };
        let Reaction { frames, plan, event } = member.robot.receive(frame)?;
        member.plan = plan.or(member.plan.take());
        if matches!(event, Some(RobotEvent::Client(ClientEvent::Goodbye { .. }))) {
            (member.is_gone, member.plan) = (true, None);
        }
        Ok(frames)
    }

    /// Whether the room has sent this robot away.
    pub fn is_gone(&self, number: usize) -> bool {
        self.all.get(number).is_none_or(|member| member.is_gone)
    }

    /// The task of the next robot that has a plan; `None` if none has.
    pub fn task(&mut self) -> Option<Task> {
        let (number, member) = self.all.iter_mut().enumerate().find(|(_, member)| member.plan.is_some())?;
        let plan = member.plan.take()?;
        let (pictures, caution) = (member.robot.pictures(&plan), member.robot.caution());
        Some(Task { robot: number, plan, pictures, caution })
    }

    /// The frames with which a robot answers a plan.
    ///
    /// # Errors
    /// If the update cannot be protected, or there are no random numbers.
    pub fn answer(&mut self, number: usize, plan: &RoundPlan, outcome: Outcome) -> Result<Vec<Vec<u8>>, RobotError> {
        let Some(member) = self.all.get_mut(number) else { return Ok(Vec::new()) };
        member.robot.answer(plan, outcome)
    }

    /// The frames with which a robot tells the room what it trains on.
    ///
    /// # Errors
    /// If the description is too long.
    pub fn device(&mut self, number: usize, description: &str) -> Result<Vec<Vec<u8>>, RobotError> {
        let Some(member) = self.all.get_mut(number) else { return Ok(Vec::new()) };
        member.robot.device(description)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use unmask_client::PHOTOGRAPHS;
    use unmask_data::sample_photographs;

    use super::*;

    #[test]
    fn each_photograph_has_its_file() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
        for name in PHOTOGRAPHS {
            assert!(folder.join(file(name)).exists(), "{name}");
        }
    }

    #[test]
    fn a_missing_photograph_is_named() {
        let photographs: Vec<_> =
            sample_photographs().unwrap().into_iter().filter(|(name, _)| name != "rocket").collect();
        let robots = |names: &[&str]| Robots::new(names, 1, &photographs, &[], || Ok([1; 32]));
        assert_eq!(robots(&["hubble", "hubble"]).unwrap().count(), 2);
        let error = robots(&["cat", "rocket"]).unwrap_err().to_string();
        assert!(error.contains("\"rocket\""), "{error}");
    }
}
