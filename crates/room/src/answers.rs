//! The answers that the room measures to the class's questions.

use unmask_core::{AttackMethod, MembershipVerdict};
use unmask_data::metrics::Level;
use unmask_lesson::{NO, Question, YES, median, uniform_rate};
use unmask_wire::view::{AttackView, RoomView};

/// The answer to the class's question, once the lesson tells it; `None` if there is none so far, or if it is the one
/// that is known already. Only the rate that the class runs can change, and there may be none.
pub(super) fn measured(view: &RoomView) -> Option<Option<u16>> {
    let asked = view.lesson.poll.as_ref()?;
    let question = asked.poll.question;
    if asked.is_open || !view.lesson.place().tells(question) {
        return None;
    }
    if asked.poll.correct.is_some() && question != Question::Rate {
        return None;
    }
    let answer = match question {
        Question::Half => shows(view, AttackMethod::April),
        Question::Gaps => shows(view, AttackMethod::Completion),
        // No attack proves that a picture is safe.
        Question::Safe => on_target(view).any(|attack| level(attack) == Some(Level::Recognisable)).then_some(NO),
        Question::Seconds => {
            let recognised = on_target(view).filter_map(|attack| attack.search.as_ref()?.recognised_after);
            let answers = asked.poll.answers();
            let seconds = recognised.min_by(f64::total_cmp)?.round() as u16;
            Some(seconds.clamp(answers.least(), answers.most()))
        }
        // Robots move their sliders at random.
        Question::OwnRate => median(&asked.votes),
        Question::Rate => uniform_rate(view.coming_defence()).map(|rate| (rate.get() * 100.0).round() as u16),
        Question::Used => match view.membership.as_ref().filter(|it| it.owner == view.target)?.verdict? {
            MembershipVerdict::Member => Some(YES),
            MembershipVerdict::Stranger => Some(NO),
            MembershipVerdict::Undecided => None,
        },
        Question::Numbers | Question::Whose | Question::WhoseUpdate | Question::WhoseMasked => None,
    };
    (answer != asked.poll.correct).then_some(answer)
}

/// Whether an attack shows the target's picture. In outlines, each of the class sees something else.
fn shows(view: &RoomView, method: AttackMethod) -> Option<u16> {
    match level(on_target(view).find(|attack| attack.attack == method)?)? {
        Level::Recognisable => Some(YES),
        Level::Hidden => Some(NO),
        Level::Outlines => None,
    }
}

/// The results on the client under attack, under the defence that stays.
fn on_target(view: &RoomView) -> impl Iterator<Item = &AttackView> {
    let defence = view.coming_defence();
    view.attacks.iter().filter(move |attack| Some(attack.client) == view.target && attack.defence == defence)
}

fn level(attack: &AttackView) -> Option<Level> {
    // Without a picture nothing is recognisable.
    if attack.picture.is_none() && attack.search.is_none() { Some(Level::Hidden) } else { Level::of(&attack.recent) }
}

#[cfg(test)]
mod tests {
    use unmask_core::{ClientId, Defence, PictureAddress};
    use unmask_lesson::{Place, Poll, Scene, masked};
    use unmask_wire::view::{LessonView, MembershipView, PollView, SearchView};

    use super::*;

    /// The answer that the room notes.
    fn measured(view: &RoomView) -> Option<u16> {
        super::measured(view).flatten()
    }

    /// A room at the beat that tells the answer.
    fn told(question: Question) -> RoomView {
        let place = Place::all().find(|place| place.tells(question)).expect("a beat that tells");
        let poll = Poll { question, suspects: Vec::new(), correct: None };
        let poll = PollView { number: 1, poll, is_open: false, votes: vec![10, 50, 90], robots: vec![0], voters: 3 };
        let lesson = LessonView { scene: place.scene, beat: place.beat, poll: Some(poll) };
        RoomView { lesson, target: Some(ClientId(1)), ..RoomView::default() }
    }

