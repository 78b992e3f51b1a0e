//! What the plan needs to know about a room.

use unmask_core::{Aggregation, Architecture, ClientId, Defence, InitialWeights, Rule, SecureSumSettings, TrainOn};

use crate::{MAX_SUSPECTS, Place, Question, Suspect};

/// A room as the plan sees it. Settings are those of the next round.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    pub place: Place,
    /// The question of this scene, once it was asked.
    pub asked: Option<Asked>,
    pub architecture: Architecture,
    pub initial_weights: InitialWeights,
    /// Rounds since the model began.
    pub round: u32,
    pub defence: Defence,
    /// Whether the weights in use are encrypted, so that another defence needs a new model.
    pub is_encrypted: bool,
    pub rule: Rule,
    pub aggregation: Aggregation,
    /// The class that doctored weights fish for.
    pub fishes_for: Option<u16>,
    /// Whether clients are asked to check plans carefully.
    pub is_careful: bool,
    /// Least number of people in a secure sum that the room asks for; 0 if it asks for no more than any sum needs.
    pub least_in_secure_sum: u32,
    /// Samples in a step.
    pub batch: u16,
    /// What clients train on; `None` in a room without a data set, where it is their own picture.
    pub train_on: Option<TrainOn>,
    /// Whether no round follows the running one on its own.
    pub is_paused: bool,
    /// Whether the relay searches through the model; `None` if it cannot.
    pub search: Option<bool>,
    /// Whether a search attacked the model's first round.
    pub has_searched: bool,
    /// Whether the sum of updates of the model's first round is or was attacked.
    pub has_added: bool,
    /// The client under attack.
    pub target: Option<ClientId>,
    /// The client whose photograph the update is asked about.
    pub candidate: Option<ClientId>,
    /// A client and the class of its picture, which one of its updates gave away.
    pub label: Option<(ClientId, u16)>,
    /// Clients that are here and may be attacked in front of the class, in any order.
    pub volunteers: Vec<Volunteer>,
}

/// A question that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub question: Question,
    pub is_open: bool,
    /// The votes of people; empty while the question is open.
    pub votes: Vec<u16>,
}

/// A client that may be attacked in front of the class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volunteer {
    pub client: ClientId,
    pub nickname: String,
    /// Whether the class may see its picture beside the reconstruction.
    pub shows_picture: bool,
    /// Whether other devices of the class may get its masked update.
    pub lends_update: bool,
    /// Whether nobody sits at it.
    pub is_robot: bool,
}

impl Volunteer {
    /// Less is better: those who show their picture come first, and among them people before robots.
    fn rank(&self) -> (bool, bool) {
        (!self.shows_picture, self.is_robot)
    }
}

impl Situation {
    /// The number of volunteers that a secure sum hides: people or, without any, robots.
    fn hidden(&self) -> usize {
        let people = self.volunteers.iter().filter(|volunteer| !volunteer.is_robot).count();
        if people == 0 { self.volunteers.len() } else { people }
    }

    /// Whether robots have no part in the scene: they do not have the passphrase with which people add up.
    fn leaves_robots_out(&self) -> bool {
        self.place.scene.asks_only_volunteers()
            && self.can_add_secretly()
            && self.volunteers.iter().any(|volunteer| !volunteer.is_robot)
    }

    /// The volunteers that take part in the scene, in the order in which they are attacked.
    fn ordered(&self) -> Vec<&Volunteer> {
        let leaves_robots_out = self.leaves_robots_out();
        let takes_part = |volunteer: &&Volunteer| !(leaves_robots_out && volunteer.is_robot);
        let mut all: Vec<&Volunteer> = self.volunteers.iter().filter(takes_part).collect();
        all.sort_by_key(|volunteer| (volunteer.rank(), volunteer.client));
        all
    }

    /// Whom to attack instead of the present target: a client that is here, if possible one that shows its picture, and
    /// a person before a robot. `None` if the present target will do.
    pub(crate) fn other_target(&self) -> Option<ClientId> {
        let volunteers = self.ordered();
        let first = volunteers.first()?;
        let now = volunteers.iter().find(|volunteer| Some(volunteer.client) == self.target);
        let will_do = now.is_some_and(|now| now.rank() <= first.rank());
        (!will_do).then_some(first.client)
    }

