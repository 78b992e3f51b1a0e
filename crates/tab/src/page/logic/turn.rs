//! Decides what the student's page shows: the connection, the pictures, and the one thing to do next.

use unmask_core::{AttackMethod, Knowledge};
use unmask_data::metrics::Level;
use unmask_lesson::{Beat, Place, Question, Scene};
use unmask_wire::{LessonState, PollState, TAKEN_OVER};

use unmask_words::say;

use super::{duration, sentence};
use crate::protocol::Connection;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Failed,
    Loading,
    Ready,
    Connecting,
    Online,
    /// The teacher has to let this tab in.
    Waiting,
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
            Some(Connection::Waiting) if is_silent => Self::Silent,
            Some(Connection::Waiting) => Self::Waiting,
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
            Self::Waiting => "waiting",
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
    /// The room's model is encrypted or its updates are added up secretly, and this tab has not the passphrase.
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
    /// The lesson is over.
    Farewell,
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
    /// Whether the class sees the picture itself, or will when the teacher lets it.
    pub is_shown: bool,
    /// The number of the question that the student last answered.
    pub answered: Option<u32>,
}

impl Situation<'_> {
    /// Problems that keep a student out of the lesson come first, then the class's question.
    pub fn turn(self) -> Turn {
        let scene = self.lesson.scene;
        match (self.link, self.work, &self.lesson.poll) {
            (Link::Closed, ..) => Turn::JoinAgain,
            (_, Work::Locked, _) => Turn::Passphrase,
            // A device that is left out of the rounds can still vote.
            (_, work, Some(PollState { number, is_open: true, .. }))
                if work != Work::SittingOut || self.answered != Some(*number) =>
            {
                Turn::Answer { poll: *number }
            }
            (_, Work::SittingOut, _) => Turn::ComeBack,
            (.., Some(PollState { number, poll, .. })) if place(self.lesson).is_about(poll.question) => {
                Turn::Result { poll: *number }
            }
            _ if place(self.lesson).beat() == Beat::TakeHome => Turn::Farewell,
            _ if asks_for_pictures(scene) && self.may_show && !self.is_shown => Turn::Show,
            _ => Turn::Watch(scene),
        }
    }
}

/// Whether this scene, or the one it prepares, shows a volunteer's own picture beside what leaks from it.
fn asks_for_pictures(scene: Scene) -> bool {
    !matches!(scene, Scene::Promise | Scene::TradeOff | Scene::Debrief)
}

/// Where the lesson is.
pub fn place(lesson: &LessonState) -> Place {
    Place { scene: lesson.scene, beat: lesson.beat }
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
    /// What an attack sees would answer the question whether the picture is safe, so it waits for the vote.
    pub fn of(place: Place) -> Self {
        match place.beat() {
            Beat::Learn | Beat::Send | Beat::Stay => Self::Numbers,
            beat if beat == Question::Safe.asked_at() || beat.attacks().is_empty() => Self::Nothing,
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
        Link::Waiting => say::status::at_the_door().to_owned(),
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
        Link::Loading | Link::Ready | Link::Connecting | Link::Waiting => "",
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
pub fn watch(place: Place) -> &'static str {
    match place.scene {
        // The class could not be asked.
        Scene::Attackers if place.is_about(Question::WhoseUpdate) => say::contest::nothing_lent(),
        Scene::Lobby => say::watch::lobby(),
        Scene::Promise => say::watch::promise(),
        Scene::Guess => say::watch::guess(),
        Scene::April => say::watch::april(),
        Scene::Mask => say::watch::mask(),
        Scene::Attackers => say::watch::attackers(),
        Scene::Patience => say::watch::patience(),
        Scene::TradeOff => say::watch::trade_off(),
        Scene::Membership => say::watch::membership(),
        Scene::SecureSum => say::watch::secret_sum(),
        Scene::Sum => say::watch::sum(),
        Scene::Dishonest => say::watch::dishonest(),
        Scene::Checks => say::watch::checks(),
        Scene::Debrief => say::watch::debrief(),
    }
}

/// What of the student's picture the class sees, or will see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    Nothing,
    /// What leaks from it waits until the teacher lets the class see it.
    LeakWaits,
    /// The picture waits, and so does what leaks from it.
    PictureWaits,
    Shown,
}

/// Who can see which picture of this student, in one line.
pub fn who_sees(has_own_picture: bool, may_show: bool, given: Given) -> &'static str {
    match (given, has_own_picture, may_show) {
        (Given::Shown, ..) => say::sees::shown(),
        (Given::PictureWaits, ..) => say::sees::waits(),
        (Given::LeakWaits, ..) => say::sees::leak_waits(),
        (Given::Nothing, true, false) => say::sees::private(),
        (Given::Nothing, true, true) => say::sees::may_show(),
        (Given::Nothing, false, _) => say::sees::sample(),
    }
}

