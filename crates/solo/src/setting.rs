//! What a link asks of a room.

use std::{fmt::Display, str::FromStr};

use unmask_client::PHOTOGRAPHS;
use unmask_core::Architecture;
use unmask_room::RoomConfig;
use unmask_tab::protocol::DeviceChoice;

/// Most robots of a room. They take turns on one thread.
const MOST_ROBOTS: usize = 8;
/// Robots of a room whose link says nothing of them.
const ROBOTS: usize = 4;

/// The settings of a link, such as `?model=vit_nano_patch8_32&defence=random-binary:0.5&pictures=cat,coffee&seed=7`. Each
/// part is optional.
#[derive(Debug, Clone)]
pub struct Setting {
    pub config: RoomConfig,
    /// The name of each robot's photograph.
    pub robots: Vec<&'static str>,
    /// Seed of the robots' answers.
    pub answers: u64,
    /// What the robots train on.
    pub device: DeviceChoice,
}

impl Setting {
    /// Reads the parts of a query, decoded.
    ///
    /// # Errors
    /// A sentence that names the part and the remedy.
    pub fn read(parts: impl IntoIterator<Item = (String, String)>) -> Result<Self, String> {
        let device = DeviceChoice::default();
        let mut setting = Self { config: RoomConfig::default(), robots: Vec::new(), answers: 0, device };
        let (mut april, mut robots, mut pictures) = (None, None, None);
        for (name, value) in parts {
            let config = &mut setting.config;
            match name.as_str() {
                "model" => config.architecture = parsed(&name, &value)?,
                "april" => april = Some(parsed::<bool>(&name, &value)?),
                "defence" => config.defence = parsed(&name, &value)?,
                "rule" => config.rule = parsed(&name, &value)?,
                "optimiser" => config.optimiser = parsed(&name, &value)?,
                "aggregate" => config.aggregation = parsed(&name, &value)?,
                "batch" => config.batch = parsed(&name, &value)?,
                "seed" => {
                    let seed = parsed(&name, &value)?;
                    (config.seed, setting.answers) = (Some(seed), seed);
                }
                "robots" => robots = Some(counted(&value)?),
                "pictures" => pictures = Some(photographs(&value)?),
                "device" => match value.as_str() {
                    "cpu" | "webgpu" => setting.device = DeviceChoice::from_query(Some(&value)),
                    _ => return Err(sentence(&name, &value, &"give cpu or webgpu")),
                },
                // Those of the student's page.
                "nickname" | "image" | "label" | "join" | "room" => {}
                _ => {
                    return Err(format!(
                        "The link has \"{name}\", which is no setting. There are model, april, defence, rule, \
                         optimiser, aggregate, batch, seed, robots, pictures and device."
                    ));
                }
            }
        }
        if let Some(april) = april {
            let asked = setting.config.architecture.with_asked_april_block(april);
            setting.config.architecture = asked.map_err(|error| sentence("april", &april.to_string(), &error))?;
        }
        let count = robots.or(pictures.as_ref().map(Vec::len)).unwrap_or(ROBOTS);
        let pictures = pictures.unwrap_or(PHOTOGRAPHS.to_vec());
        setting.robots = pictures.into_iter().cycle().take(count).collect();
        Ok(setting)
    }

    /// The model of the room's first round.
    pub fn architecture(&self) -> Architecture {
        self.config.architecture
    }
}

fn parsed<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|error| sentence(name, value, &error))
}

fn counted(value: &str) -> Result<usize, String> {
    let count = value.parse().ok().filter(|count| *count <= MOST_ROBOTS);
    count.ok_or_else(|| sentence("robots", value, &format!("give a number from 0 to {MOST_ROBOTS}")))
}

/// The names of sample photographs, with commas between them.
fn photographs(value: &str) -> Result<Vec<&'static str>, String> {
    let known = |name: &str| PHOTOGRAPHS.into_iter().find(|known| *known == name.trim());
    let named: Option<Vec<_>> = value.split(',').map(known).collect();
    named.filter(|named| named.len() <= MOST_ROBOTS).ok_or_else(|| {
        let reason = format!("name one to {MOST_ROBOTS} of {}, with commas between them", PHOTOGRAPHS.join(", "));
        sentence("pictures", value, &reason)
    })
}

fn sentence(name: &str, value: &str, reason: &dyn Display) -> String {
    format!("The link's {name}={value} cannot be used: {reason}.")
}

#[cfg(test)]
mod tests {
    use unmask_core::{Defence, VitPreset};

    use super::*;

    fn read(query: &str) -> Result<Setting, String> {
        let pair = |part: &str| part.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Setting::read(query.split('&').filter_map(pair))
    }

    #[test]
    fn a_link_holds_the_whole_setting() {
        let setting =
            read("model=vit_nano_patch8_32&april=true&defence=random-binary:0.8&robots=2&seed=9&image=cat").unwrap();
        assert_eq!(setting.architecture(), Architecture::from(VitPreset::NanoPatch8).with_april_block(true));
        assert_eq!(setting.config.defence, "random-binary:0.8".parse::<Defence>().unwrap());
        assert_eq!((setting.robots.len(), setting.config.seed, setting.answers), (2, Some(9), 9));
        assert_eq!(read("device=webgpu").unwrap().device, DeviceChoice::WebGpu);
        let usual = read("").unwrap();
        assert_eq!((&usual.robots[..], usual.architecture()), (&PHOTOGRAPHS[..4], RoomConfig::default().architecture));
    }

    #[test]
    fn each_robot_has_a_picture() {
        let robots = |query: &str| read(query).unwrap().robots;
        assert_eq!(robots("pictures=rocket,hubble"), ["rocket", "hubble"]);
        assert_eq!(robots("robots=3&pictures=rocket,hubble"), ["rocket", "hubble", "rocket"]);
        assert_eq!(robots("pictures=rocket,hubble&robots=1"), ["rocket"]);
        assert_eq!(robots("robots=8")[6..], ["cat", "rocket"]);
        assert!(robots("robots=0").is_empty());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (query, words) in [
            ("colour=red", "\"colour\", which is no setting"),
            ("model=vit_giant", "model=vit_giant"),
            ("defence=random-binary:2", "defence=random-binary:2"),
            ("device=gpu", "device=gpu cannot be used: give cpu or webgpu"),
            ("robots=99", "robots=99 cannot be used: give a number from 0 to 8"),
            ("batch=-1", "batch=-1"),
            ("pictures=cat,dog", "pictures=cat,dog cannot be used: name one to 8 of cat, rocket, coffee"),
            ("pictures=", "pictures= cannot be used"),
            ("pictures=cat,cat,cat,cat,cat,cat,cat,cat,cat", "one to 8"),
            ("model=resnet18&april=true", "april=true"),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.contains(words), "{query}: {error}");
        }
    }
}
