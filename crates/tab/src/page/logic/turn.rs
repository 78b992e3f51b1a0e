//! Decides what the student's page shows: the connection, the pictures, and the one thing to do next.

use unmask_core::{AttackMethod, Knowledge};
use unmask_data::metrics::Level;
use unmask_lesson::Scene;
use unmask_wire::{LessonState, PollState};

use unmask_words::say;

use super::duration;
use crate::protocol::{Connection, Training};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Failed,
    Loading,
    Ready,
    Connecting,
    Online,
    /// The socket is open but the relay does not answer.
    Silent,
    Retrying {
        seconds: u32,
    },
    Closed,
}

impl Link {
    /// `is_silent`: nothing has arrived on an open socket for too long.
    pub fn new(connection: Option<&Connection>, is_ready: bool, has_failed: bool, is_silent: bool) -> Self {
        match connection {
            _ if has_failed => Self::Failed,
            _ if !is_ready => Self::Loading,
            None => Self::Ready,
            Some(Connection::Connecting) => Self::Connecting,
            Some(Connection::Online { .. }) if is_silent => Self::Silent,
            Some(Connection::Online { .. }) => Self::Online,
            Some(Connection::Retrying { seconds }) => Self::Retrying { seconds: *seconds },
            Some(Connection::Closed { .. }) => Self::Closed,
        }
    }

    /// The name used in data attributes.
    pub fn key(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Connecting => "connecting",
            Self::Online => "online",
            Self::Silent => "silent",
            Self::Retrying { .. } => "retrying",
            Self::Closed => "closed",
        }
    }

    /// Whether trying again now could help a student who was in the room.
    pub fn can_be_hurried(self) -> bool {
        matches!(self, Self::Connecting | Self::Silent | Self::Retrying { .. })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Waiting,
    /// The room is encrypted and this tab cannot read its model.
    Locked,
    /// Left out of the rounds until the student asks to come back.
    SittingOut,
    Computing {
        round: u32,
    },
    Sent {
        round: u32,
    },
}

/// The one thing for the student to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The relay has closed the connection: join again.
    JoinAgain,
    /// Type the room's passphrase.
    Passphrase,
    /// Come back into the rounds.
    ComeBack,
    /// Answer the question with this number.
    Answer { poll: u32 },
    /// See the class's answers to this question.
    Result { poll: u32 },
    /// Show one's own picture to the class.
    Show,
    /// Look at the projector.
    Watch(Scene),
}

/// The facts that decide the student's turn.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    pub link: Link,
    pub work: Work,
    pub lesson: &'a LessonState,
    /// Whether the class may see what leaks from the picture.
    pub may_show: bool,
    /// Whether the class sees the picture itself.
    pub is_shown: bool,
}

impl Situation<'_> {
    /// Problems that keep a student out of the lesson come first, then the class's question.
    pub fn turn(self) -> Turn {
        let scene = self.lesson.scene;
        match (self.link, self.work, &self.lesson.poll) {
            (Link::Closed, ..) => Turn::JoinAgain,
            (_, Work::Locked, _) => Turn::Passphrase,
            (_, Work::SittingOut, _) => Turn::ComeBack,
            (.., Some(PollState { number, is_open: true, .. })) => Turn::Answer { poll: *number },
            (.., Some(PollState { number, .. })) => Turn::Result { poll: *number },
            _ if asks_for_pictures(scene) && self.may_show && !self.is_shown => Turn::Show,
            _ => Turn::Watch(scene),
        }
    }
}

/// Whether this scene, or the one it prepares, shows a volunteer's own picture beside what leaks from it.
fn asks_for_pictures(scene: Scene) -> bool {
    !matches!(scene, Scene::Promise | Scene::TradeOff | Scene::Debrief)
}

/// What the page shows beside the student's own picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    /// The numbers that were sent.
    Numbers,
    /// What attacks reconstructed from them.
    Leak,
}

impl Beside {
    pub fn of(scene: Scene) -> Self {
        match scene {
            Scene::Promise => Self::Numbers,
            Scene::Lobby => Self::Nothing,
            _ => Self::Leak,
        }
    }
}

pub fn status(link: Link, work: Work) -> String {
    match link {
        Link::Failed => say::status::failed().to_owned(),
        Link::Loading => say::status::loading().to_owned(),
        Link::Ready => say::status::ready().to_owned(),
        Link::Connecting => say::status::connecting().to_owned(),
        Link::Silent => say::status::silent().to_owned(),
        Link::Retrying { seconds } => say::status::retrying(seconds),
        Link::Closed => say::status::closed().to_owned(),
        Link::Online => match work {
            Work::Waiting => say::status::waiting().to_owned(),
            Work::Locked => say::status::locked().to_owned(),
            Work::SittingOut => say::status::sitting_out().to_owned(),
            Work::Computing { round } => say::status::computing(round),
            Work::Sent { round } => say::status::sent(round),
        },
    }
}

