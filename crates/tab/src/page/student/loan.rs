//! Another student's masked numbers, which this student attacks: what the two attacks see, and the result.

use leptos::prelude::*;
use unmask_lesson::Poll;
use unmask_words::say;

use super::trainer::Trainer;
use crate::{
    page::{
        logic::{sentence, turn::Link},
        widgets::{optional, picture::Pixels},
    },
    protocol::{LoanAttack, LoanResult},
};

/// What this page knows of a loan.
#[derive(Debug, Clone, PartialEq)]
pub struct Borrowed {
    /// The question that it is for.
    pub poll: u32,
    /// What the attack shows that reads gaps as zeros.
    blind: Option<LoanAttack>,
    /// What the attack shows that knows the gaps. The student sees it on request.
    aware: Option<LoanAttack>,
    /// Whether the student asked for it.
    pub knows_gaps: bool,
    /// Whether there is no update for this student.
    is_ended: bool,
    /// Whose it was, as a position among the suspects, and the points.
    pub score: Option<(u16, u8)>,
}

impl Borrowed {
    fn new(poll: u32) -> Self {
        Self { poll, blind: None, aware: None, knows_gaps: false, is_ended: false, score: None }
    }

    /// Whether this result is of other numbers. The first result of a loan is that of the attack without the gaps.
    pub fn is_replaced_by(&self, result: &LoanResult) -> bool {
        self.poll != result.poll || !result.knows_gaps
    }

    pub fn with(before: Option<Self>, result: LoanResult) -> Self {
        match before.filter(|before| !before.is_replaced_by(&result)) {
            Some(before) => Self { aware: Some(result.attack), ..before },
            None => Self { blind: Some(result.attack), ..Self::new(result.poll) },
        }
    }

    /// Drops the pictures.
    pub fn ended(before: Option<Self>, poll: u32) -> Self {
        let score = before.filter(|before| before.poll == poll).and_then(|before| before.score);
        Self { is_ended: true, score, ..Self::new(poll) }
    }

    pub fn scored(before: Option<Self>, poll: u32, owner: u16, points: u8) -> Self {
        let before = before.filter(|before| before.poll == poll).unwrap_or_else(|| Self::new(poll));
        Self { score: Some((owner, points)), ..before }
    }

    /// Whether the student has something to guess from.
    pub fn can_guess(&self) -> bool {
        self.blind.is_some()
    }

    /// What to say if there are no pictures.
    fn note(&self) -> String {
        let is_over = self.is_ended && self.score.is_none();
        match &self.blind {
            None if is_over => say::contest::nothing_lent().to_owned(),
            None => String::new(),
            Some(LoanAttack::NoWeights) => say::contest::no_weights().to_owned(),
            Some(LoanAttack::Failed(reason)) => sentence(reason),
            Some(LoanAttack::Picture(_)) => match &self.aware {
                Some(LoanAttack::Failed(reason)) if self.knows_gaps => sentence(reason),
                None if self.knows_gaps && self.score.is_none() => say::contest::computing().to_owned(),
                _ => String::new(),
            },
        }
    }
}

/// The result in a sentence.
pub fn verdict(poll: &Poll, own: Option<u16>, (owner, points): (u16, u8)) -> String {
    let right = unmask_words::answer(poll, owner);
    match own {
        Some(own) if own == owner => say::contest::right(points.into(), right),
        Some(own) => say::vote::wrong_picture(unmask_words::answer(poll, own), right),
        None => say::vote::was(right),
    }
}

/// The pictures that the attacks made, and a button for the gaps while the student may still guess.
#[component]
pub fn Loan(trainer: Trainer, number: u32) -> impl IntoView {
    let of_question = move |borrowed: &Borrowed| borrowed.poll == number;
    let borrowed = Memo::new(move |_| trainer.borrowed.get().filter(of_question));
    let picture = |attack: &Option<LoanAttack>| match attack {
        Some(LoanAttack::Picture(picture)) => Some(picture.clone()),
        _ => None,
    };
    let blind = Memo::new(move |_| borrowed.with(|it| picture(&it.as_ref()?.blind)));
    let aware = Memo::new(move |_| {
        borrowed
            .with(|it| it.as_ref().filter(|it| it.knows_gaps || it.score.is_some()).and_then(|it| picture(&it.aware)))
    });
    let note = move || borrowed.with(|it| it.as_ref().map_or(say::contest::waiting().to_owned(), Borrowed::note));
    let is_open = move || borrowed.with(|it| it.as_ref().is_some_and(|it| it.score.is_none()));
    let is_offered = move || {
        is_open() && borrowed.with(|it| it.as_ref().is_some_and(|it| !it.knows_gaps)) && blind.with(Option::is_some)
    };
    let figure = move |picture: Memo<Option<crate::protocol::Rgba>>, testid, caption: fn() -> &'static str| {
        view! {
            <figure data-testid=testid hidden=move || picture.with(Option::is_none)>
                <Pixels picture=Signal::derive(optional(picture, |it| Some(it.clone()))) label=say::contest::leak() class="photo"/>
                <figcaption>{caption()}</figcaption>
            </figure>
        }
    };
    view! {
        <div class="own-pictures loan" data-testid="loan">
            {figure(blind, "loan-blind", say::leak::zeros)}
            {figure(aware, "loan-aware", say::leak::aware)}
        </div>
        <p class="sub" role="status" data-testid="loan-note" hidden=move || note().is_empty()>{note}</p>
        <div hidden=move || !is_offered()>
            <p class="hint">{say::contest::points_hint()}</p>
            <button
                type="button"
                class="button large"
                data-testid="know-gaps"
                disabled=move || trainer.link() != Link::Online
                on:click=move |_| trainer.know_gaps(number)
            >
                {say::contest::know_gaps()}
            </button>
        </div>
    }
}
