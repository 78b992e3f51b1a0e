//! What the student's page says. Sentences stand here and nowhere else, so that they can be had in another language.

use unmask_core::Scene;
use unmask_wire::view::Answers;

use super::{
    duration,
    lesson::Level,
    turn::{Link, Verdict, Work, answer},
};
use crate::protocol::Training;

/// The form before the room, and the PIN before the form.
pub mod join {
    pub const INTRO: &str = "Your picture stays on this device. Only numbers made from it leave.";
    pub const NICKNAME: &str = "Nickname";
    pub const ANOTHER_NICKNAME: &str = "Suggest another nickname";
    pub const NO_NICKNAME: &str = "Type a nickname, or let the page suggest one.";
    pub const PICTURE: &str = "Your picture";
    pub const CHOSEN: &str = "The chosen picture";
    pub const NO_PICTURE_YET: &str = "no picture yet";
    pub const NO_PICTURE: &str = "Choose a picture first: a sample, a file or the camera.";
    pub const SAMPLES: &str = "Sample photographs";
    pub const FILE: &str = "Choose a file";
    pub const FORMATS: &str = "PNG, JPEG, WebP, GIF, AVIF; the middle is used.";
    pub const MAY_SHOW: &str = "The class may see what leaks of my picture";
    pub const MAY_SHOW_HINT: &str = "If this is off, the projector never shows an attack on you. The server, which is the teacher’s computer, gets the same numbers either way, and whoever runs it could attack them unseen.";
    pub const MORE: &str = "More choices";
    pub const LABEL: &str = "What the picture shows";
    pub const LABEL_HINT: &str =
        "The model learns this word for it. If none fits, take the nearest: what leaks does not depend on it.";
    pub const PASSPHRASE: &str = "Passphrase";
    pub const OPTIONAL: &str = " optional";
    pub const PASSPHRASE_HINT: &str =
        "Only if the teacher says that the room is encrypted. It never leaves this device.";
    pub const JOIN: &str = "Join";
    pub const REJOIN: &str = "Rejoin";
    pub const SOMEONE_ELSE: &str = "Join as someone else";
    pub const KEPT: &str = "This tab kept your nickname and picture. Nobody else has them.";
    pub const PRIVATE_PICTURE: &str = "Your private picture";
    pub const FORGOTTEN: &str = "Your data is deleted. You may close this page, or join again as somebody new.";

    pub fn was_here(nickname: &str) -> String {
        format!("You were here as {nickname}")
    }

    pub fn no_class(class: &str) -> String {
        format!("The address asks for the class “{class}”, which this room does not have. Choose another.")
    }

    pub fn no_sample(image: &str) -> String {
        format!("The address asks for the sample “{image}”, which does not exist. Choose another.")
    }
}

/// The camera.
pub mod camera {
    pub const PHONE: &str = "Take a picture";
    pub const OPEN: &str = "Use the camera";
    pub const LIVE: &str = "Live camera picture";
    pub const SHOOT: &str = "Take this picture";
    pub const CLOSE: &str = "Close the camera";
    pub const BLOCKED: &str = "The browser blocks the camera. Allow it in the address bar, or choose a file.";
    pub const MISSING: &str = "This device has no camera. Choose a file or a sample.";

    pub fn unusable(reason: Option<&str>) -> String {
        let reason = reason.unwrap_or("no reason given");
        format!("The camera cannot be used ({reason}). Choose a file or a sample.")
    }
}

/// The way into the room.
pub mod entrance {
    pub const HEADING: &str = "Come in";
    pub const LOST: &str = "The relay does not know this tab any more";
    pub const LOST_REMEDY: &str = "It has probably begun another lesson. Nothing in this tab is lost: enter the PIN that the projector shows now.";
    pub const HINT: &str = "Scan the code on the projector, or type the six digits beside it.";
    pub const PIN: &str = "PIN";
    pub const PLACEHOLDER: &str = "123 456";
    pub const ENTER: &str = "Enter";
}

