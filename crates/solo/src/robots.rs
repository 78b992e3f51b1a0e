//! The room's robots. They share one thread: on a phone, training side by side would not be faster.

use unmask_client::{
    Client, ClientEvent, Fresh, LocalUpdate, PHOTOGRAPHS, PrivatePicture, Reaction, Robot, RobotError, RobotEvent,
    RoundPictures, RoundPlan, nickname,
};
use unmask_data::{PHOTOGRAPH_CLASSES, Picture, photograph_label};
use unmask_model::device::OpenDevice;

/// The files of [`PHOTOGRAPHS`] in the folder of sample photographs, in the same order.
#[cfg(any(test, target_family = "wasm"))]
pub(crate) fn files() -> [&'static str; PHOTOGRAPHS.len()] {
    ["cat.png", "rocket.png", "coffee.png", "astronaut.png", "hubble.jpg", "cameraman.jpg"]
}

/// Why there are no robots.
#[derive(Debug, thiserror::Error)]
pub enum RobotsError {
    #[error("there is no photograph called \"{0}\" for the robots")]
    NoPhotograph(&'static str),
}

/// Robots, each with a photograph of its own, numbered from 0.
#[derive(Debug)]
pub struct Robots {
    all: Vec<Member>,
    device: OpenDevice,
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
    /// `photographs` are pictures by their names, among them [`PHOTOGRAPHS`]. `seed` draws the answers to the class's
    /// questions. `fresh` gives random bytes of the operating system.
    ///
    /// # Errors
    /// If a photograph is missing.
    pub fn new(
        count: usize,
        seed: u64,
        photographs: &[(String, Picture)],
        classes: &[String],
        fresh: Fresh,
    ) -> Result<Self, RobotsError> {
        let device = OpenDevice::cpu();
        let classes =
            if classes.is_empty() { PHOTOGRAPH_CLASSES.map(str::to_owned).to_vec() } else { classes.to_vec() };
        let member = |number: usize| {
            let name = PHOTOGRAPHS[number % PHOTOGRAPHS.len()];
            let found = photographs.iter().find(|(known, _)| known == name);
            let (_, picture) = found.ok_or(RobotsError::NoPhotograph(name))?;
            let own = PrivatePicture::new(picture.clone(), photograph_label(&classes, name));
            let client = Client::new(&nickname(number), &device.description())
                .with_pictures(vec![own])
                .with_consent(true, true)
                .as_robot(true);
            let robot = Robot::new(client, true, Some(seed.wrapping_add(number as u64)), fresh);
            Ok(Member { robot, plan: None, is_gone: false })
        };
        let all = (0..count).map(member).collect::<Result<_, _>>()?;
        Ok(Self { all, device })
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

    /// Trains the next robot that has a plan, and returns its number and the frames with its update; `None` if none has
    /// a plan.
    ///
    /// # Errors
    /// If the update cannot be protected, or there are no random numbers.
    pub async fn train(&mut self) -> Option<(usize, Result<Vec<Vec<u8>>, RobotError>)> {
        let number = self.all.iter().position(|member| member.plan.is_some())?;
        let Member { robot, plan, .. } = self.all.get_mut(number)?;
        let plan = plan.take()?;
        let trained = match robot.pictures(&plan) {
            Ok(pictures) => train(&plan, &pictures, &self.device).await,
            Err(reason) => Err(reason),
        };
        Some((number, robot.trained(&plan, trained)))
    }
}

async fn train(plan: &RoundPlan, pictures: &RoundPictures, device: &OpenDevice) -> Result<LocalUpdate, String> {
    plan.train(pictures, device.device()).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use unmask_data::sample_photographs;

    use super::*;

    #[test]
    fn each_photograph_has_its_file() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
        for (name, file) in PHOTOGRAPHS.into_iter().zip(files()) {
            assert!(file.starts_with(name) && folder.join(file).exists(), "{name}: {file}");
        }
    }

    #[test]
    fn a_missing_photograph_is_named() {
        let photographs: Vec<_> =
            sample_photographs().unwrap().into_iter().filter(|(name, _)| name != "rocket").collect();
        let robots = |count| Robots::new(count, 1, &photographs, &[], || Ok([1; 32]));
        assert_eq!(robots(1).unwrap().count(), 1);
        let error = robots(2).unwrap_err().to_string();
        assert!(error.contains("\"rocket\""), "{error}");
    }
}
