//! Puts the results of attacks into words.

use unmask_core::{AttackMethod, MembershipVerdict};
use unmask_data::metrics::Level;
use unmask_lesson::Beat;
use unmask_wire::view::{AttackView, BudgetView, GatheredView, LabelView, MembershipView, RoomView, SearchState};

use unmask_words::{say, shown_nickname};

use super::{counted, duration, names, number};

/// The attack behind the picture of this number in a beat; `None` if the beat shows no such picture.
pub fn shown(view: &RoomView, beat: Beat, picture: usize) -> Option<AttackMethod> {
    let applies = |method: &&AttackMethod| match method {
        AttackMethod::April | AttackMethod::AprilAware => view.architecture.april_block(),
        AttackMethod::Gradients | AttackMethod::GradientsAware => view.architecture.vit().is_none(),
        _ => view.architecture.vit().is_some(),
    };
    let methods = beat.attacks().get(picture)?;
    methods.iter().find(applies).or(methods.last()).copied()
}

/// The last result of an attack on the client under attack, unless the defence is about to change.
pub fn result(view: &RoomView, attack: AttackMethod) -> Option<&AttackView> {
    let is_now = |result: &&AttackView| {
        result.attack == attack && Some(result.client) == view.target && result.defence == view.coming_defence()
    };
    view.attacks.iter().find(is_now)
}

/// How much is recognisable, in a word or two.
pub fn level(level: Level) -> &'static str {
    match level {
        Level::Hidden => say::level::hidden(),
        Level::Outlines => say::level::outlines(),
        Level::Recognisable => say::level::recognisable(),
    }
}

/// A note on how an attack's picture was compared with the original.
pub fn comparison_note(attack: AttackMethod) -> Option<&'static str> {
    attack.is_unordered().then(say::details::best_order)
}

/// What it means that a reconstruction is not recognisable. It says something about this attacker only.
pub fn not_recognisable(is_defended: bool, is_searching: bool) -> &'static str {
    match (is_searching, is_defended) {
        (true, _) => say::details::not_yet(),
        (false, true) => say::details::not_by_this(),
        (false, false) => say::details::not_undefended(),
    }
}

pub fn search_state(state: SearchState) -> &'static str {
    match state {
        SearchState::Running => "searching",
        SearchState::Waiting => "out of time; continues with the next round",
        SearchState::Stopped => "stopped",
        SearchState::Done => "done",
    }
}