/// Of a page that was opened over plain HTTP.
pub mod insecure {
    pub const HEADING: &str = "Slower, and open to listeners. ";
    pub const WHY: &str = "Browsers allow WebGPU only over HTTPS, so this tab trains on the CPU. Whoever listens on this network sees what the relay sees. ";
    pub const BEFORE_ADDRESS: &str = "To use the GPU and to keep listeners out, open ";
    pub const AFTER_ADDRESS: &str = " and accept the warning about the relay’s own certificate.";
    pub const NO_ADDRESS: &str = "The relay’s HTTPS address is on the projector.";
}

/// The room: status, picture, and what to do.
pub mod room {
    pub const TRY_NOW: &str = "Try now";
    pub const CLOSED: &str = "The connection is closed";
    pub const JOIN_AGAIN: &str = "Join again";
    pub const SITTING_OUT: &str = "You sit out";
    pub const SITTING_OUT_WHY: &str = "This device has not answered in two rounds, so the class goes on without it. Come back when it is awake and you look at it.";
    pub const COME_BACK: &str = "Come back";
    pub const LOCKED: &str = "The room’s model is encrypted";
    pub const WRONG_PASSPHRASE: &str = "✕ This passphrase does not unlock the room’s model";
    pub const PASSPHRASE: &str = "Passphrase";
    pub const PASSPHRASE_HINT: &str =
        "Ask the teacher for it. It never leaves this device. Until it is right, nothing is sent.";
    pub const USE_PASSPHRASE: &str = "Use this passphrase";
    pub const YOUR_PICTURE: &str = "Your picture";
    pub const YOUR_TURN: &str = "Your turn";
    pub const CONSENT: &str = "Who may see it";
    pub const NUMBERS: &str = "The numbers that left";
    pub const LEAK: &str = "What an attack sees in them";
    pub const SEND: &str = "Send";
    pub const LESS: &str = "Less";
    pub const MORE: &str = "More";
    pub const YOUR_ANSWER: &str = "your answer";
    pub const SHOW: &str = "Show my picture to the class";
    pub const SHOW_HINT: &str =
        "The class then sees it beside what leaked of it, 32 pixels wide. One tap takes it back.";
    pub const HIDE: &str = "Take my picture back";
    pub const DETAILS: &str = "Details";
    pub const LEAVE: &str = "Leave";
    pub const FORGET: &str = "Delete my data and leave";
    pub const FORGETTING: &str = "Deleting…";
    pub const FORGET_HINT: &str = "“Delete” takes your pictures, the results about you and your name off the server, and your picture and name out of this page. What the model has learnt already stays in it.";
}

/// What lies in *Details*, in the field's words.
pub mod details {
    use crate::page::text::sentence;

    pub const THIS_TAB: &str = "This tab";
    pub const ROUND: &str = "Round";
    pub const DEVICE: &str = "Device";
    pub const CHOOSING_DEVICE: &str = "choosing…";
    pub const SENT: &str = "Sent";
    pub const SETTINGS: &str = "Model, rule and defence";
    pub const PICTURE: &str = "Private picture";
    pub const PICTURE_UNUSED: &str = "It stays here and is not used now.";
    pub const NO_ROUND_CLOSED: &str = "room: no round has closed yet";
    pub const MESSAGES: &str = "Messages";
    pub const NOTHING: &str = "–";

    pub const OWN_ATTACK: &str = "What this tab sees in its own update";
    pub const OWN_ATTACK_HINT: &str =
        "The closed-form attacks, made here on exactly what was sent. Nobody else sees the result.";