/// The caption of a reconstruction. Where a beat shows several, it names the attacker.
pub fn leaked(attack: AttackMethod, beat: Beat) -> &'static str {
    match attack.knowledge() {
        _ if beat.attacks().len() < 2 => say::leak::own(),
        _ if attack.is_unordered() => say::shot::pieces(),
        Knowledge::Naive => say::leak::zeros(),
        Knowledge::Aware => say::leak::aware(),
    }
}

/// What the page knows about what others can see of the student's picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Evidence {
    /// The best of the attacks that this beat shows.
    pub level: Option<Level>,
    /// Whether numbers have left this device.
    pub has_sent: bool,
    /// Whether this round learns from public pictures.
    pub is_unused: bool,
    /// Whether the class sees the picture itself.
    pub is_shown: bool,
    /// Whether an attack had nothing to start from.
    pub is_stuck: bool,
    /// Whether a search through the model may still improve.
    pub is_searched: bool,
}

/// What to do where the page loads and no socket opens.
pub fn refused(is_https: bool) -> &'static str {
    if is_https { say::room::no_secure_socket() } else { say::room::no_socket() }
}

/// Why the relay has closed the connection for good.
pub fn closed(reason: &str) -> String {
    if reason == TAKEN_OVER { say::room::taken_over().to_owned() } else { sentence(reason) }
}