/// Formats a share from 0 to 1 in percent with few digits, however small: `0.021 %`, `3.1 %`.
pub fn share(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// The share of entries still hidden after several rounds.
pub fn hidden_entries(gathered: &GatheredView) -> String {
    format!(
        "K = {}: {} of the entries still hidden, Rᴷ = {} expected",
        counted(gathered.rounds, "round"),
        share(gathered.hidden),
        share(gathered.expected_hidden)
    )
}

/// How close the attack is to a least-squares solution.
pub fn equations(gathered: &GatheredView) -> String {
    let (whole, needed) = (gathered.whole_equations, gathered.needed_equations);
    let outlook = match gathered.rounds_needed {
        _ if whole >= needed => "enough to solve them without guessing".to_owned(),
        Some(rounds) => format!("expected after {}", counted(rounds, "round")),
        None => "not expected at this rate".to_owned(),
    };
    format!("complete equations: {whole} of the {needed} needed; {outlook}")
}

/// The labels that an attack read, by name: `cat`, or `2 × cat, 1 × dog`. `None` if the attack cannot tell.
pub fn labels(label: &LabelView, names: &[String]) -> Option<String> {
    let counts = || label.counts.iter().enumerate().filter(|(_, count)| **count > 0);
    match counts().count() {
        0 => None,
        1 if label.samples <= 1 => counts().map(|(place, _)| names::class_name(names, place)).next(),
        _ => {
            let each: Vec<String> =
                counts().map(|(place, count)| format!("{count} × {}", names::class_name(names, place))).collect();
            Some(each.join(", "))
        }
    }
}

/// Whether the client trained on the photograph, as a headline. A copy that was not in the update says nothing about
/// the photograph.
pub fn membership(membership: &MembershipView) -> String {
    let nickname = shown_nickname(&membership.nickname);
    match membership.verdict {
        Some(MembershipVerdict::Member) => say::member::yes(nickname),
        Some(MembershipVerdict::Stranger) if membership.is_exact => say::member::no(nickname),
        Some(MembershipVerdict::Stranger) => say::member::no_copy(nickname),
        Some(MembershipVerdict::Undecided) => say::member::undecided().to_owned(),
        None if membership.round == 0 => say::member::waiting().to_owned(),
        None => say::member::silent().to_owned(),
    }
}

/// What the trials of the noise on a sum say of its epsilon: `((right guesses, trials), least epsilon)`.
pub fn tried_noise(((right, trials), epsilon): ((u32, u32), f64)) -> String {
    format!(
        "In {right} of {trials} trials, a guesser who knows all other pictures and the weights said correctly which of two \
         is in the sum. So at its delta, the noise's epsilon for one round is at least {epsilon:.2} (95 % confidence)."
    )
}

/// How its owner finds what doctored weights read out of a sum: `(PSNR in dB, SSIM)`.
pub fn score_of_sum((psnr, ssim): (f32, f32)) -> String {
    format!("Compared by its owner: PSNR {psnr:.1} dB, SSIM {ssim:.2}.")
}

pub fn attack_time_spent(budget: &BudgetView) -> String {
    if budget.seconds <= 0.0 {
        return "attacks are off".to_owned();
    }
    format!("{} spent", duration(budget.spent * 1000.0))
}

/// The attacks that there was no time for, if any.
pub fn attacks_skipped(budget: &BudgetView) -> Option<String> {
    let title = |name: &String| name.parse().map_or(name.clone(), |attack: AttackMethod| attack.title().to_owned());
    let titles: Vec<String> = budget.skipped.iter().map(title).collect();
    (!titles.is_empty()).then(|| format!("no time for {}", titles.join(", ")))
}

#[cfg(test)]
mod tests {
    use unmask_core::ClientId;

    use super::*;

    #[test]
    fn trials_of_noise_bound_its_epsilon_from_below() {
        let said = tried_noise(((20, 20), 1.8211));
        assert!(said.contains("In 20 of 20 trials") && said.contains("at least 1.82 (95 %"), "{said}");
    }

    #[test]
    fn not_being_recognised_is_said_of_one_attacker_only() {
        assert!(not_recognisable(true, false).contains("this attack; another may see more"));
        assert!(not_recognisable(false, false).contains("no defence"));
        assert!(not_recognisable(true, true).contains("yet"));
    }

    #[test]
    fn small_shares_keep_their_digits() {
        assert_eq!(share(0.000_21), "0.021 %");
        assert_eq!(share(0.5), "50 %");
        assert_eq!(share(1.0), "100 %");
        assert_eq!(share(0.0), "0 %");
        assert_eq!(share(1e-8), "1e-6 %");
    }

    #[test]
    fn rounds_say_how_far_it_is() {
        let gathered = GatheredView {
            rounds: 5,
            hidden: 0.031,
            expected_hidden: 0.031_2,
            whole_equations: 12,
            needed_equations: 64,
            rounds_needed: Some(9),
            has_drifted: false,
        };
        assert_eq!(hidden_entries(&gathered), "K = 5 rounds: 3.1 % of the entries still hidden, Rᴷ = 3.12 % expected");
        assert_eq!(equations(&gathered), "complete equations: 12 of the 64 needed; expected after 9 rounds");
        let never = GatheredView { rounds_needed: None, ..gathered.clone() };
        assert!(equations(&never).ends_with("not expected at this rate"));
        let enough = GatheredView { whole_equations: 70, ..gathered };
        assert!(equations(&enough).contains("70 of the 64 needed; enough"));
    }

    #[test]
    fn labels_are_named_and_counted() {
        let counts = |samples: u32, of: &[(usize, u32)]| {
            let mut counts = vec![0; 10];
            for (place, count) in of {
                counts[*place] = *count;
            }
            LabelView { samples, counts, ..LabelView::default() }
        };
        let names = names::photograph_classes(&[]);
        let labels = |label: &LabelView| labels(label, &names);
        assert_eq!(labels(&counts(1, &[(3, 1)])).as_deref(), Some("food"));
        assert_eq!(labels(&counts(3, &[(3, 2), (5, 1)])).as_deref(), Some("2 × food, 1 × building"));
        assert_eq!(labels(&counts(4, &[(3, 4)])).as_deref(), Some("4 × food"));
        assert_eq!(labels(&LabelView::default()), None);
    }

    #[test]
    fn a_verdict_is_only_given_where_there_is_one() {
        let of = |verdict, round| {
            let nickname = "robot 1".to_owned();
            membership(&MembershipView { verdict, round, nickname, is_exact: true, ..MembershipView::default() })
        };
        assert!(of(Some(MembershipVerdict::Member), 4).contains("Yes: robot 1"));
        assert!(of(Some(MembershipVerdict::Stranger), 4).contains("No: robot 1"));
        let copy = MembershipView { verdict: Some(MembershipVerdict::Stranger), round: 4, ..MembershipView::default() };
        assert!(membership(&copy).contains("this copy"));
        assert!(of(Some(MembershipVerdict::Undecided), 4).contains("cannot"));
        assert!(of(None, 0).contains("Waiting"));
        assert!(of(None, 4).contains("does not say"));
    }

    #[test]
    fn the_budget_names_what_it_cut() {
        let budget = BudgetView { seconds: 5.0, spent: 5.2, skipped: vec!["april-aware".to_owned()] };
        assert_eq!(attack_time_spent(&budget), "5.2 s spent");
        assert_eq!(attacks_skipped(&budget).as_deref(), Some("no time for APRIL that knows the mask"));
        assert_eq!(attacks_skipped(&BudgetView::default()), None);
        assert_eq!(attack_time_spent(&BudgetView::default()), "attacks are off");
    }

    #[test]
    fn an_older_result_is_not_shown_as_this_ones() {
        let shown = AttackView { attack: AttackMethod::Embedding, client: ClientId(1), ..AttackView::default() };
        let view = RoomView { attacks: vec![shown], target: Some(ClientId(1)), ..RoomView::default() };
        assert!(result(&view, AttackMethod::Embedding).is_some());
        assert_eq!(super::shown(&view, Beat::VoteWhose, 0), Some(AttackMethod::Embedding));
        let april = RoomView { architecture: view.architecture.with_april_block(true), ..view.clone() };
        assert_eq!(super::shown(&april, Beat::VoteWhose, 0), Some(AttackMethod::April));
        assert_eq!((super::shown(&april, Beat::KnowsMask, 2), super::shown(&april, Beat::Join, 0)), (None, None));
        assert!(result(&view, AttackMethod::April).is_none());
        assert!(
            result(
                &RoomView { defence: "random-binary:0.5".parse().unwrap(), ..view.clone() },
                AttackMethod::Embedding
            )
            .is_none()
        );
        assert!(result(&RoomView { target: Some(ClientId(2)), ..view }, AttackMethod::Embedding).is_none());
    }
}