    pub const RECONSTRUCTED: &str = "What the relay reconstructed";
    pub const RECONSTRUCTED_HINT: &str = "The relay attacked your update in several ways. This tab compares the results with your picture. Only the two scores go back.";
    pub const AS_THE_MODEL_SEES: &str = "The picture as the model sees it";
    pub const OWN_PICTURE: &str = "your picture";
    pub const SHARED_PICTURE: &str = "the shared picture";
    pub const RECONSTRUCTION: &str = "reconstruction";
    pub const SEVERAL: &str = "made from several pictures, so there is none to compare with";

    pub const TRY: &str = "Try your own picture";
    pub const TRY_HINT: &str = "Ask the room’s model what a picture shows. The answer is computed here: the picture does not leave this device, and nobody else sees the answer.";
    pub const TRY_PRIVATE: &str = "My private picture";
    pub const TRY_DROP: &str = "or drop one here";
    pub const TRY_BEFORE: &str = "The room’s model comes with the first round. Your picture waits for it.";
    pub const TRY_BUSY: &str = "Waiting for this round’s step to end…";
    pub const TRY_ASKING: &str = "Asking the model…";
    pub const TRIED: &str = "The picture to try";
    pub const TRIED_SEEN: &str = "The same as the model sees it";
    pub const TRIED_SEEN_SHORT: &str = "as the model sees it";

    pub const TRAINS_ON: &str = "This tab trains on ";
    pub const ALSO_HAS: &str = "This tab also has ";
    pub const UNUSED: &str = "This round trains on your private picture instead.";
    pub const SHARED: &str = " Shared pictures are public: the relay handed them out, divided ";
    pub const SHARED_END: &str = ". Only your own picture is private.";
    pub const SHEET: &str = "Some of the shared pictures, ordered by class";

    pub const LEAVING: &str = "What leaves this device";
    pub const NOTHING_LEFT: &str = "Nothing so far. After the first round you see here what did.";
    pub const BELOW: &str = "below zero";
    pub const ZERO: &str = "zero";
    pub const ABOVE: &str = "above zero";
    pub const MASKED: &str = "removed by the defence";
    pub const CIPHERTEXT: &str = "ciphertext";
    pub const CIPHERTEXT_HINT: &str = " encrypted; the other groups leave as computed";
    pub const AS_COMPUTED: &str = "as computed";
    pub const AS_SENT: &str = "as sent";
    pub const ZEROS: &str = "zeros";
    pub const VALUES: &str = "values";
    pub const NORM: &str = "norm";
    pub const NOISE: &str = "noise to signal";

    pub fn label(class: &str) -> String {
        format!("It stays here. Its label: {class}.")
    }

    pub fn room_loss(loss: Option<f32>, updates: u32, round: u32) -> String {
        match loss {
            Some(loss) => format!("room: {loss:.3}, mean of {updates} in round {round}"),
            None => format!("room: no update came in round {round}"),
        }
    }

    pub fn own_attack(round: u32, defence: &str, time: &str, remark: Option<&str>) -> String {
        let remark = remark.map(|remark| format!(" {}", sentence(remark))).unwrap_or_default();
        format!("Round {round}, {defence}: {time}.{remark}")
    }

    pub fn without_defence(bytes: &str) -> String {
        format!("{bytes} without a defence")
    }

    pub fn attacked_round(round: u32) -> String {
        format!(" round {round}")
    }

    pub fn used(pictures: u32) -> String {
        format!("This round uses {pictures} of them.")
    }

    pub fn sent(round: u32, content: &str, bytes: &str, plain_bytes: &str, drawing: &str) -> String {
        format!("Round {round}: {content}. {bytes} sent, {plain_bytes} without a defence.{drawing}")
    }

    pub fn computed(group: &str) -> String {
        format!("{group}: the update as computed")
    }

    pub fn leaves(group: &str) -> String {
        format!("{group}: what leaves")
    }

    pub fn norms(before: f32, after: f32) -> String {
        format!("{before:.3} → {after:.3}")
    }
}