/// Whether this tab is connected, for screen readers: announced when it changes, not with every round.
pub fn connection(link: Link) -> &'static str {
    match link {
        Link::Failed => say::connection::failed(),
        Link::Loading | Link::Ready | Link::Connecting => "",
        Link::Online => say::connection::online(),
        Link::Silent => say::connection::silent(),
        Link::Retrying { .. } => say::connection::lost(),
        Link::Closed => say::connection::closed(),
    }
}

/// What this tab is doing in the round, for *Details*.
pub fn work_step(work: Work, milliseconds: Option<f64>) -> String {
    match (work, milliseconds) {
        (Work::Locked, _) => say::step::locked().to_owned(),
        (Work::SittingOut, _) => say::step::sitting_out().to_owned(),
        (Work::Computing { .. }, _) => say::step::training().to_owned(),
        (Work::Sent { .. }, Some(milliseconds)) => say::step::sent(duration(milliseconds)),
        (Work::Waiting | Work::Sent { .. }, _) => say::step::waiting().to_owned(),
    }
}

/// What to look at when there is nothing to do on this page.
pub fn watch(scene: Scene) -> &'static str {
    match scene {
        Scene::Lobby => say::watch::lobby(),
        Scene::Promise => say::watch::promise(),
        Scene::Guess => say::watch::guess(),
        Scene::April => say::watch::april(),
        Scene::Mask => say::watch::mask(),
        Scene::Attackers => say::watch::attackers(),
        Scene::Patience => say::watch::patience(),
        Scene::TradeOff => say::watch::trade_off(),
        Scene::Membership => say::watch::membership(),
        Scene::Debrief => say::watch::debrief(),
    }
}

/// Who can see which picture of this student, in one line.
pub fn who_sees(has_own_picture: bool, may_show: bool, is_shown: bool) -> &'static str {
    match (has_own_picture, may_show, is_shown) {
        (.., true) => say::sees::shown(),
        (true, false, _) => say::sees::private(),
        (true, true, _) => say::sees::may_show(),
        (false, ..) => say::sees::sample(),
    }
}

pub fn leaked(is_own_attack: bool) -> &'static str {
    if is_own_attack { say::leak::own() } else { say::leak::relay() }
}

/// The caption of a second reconstruction, which names its attacker.
pub fn attacker(attack: AttackMethod) -> &'static str {
    match attack.knowledge() {
        Knowledge::Naive => say::leak::zeros(),
        _ => say::leak::aware(),
    }
}

/// How much of the student's picture is recognisable: the caption below it. `training` is the current or last round.
/// `is_stuck` says that an attack had nothing to start from, `is_searched` that a search through the model may still
/// improve.
pub fn known(level: Option<Level>, training: Option<&Training>, is_stuck: bool, is_searched: bool) -> &'static str {
    match (level, training) {
        (_, None) => say::known::nothing_left(),
        (Some(Level::Recognisable), _) => say::known::recognisable(),
        (Some(Level::Outlines), _) if is_searched => say::known::searching_outlines(),
        (Some(Level::Outlines), _) => say::known::outlines(),
        (Some(Level::Hidden), _) if is_searched => say::known::searching(),
        (Some(Level::Hidden), _) => say::known::hidden(),
        (None, Some(training)) if training.shared.is_some() => say::known::unused(),
        (None, _) if is_stuck && !is_searched => say::known::stuck(),
        (None, _) => say::known::none(),
    }
}

#[cfg(test)]
mod tests {
    use unmask_lesson::{Poll, Question};

    use super::*;
    use unmask_words::Language;

    fn asked(is_open: bool) -> PollState {
        let poll = Poll { question: Question::Safe, suspects: Vec::new(), correct: None };
        PollState { number: 3, poll, is_open, counts: Vec::new() }
    }

    fn lesson(scene: Scene, poll: Option<PollState>) -> LessonState {
        LessonState { scene, beat: 0, poll }
    }