    fn seen(attack: AttackMethod, ssim: f32) -> AttackView {
        let picture = Some(PictureAddress::on_server("a"));
        AttackView { attack, client: ClientId(1), picture, recent: vec![ssim; 3], ..AttackView::default() }
    }

    #[test]
    fn attacks_answer_whether_a_picture_shows() {
        let half = |attacks| measured(&RoomView { attacks, ..told(Question::Half) });
        assert_eq!(half(vec![seen(AttackMethod::April, 0.9)]), Some(YES));
        assert_eq!(half(vec![seen(AttackMethod::April, 0.01)]), Some(NO));
        assert_eq!(half(vec![seen(AttackMethod::Embedding, 0.9)]), None);
        // Another client's result says nothing about the target.
        assert_eq!(half(vec![AttackView { client: ClientId(2), ..seen(AttackMethod::April, 0.9) }]), None);
    }

    #[test]
    fn a_picture_is_not_safe_if_any_attack_shows_it_and_no_attack_proves_it_safe() {
        let safe = |attacks| measured(&RoomView { attacks, ..told(Question::Safe) });
        let (blind, sees) = (seen(AttackMethod::Embedding, 0.01), seen(AttackMethod::Completion, 0.9));
        assert_eq!(safe(vec![blind.clone(), sees]), Some(NO));
        assert_eq!(safe(vec![blind]), None);
    }

    #[test]
    fn numbers_are_measured_within_the_answers() {
        let searched = |after| {
            let search = SearchView { recognised_after: after, ..SearchView::default() };
            let attack = AttackView { search: Some(search), ..seen(AttackMethod::MatchingAware, 0.9) };
            measured(&RoomView { attacks: vec![attack], ..told(Question::Seconds) })
        };
        assert_eq!((searched(Some(17.6)), searched(Some(400.0)), searched(None)), (Some(18), Some(60), None));
    }

    #[test]
    fn a_rate_is_the_peoples_own_or_the_one_that_runs() {
        assert_eq!(measured(&told(Question::OwnRate)), Some(50));
        let mut robots = told(Question::OwnRate);
        robots.lesson.poll.as_mut().expect("a question").votes.clear();
        assert_eq!(measured(&robots), None, "only robots moved their sliders");
        let mut runs = RoomView { defence: masked(0.7), ..told(Question::Rate) };
        assert_eq!(measured(&runs), Some(70));
        runs.lesson.poll.as_mut().expect("a question").poll.correct = Some(70);
        assert_eq!(measured(&runs), None, "it is known");
        assert_eq!(measured(&RoomView { defence: masked(0.2), ..runs }), Some(20), "the teacher chose another one");
        let noisy = RoomView { defence: Defence::FixedPosition, ..told(Question::Rate) };
        assert_eq!(super::measured(&noisy), None, "no single rate");
        let mut known = noisy;
        known.lesson.poll.as_mut().expect("a question").poll.correct = Some(20);
        assert_eq!(super::measured(&known), Some(None), "it is taken back");
    }

    #[test]
    fn only_the_targets_own_photograph_answers_whether_it_was_used() {
        let used = |owner, verdict| {
            let membership = MembershipView { owner, verdict: Some(verdict), ..MembershipView::default() };
            measured(&RoomView { membership: Some(membership), ..told(Question::Used) })
        };
        assert_eq!(used(Some(ClientId(1)), MembershipVerdict::Member), Some(YES));
        assert_eq!(used(Some(ClientId(1)), MembershipVerdict::Undecided), None);
        assert_eq!(used(Some(ClientId(2)), MembershipVerdict::Stranger), None);
    }

    #[test]
    fn nothing_is_told_too_early_or_twice() {
        let mut early = told(Question::Rate);
        early.lesson.beat = 2;
        assert_eq!((early.lesson.scene, measured(&early)), (Scene::TradeOff, None));
        let mut open = told(Question::OwnRate);
        let mut known = open.clone();
        open.lesson.poll.as_mut().expect("a question").is_open = true;
        known.lesson.poll.as_mut().expect("a question").poll.correct = Some(3);
        assert_eq!((measured(&open), measured(&known)), (None, None));
    }
}