/// The worker, where it cannot be used.
pub mod trainer {
    pub const NO_WORKER: &str = "This browser cannot start the trainer. Use a current Chrome, Edge, Firefox or Safari.";
    pub const NOT_RUNNING: &str = "The trainer is not running. Reload the page.";
    pub const SILENT: &str = "The trainer does not respond. Reload the page.";
    pub const ENCRYPTED: &str = "This tab encrypted the room’s model with your passphrase and sent it back.";
    pub const NOT_FORGOTTEN: &str =
        "The connection was lost before your data was deleted. Press “Delete” again when it is back.";

    pub fn not_loaded(loader: &str) -> String {
        format!("{loader} could not be loaded")
    }

    pub fn stopped(reason: &str) -> String {
        format!("The trainer stopped: {reason}. Reload the page to restart it.")
    }
}

/// The status line.
pub fn status(link: Link, work: Work) -> String {
    match link {
        Link::Failed => "✕ The trainer has stopped".to_owned(),
        Link::Loading => "◌ Loading the trainer…".to_owned(),
        Link::Ready => "○ Ready to join".to_owned(),
        Link::Connecting => "◌ Connecting…".to_owned(),
        Link::Silent => "▲ The server does not answer".to_owned(),
        Link::Retrying { seconds } => format!("▲ Connection lost: next try in {seconds} s"),
        Link::Closed => "✕ Not connected".to_owned(),
        Link::Online => match work {
            Work::Waiting => "● Online. Waiting for a round".to_owned(),
            Work::Locked => "● Online. Waiting for the passphrase".to_owned(),
            Work::SittingOut => "● Online, but left out of the rounds".to_owned(),
            Work::Computing { round } => format!("● Round {round}: computing…"),
            Work::Sent { round } => format!("● Round {round}: numbers sent"),
        },
    }
}

/// Whether this tab is connected, for those who hear the page: said when it changes, and not with every round.
pub fn connection(link: Link) -> &'static str {
    match link {
        Link::Failed => "The trainer has stopped",
        Link::Loading | Link::Ready | Link::Connecting => "",
        Link::Online => "Online",
        Link::Silent => "The server does not answer",
        Link::Retrying { .. } => "Connection lost",
        Link::Closed => "Not connected",
    }
}

/// What this tab does in the round, for *Details*.
pub fn step(work: Work, milliseconds: Option<f64>) -> String {
    match (work, milliseconds) {
        (Work::Locked, _) => "waiting for the passphrase".to_owned(),
        (Work::SittingOut, _) => "left out of the rounds".to_owned(),
        (Work::Computing { .. }, _) => "training…".to_owned(),
        (Work::Sent { .. }, Some(milliseconds)) => format!("update sent; the step took {}", duration(milliseconds)),
        (Work::Waiting | Work::Sent { .. }, _) => "waiting for the teacher to start".to_owned(),
    }
}

/// What to do where there is nothing to do here.
pub fn watch(scene: Scene) -> &'static str {
    match scene {
        Scene::Lobby => "You are in. Look at the projector.",
        Scene::Promise => "Your picture stays here. Only numbers leave.",
        Scene::Guess => "Look at the projector: whose picture is this?",
        Scene::April => "Your numbers show your picture, too. Here only you see it.",
        Scene::Mask => "Half of your numbers stay here now. Is your picture still in the others?",
        Scene::Attackers => "A clever attacker knows how you hide. Compare the pictures.",
        Scene::Patience => "Look at the projector: the attacker takes time.",
        Scene::TradeOff => "Look at the projector: what does hiding cost?",
        Scene::Membership => "Look at the projector: was this picture among them?",
        Scene::Debrief => "That was the lesson. Below you can delete your data.",
    }
}