    fn situation(lesson: &LessonState) -> Situation<'_> {
        Situation { link: Link::Online, work: Work::Sent { round: 1 }, lesson, may_show: true, is_shown: false }
    }

    #[test]
    fn a_lost_connection_is_told_from_a_silent_one() {
        let online = Connection::Online { nickname: "Ada".to_owned(), ticket: None };
        let link = |connection: Option<&Connection>, is_silent| Link::new(connection, true, false, is_silent);
        assert_eq!(link(Some(&online), false), Link::Online);
        assert_eq!(link(Some(&online), true), Link::Silent);
        let retrying = Connection::Retrying { seconds: 4 };
        assert_eq!(link(Some(&retrying), true), Link::Retrying { seconds: 4 });
        assert_eq!(link(None, true), Link::Ready);
        assert_eq!(Link::new(Some(&online), true, true, false), Link::Failed);
        assert_eq!(Link::new(None, false, false, false), Link::Loading);
        assert!(Link::Silent.can_be_hurried() && Link::Connecting.can_be_hurried());
        assert!(!Link::Online.can_be_hurried() && !Link::Closed.can_be_hurried());
    }

    #[test]
    fn every_scene_has_one_thing_to_do() {
        for scene in Scene::ALL {
            let shows = asks_for_pictures(scene);
            let quiet = lesson(scene, None);
            assert_eq!(situation(&quiet).turn(), if shows { Turn::Show } else { Turn::Watch(scene) });
            // Nobody is asked for a picture that the class already sees, or may see nothing of.
            for (may_show, is_shown) in [(false, false), (true, true)] {
                assert_eq!(Situation { may_show, is_shown, ..situation(&quiet) }.turn(), Turn::Watch(scene));
            }
            for (is_open, turn) in [(true, Turn::Answer { poll: 3 }), (false, Turn::Result { poll: 3 })] {
                assert_eq!(situation(&lesson(scene, Some(asked(is_open)))).turn(), turn);
            }
        }
    }

    #[test]
    fn what_keeps_a_student_out_comes_before_the_question() {
        let asked = lesson(Scene::Guess, Some(asked(true)));
        let situation = situation(&asked);
        assert_eq!(Situation { link: Link::Closed, ..situation }.turn(), Turn::JoinAgain);
        assert_eq!(Situation { work: Work::Locked, ..situation }.turn(), Turn::Passphrase);
        assert_eq!(Situation { work: Work::SittingOut, ..situation }.turn(), Turn::ComeBack);
        // A vote waits for the connection.
        assert_eq!(Situation { link: Link::Silent, ..situation }.turn(), Turn::Answer { poll: 3 });
    }

    #[test]
    fn only_a_lost_connection_interrupts_the_status() {
        let sent = Work::Sent { round: 7 };
        assert_eq!(status(Link::Online, sent), "● Round 7: numbers sent");
        assert!(status(Link::Retrying { seconds: 4 }, sent).contains("4 s"));
        assert!(status(Link::Silent, sent).contains("does not answer"));
        // Screen readers hear nothing new from round to round.
        assert_eq!(connection(Link::Online), "Online");
    }

    #[test]
    fn a_picture_of_ones_own_is_seen_by_nobody_unless_its_owner_agrees() {
        assert!(who_sees(true, false, false).starts_with("Only you"));
        assert!(who_sees(true, true, false).contains("stays here"));
        for has_own_picture in [true, false] {
            assert!(who_sees(has_own_picture, true, true).starts_with("The class sees"));
        }
    }

    #[test]
    fn what_is_known_follows_the_closest_attack() {
        let training = Training {
            round: 1,
            model: String::new(),
            defence: unmask_core::Defence::None,
            rule: unmask_core::Rule::FedSgd,
            shared: None,
        };
        let said = |level, training, is_stuck| known(level, training, is_stuck, false);
        assert!(said(Some(Level::Recognisable), None, false).starts_with("Nothing has left"));
        assert!(said(Some(Level::Recognisable), Some(&training), true).contains("recognisable"));
        assert!(said(Some(Level::Hidden), Some(&training), false).contains("cannot"));
        assert!(said(None, Some(&training), true).contains("no way in"));
        // A search that has not succeeded so far may still do so.
        for level in [Level::Hidden, Level::Outlines] {
            assert!(known(Some(level), Some(&training), true, true).contains("So far"));
        }
        assert!(!known(None, Some(&training), true, true).contains("no way in"));
        let shared = Training { shared: Some(8), ..training.clone() };
        assert!(said(None, Some(&shared), false).contains("not used"));
    }

    #[test]
    fn the_status_is_in_the_pages_language() {
        Language::German.speak();
        assert_eq!(status(Link::Online, Work::Sent { round: 7 }), "● Runde 7: Zahlen gesendet");
    }
}