    /// The volunteer after the one under attack, cyclically; `None` if there is no other.
    pub fn next_volunteer(&self) -> Option<ClientId> {
        let volunteers = self.ordered();
        let place = volunteers.iter().position(|volunteer| Some(volunteer.client) == self.target);
        let next = place.map_or(0, |place| (place + 1) % volunteers.len());
        volunteers.get(next).map(|volunteer| volunteer.client).filter(|next| Some(*next) != self.target)
    }

    /// The next of the volunteers that are as good a target as any; `None` if there is no other.
    pub(crate) fn another_target(&self) -> Option<ClientId> {
        let volunteers = self.ordered();
        let best = volunteers.first()?.rank();
        let equals: Vec<ClientId> = volunteers
            .iter()
            .take_while(|volunteer| volunteer.rank() == best)
            .map(|volunteer| volunteer.client)
            .collect();
        let place = equals.iter().position(|client| Some(*client) == self.target);
        let next = equals.get(place.map_or(0, |place| (place + 1) % equals.len())).copied();
        next.filter(|next| Some(*next) != self.target)
    }

    /// The pictures among which the class guesses: at most [`MAX_SUSPECTS`] of those that are shown, the target's
    /// among them.
    pub fn suspects(&self) -> Vec<Suspect> {
        let aim = self.aim();
        let mut shown: Vec<&Volunteer> = self.volunteers.iter().filter(|volunteer| volunteer.shows_picture).collect();
        // The target comes first, so that truncating keeps it.
        shown.sort_by_key(|volunteer| (Some(volunteer.client) != aim, volunteer.is_robot, volunteer.client));
        shown.truncate(MAX_SUSPECTS);
        shown.sort_by_key(|volunteer| volunteer.client);
        let suspect =
            |volunteer: &Volunteer| Suspect { client: volunteer.client, nickname: volunteer.nickname.clone() };
        shown.into_iter().map(suspect).collect()
    }

    /// The clients whose updates phones attack, at most [`MAX_SUSPECTS`]: those that lend theirs and show the picture
    /// that tells who it is, people first.
    pub fn lenders(&self) -> Vec<Suspect> {
        let lends = |volunteer: &&&Volunteer| volunteer.shows_picture && volunteer.lends_update;
        let suspect =
            |volunteer: &Volunteer| Suspect { client: volunteer.client, nickname: volunteer.nickname.clone() };
        let mut lenders: Vec<Suspect> =
            self.ordered().iter().filter(lends).take(MAX_SUSPECTS).map(|volunteer| suspect(volunteer)).collect();
        lenders.sort_by_key(|suspect| suspect.client);
        lenders
    }

    /// Whether the volunteers can add up their updates secretly: among too few people, one would know another's from the
    /// sum. Robots hide nobody, but can show among themselves how it goes.
    pub fn can_add_secretly(&self) -> bool {
        self.hidden() >= self.needed_in_secure_sum() as usize
    }

    /// How many people a secure sum needs or, without people, robots.
    pub fn needed_in_secure_sum(&self) -> u32 {
        self.least_in_secure_sum.max(SecureSumSettings::LEAST)
    }

    /// The clients that take part in the scene, first the one that is attacked first.
    pub fn taking_part(&self) -> Vec<ClientId> {
        self.ordered().into_iter().map(|volunteer| volunteer.client).collect()
    }

    /// The class of the picture of the client that will be under attack, if it is known.
    pub fn class_of_aim(&self) -> Option<u16> {
        let aim = self.aim()?;
        self.label.filter(|(client, _)| *client == aim).map(|(_, class)| class)
    }

    pub(crate) fn shows_picture(&self, client: ClientId) -> bool {
        self.volunteers.iter().any(|volunteer| volunteer.client == client && volunteer.shows_picture)
    }

    /// A client other than the target that shows its picture, a person if possible.
    pub(crate) fn stranger(&self) -> Option<ClientId> {
        let aim = self.aim();
        let is_one = |volunteer: &&&Volunteer| volunteer.shows_picture && Some(volunteer.client) != aim;
        self.ordered().iter().find(is_one).map(|volunteer| volunteer.client)
    }