/// Who sees what of this student's picture, in one line.
pub fn who_sees(has_own_picture: bool, may_show: bool, is_shown: bool) -> &'static str {
    match (has_own_picture, may_show, is_shown) {
        (.., true) => "The class sees your picture, small, and what leaks of it.",
        (true, false, _) => "Only you see this. The projector shows robots and volunteers.",
        (true, true, _) => "The class may see what leaks of your picture. The picture itself stays here.",
        (false, ..) => "A sample photograph: the class may see what leaks of it.",
    }
}

/// What a reconstruction stands for, below it.
pub fn leaked(is_own_attack: bool) -> &'static str {
    if is_own_attack { "What leaks of it" } else { "What the server got" }
}

/// What is known of the student's picture, below it. `training` is the round that trains or trained last; `is_stuck` says that an
/// attack found nothing to begin with.
pub fn known(level: Option<Level>, training: Option<&Training>, is_stuck: bool) -> &'static str {
    match (level, training) {
        (_, None) => "Nothing has left this device yet.",
        (Some(Level::Recognisable), _) => "✕ Your picture leaks: it is recognisable.",
        (Some(Level::Outlines), _) => "▲ Outlines of your picture show.",
        (Some(Level::Hidden), _) => "○ This attack cannot make your picture out.",
        (None, Some(training)) if training.shared.is_some() => {
            "Your picture is not used now: this tab learns from public pictures."
        }
        (None, _) if is_stuck => "○ This attack finds no way in.",
        (None, _) => "No attack has seen anything of your picture yet.",
    }
}

/// What became of a student's vote while the question is open.
pub fn voted(answers: &Answers, vote: u16) -> String {
    format!("Your answer: {}. You can change it until the teacher shows the result.", answer(answers, vote))
}

/// How a student's vote compares with the right answer, where there is one.
pub fn judged(verdict: Verdict, answers: &Answers, own: Option<u16>, correct: Option<u16>) -> String {
    let said = own.map(|own| answer(answers, own)).unwrap_or_default();
    let right = correct.map(|correct| answer(answers, correct));
    match (verdict, right) {
        (Verdict::Right, Some(right)) => format!("✓ You were right: {right}."),
        (Verdict::Wrong, Some(right)) => format!("✕ You said {said}. It was {right}."),
        // Who came back after a reload may have answered; this page does not know.
        (Verdict::Missed, Some(right)) => format!("It was {right}."),
        (Verdict::Missed, None) => "The class has answered.".to_owned(),
        (_, _) => format!("You said {said}."),
    }
}

/// How many chose an answer.
pub fn votes(count: u32) -> String {
    super::counted(count, "vote")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lost_connection_interrupts_the_status() {
        let sent = Work::Sent { round: 7 };
        assert_eq!(status(Link::Online, sent), "● Round 7: numbers sent");
        assert!(status(Link::Retrying { seconds: 4 }, sent).contains("4 s"));
        assert!(status(Link::Silent, sent).contains("does not answer"));
        // What is said aloud does not change from round to round.
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
        assert!(known(Some(Level::Recognisable), None, false).starts_with("Nothing has left"));
        assert!(known(Some(Level::Recognisable), Some(&training), true).contains("recognisable"));
        assert!(known(Some(Level::Hidden), Some(&training), false).contains("cannot"));
        assert!(known(None, Some(&training), true).contains("no way in"));
        let shared = Training { shared: Some(8), ..training };
        assert!(known(None, Some(&shared), false).contains("not used"));
    }

    #[test]
    fn a_vote_is_judged_in_words() {
        let answers = Answers::Choice(vec!["Ada".to_owned(), "Bob".to_owned()]);
        assert_eq!(judged(Verdict::Right, &answers, Some(1), Some(1)), "✓ You were right: Bob.");
        assert_eq!(judged(Verdict::Wrong, &answers, Some(0), Some(1)), "✕ You said Ada. It was Bob.");
        assert_eq!(judged(Verdict::Open, &answers, Some(0), None), "You said Ada.");
        assert_eq!(judged(Verdict::Missed, &answers, None, Some(0)), "It was Ada.");
    }
}