/// How much of the student's picture is recognisable at this place of the lesson: the caption below it. Empty where the
/// page shows nothing beside the picture.
pub fn known(place: Place, evidence: Evidence) -> &'static str {
    let Evidence { level, has_sent, is_unused, is_shown, is_stuck, is_searched } = evidence;
    match (Beside::of(place), level) {
        (Beside::Nothing, _) if place.beat() == Question::Safe.asked_at() => say::known::vote_first(),
        (Beside::Nothing, _) => "",
        _ if !has_sent && is_shown => say::known::only_shown(),
        _ if !has_sent => say::known::nothing_left(),
        (Beside::Numbers, _) => "",
        (_, Some(Level::Recognisable)) => say::known::recognisable(),
        (_, Some(Level::Outlines)) if is_searched => say::known::searching_outlines(),
        (_, Some(Level::Outlines)) => say::known::outlines(),
        (_, Some(Level::Hidden)) if is_searched => say::known::searching(),
        (_, Some(Level::Hidden)) => say::known::hidden(),
        (_, None) if is_unused => say::known::unused(),
        // The search attacks one client of the class, and a fished sum is of one.
        (_, None) if is_searched || place.beat() == Beat::Fish => "",
        (_, None) if is_stuck => say::known::stuck(),
        (_, None) => say::known::none(),
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
        LessonState { scene, beat: 0, poll, is_careful: false, is_doctored: false }
    }

    fn situation(lesson: &LessonState) -> Situation<'_> {
        let work = Work::Sent { round: 1 };
        Situation { link: Link::Online, work, lesson, may_show: true, is_shown: false, answered: None }
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
            assert_eq!(situation(&lesson(scene, Some(asked(true)))).turn(), Turn::Answer { poll: 3 });
        }
        // The result stays until the answer is told.
        let mask = |beat| LessonState { beat, ..lesson(Scene::Mask, Some(asked(false))) };
        assert_eq!(situation(&mask(2)).turn(), Turn::Result { poll: 3 });
        assert_eq!(situation(&mask(0)).turn(), Turn::Show);
    }

    #[test]
    fn what_keeps_a_student_out_comes_before_the_question() {
        let asked = lesson(Scene::Guess, Some(asked(true)));
        let situation = situation(&asked);
        assert_eq!(Situation { link: Link::Closed, ..situation }.turn(), Turn::JoinAgain);
        assert_eq!(Situation { work: Work::Locked, ..situation }.turn(), Turn::Passphrase);
        // A device that sits out votes first, and then can come back.
        let out = Situation { work: Work::SittingOut, ..situation };
        assert_eq!(out.turn(), Turn::Answer { poll: 3 });
        assert_eq!(Situation { answered: Some(3), ..out }.turn(), Turn::ComeBack);
        assert_eq!(Situation { lesson: &lesson(Scene::Guess, None), ..out }.turn(), Turn::ComeBack);
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
        assert!(who_sees(true, false, Given::Nothing).starts_with("Only you"));
        assert!(who_sees(true, true, Given::Nothing).contains("stays here"));
        for has_own_picture in [true, false] {
            assert!(who_sees(has_own_picture, true, Given::Shown).starts_with("The class sees"));
            assert!(who_sees(has_own_picture, true, Given::PictureWaits).starts_with("Your picture waits"));
            assert!(who_sees(has_own_picture, true, Given::LeakWaits).contains("stays here"));
        }
    }

    fn at(beat: Beat) -> Place {
        Place::all().find(|place| place.beat() == beat).expect("a beat of the lesson")
    }

    #[test]
    fn what_is_known_follows_the_attacks_that_the_beat_shows() {
        let sent = Evidence { has_sent: true, ..Evidence::default() };
        let said = |evidence| known(at(Beat::MoveMask), evidence);
        let leaks = Evidence { level: Some(Level::Recognisable), ..sent };
        assert!(said(leaks).contains("recognisable"));
        assert!(said(Evidence { level: Some(Level::Hidden), ..sent }).contains("cannot"));
        assert!(said(Evidence { is_stuck: true, ..sent }).contains("no way in"));
        assert!(said(Evidence { is_unused: true, ..sent }).contains("not used"));
        // A search that has not succeeded so far may still do so.
        for level in [Level::Hidden, Level::Outlines] {
            let searched = Evidence { level: Some(level), is_stuck: true, is_searched: true, ..sent };
            assert!(known(at(Beat::Search), searched).contains("So far"));
        }
        assert!(known(at(Beat::VoteSafe), leaks).starts_with("Vote first"));
        assert_eq!(known(at(Beat::Send), leaks), "", "the scene that shows the numbers");
    }

    /// Walks every beat with every consent: no line contradicts what has left the device, what the wall shows, or the
    /// vote that is open.
    #[test]
    fn no_line_contradicts_what_has_happened() {
        let levels = [None, Some(Level::Hidden), Some(Level::Outlines), Some(Level::Recognisable)];
        let flags = [false, true];
        for place in Place::all() {
            for level in levels {
                for (has_sent, is_shown) in flags.into_iter().flat_map(|sent| flags.map(|shown| (sent, shown))) {
                    let line = known(place, Evidence { level, has_sent, is_shown, ..Evidence::default() });
                    let case = format!("{place:?}, {level:?}, sent {has_sent}, shown {is_shown}: {line}");
                    assert!(!line.contains("No numbers have left") || !has_sent, "{case}");
                    assert!(!line.contains("on the projector") || is_shown, "{case}");
                    let judges = ["recognisable", "Outlines", "cannot make out"].iter().any(|word| line.contains(word));
                    assert!(!judges || has_sent && level.is_some() && Beside::of(place) == Beside::Leak, "{case}");
                    assert!(!judges || place.beat() != Question::Safe.asked_at(), "{case}");
                    assert!(!line.contains("cannot make out") || level == Some(Level::Hidden), "{case}");
                }
            }
            // No two pictures of a beat have one caption.
            let captions = place.beat().attacks().iter().map(|methods| leaked(methods[0], place.beat()));
            let captions: Vec<_> = captions.collect();
            assert!(
                captions.iter().enumerate().all(|(at, one)| !captions[..at].contains(one)),
                "{place:?} {captions:?}"
            );
            // Nobody is told an answer before the lesson tells it.
            let Some(question) = place.question() else { continue };
            let poll = Poll { question, suspects: Vec::new(), correct: Some(0) };
            let told = unmask_words::verdict(&poll, place, Some(0));
            assert!(place.tells(question) || !told.contains("right") && !told.contains("It took"), "{place:?} {told}");
        }
    }

    #[test]
    fn the_status_is_in_the_pages_language() {
        Language::German.speak();
        assert_eq!(status(Link::Online, Work::Sent { round: 7 }), "● Runde 7: Zahlen gesendet");
    }
}