    /// The client that will be under attack.
    pub(crate) fn aim(&self) -> Option<ClientId> {
        self.other_target().or(self.target)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use unmask_core::VitPreset;

    use super::*;
    use crate::Scene;

    pub(crate) fn volunteer(id: u32, shows_picture: bool) -> Volunteer {
        let nickname = format!("robot {id}");
        Volunteer { client: ClientId(id), nickname, shows_picture, lends_update: true, is_robot: true }
    }

    /// A room at the start of a lesson.
    pub(crate) fn room() -> Situation {
        Situation {
            place: Place::default(),
            asked: None,
            architecture: Architecture::from(VitPreset::Nano),
            initial_weights: InitialWeights::Scratch,
            round: 0,
            defence: Defence::None,
            is_encrypted: false,
            rule: Rule::FedSgd,
            aggregation: Aggregation::default(),
            fishes_for: None,
            is_careful: false,
            least_in_secure_sum: 0,
            batch: 1,
            train_on: None,
            is_paused: true,
            search: Some(false),
            has_searched: false,
            has_added: false,
            target: Some(ClientId(1)),
            candidate: None,
            label: Some((ClientId(1), 3)),
            volunteers: vec![volunteer(1, true), volunteer(2, true), volunteer(3, false)],
        }
    }

    #[test]
    fn volunteers_who_show_their_picture_are_attacked_first() {
        let room = Situation { volunteers: vec![volunteer(3, false), volunteer(4, true)], ..room() };
        assert_eq!(room.other_target(), Some(ClientId(4)));
        assert_eq!(Situation { target: Some(ClientId(4)), ..room.clone() }.next_volunteer(), Some(ClientId(3)));
        assert_eq!(Situation { target: Some(ClientId(3)), ..room.clone() }.next_volunteer(), Some(ClientId(4)));
        assert_eq!(Situation { volunteers: Vec::new(), ..room }.next_volunteer(), None);
    }

    #[test]
    fn people_come_before_robots() {
        let person = Volunteer { is_robot: false, ..volunteer(9, true) };
        let room = Situation { volunteers: (1..=5).map(|id| volunteer(id, true)).chain([person]).collect(), ..room() };
        assert_eq!(room.other_target(), Some(ClientId(9)));
        assert!(room.suspects().iter().any(|suspect| suspect.client == ClientId(9)));
        let attacked = Situation { target: Some(ClientId(9)), ..room };
        assert_eq!((attacked.other_target(), attacked.stranger()), (None, Some(ClientId(1))));
        // A person who shows nothing cannot be compared with anything.
        let shy = Volunteer { is_robot: false, ..volunteer(9, false) };
        let room = Situation { volunteers: vec![volunteer(1, true), shy.clone()], ..attacked };
        assert_eq!(room.other_target(), Some(ClientId(1)));
        // In a secure sum of people robots have no part, whatever they show.
        let shy = |id| Volunteer { client: ClientId(id), ..shy.clone() };
        let room = Situation { place: Place::start(Scene::SecureSum), target: Some(ClientId(1)), ..room };
        let adding = |volunteers| Situation { volunteers, ..room.clone() };
        let people = adding(vec![volunteer(1, true), shy(7), shy(8), shy(9)]);
        assert_eq!((people.other_target(), people.taking_part().len()), (Some(ClientId(7)), 3));
        let few = adding(vec![volunteer(1, true), volunteer(2, true), shy(8), shy(9)]);
        assert_eq!((few.other_target(), few.can_add_secretly()), (None, false));
        let strict = Situation { least_in_secure_sum: 4, ..people };
        assert_eq!((strict.can_add_secretly(), strict.needed_in_secure_sum()), (false, 4));
    }

    #[test]
    fn the_target_is_among_four_suspects() {
        let room = Situation { volunteers: (1..=6).map(|id| volunteer(id, true)).collect(), ..room() };
        assert_eq!(room.lenders().len(), MAX_SUSPECTS);
        let suspects = Situation { target: Some(ClientId(6)), ..room }.suspects();
        assert_eq!(suspects.len(), MAX_SUSPECTS);
        assert_eq!(suspects.last().map(|suspect| suspect.client), Some(ClientId(6)));
    }
}
