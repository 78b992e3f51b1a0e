//! The last result of each attack, with the attacked client's scores.

use std::collections::BTreeMap;

use unmask_core::{AttackMethod, ClientId, Defence, VitConfig};
use unmask_data::metrics::RECOGNISABLE_FROM;
use unmask_wire::{
    RelayMessage,
    view::{AttackView, GatheredView, TablesView},
};

use super::{
    about::About,
    pictures::Pictures,
    report::{Failure, Finding, Seen},
    tables::Tables,
};
use crate::scores::Scores;

/// Number of rounds in the chart of scores; the verdict takes their median.
const RECENT: usize = 5;

/// Why a client's score is refused, as a clause.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum ScoreError {
    #[error("a score for the attack \"{attack}\", which has shown nothing")]
    Nothing { attack: AttackMethod },
    #[error("a score from a client that is not under attack")]
    NotTarget,
    #[error("a score for round {round}, but the last result of {attack} is of round {shown}")]
    OtherRound { round: u32, attack: AttackMethod, shown: u32 },
    #[error("a score for round {round}, for which {attack} made no picture")]
    NoPicture { round: u32, attack: AttackMethod },
    #[error("a score of {psnr} dB and SSIM {ssim}; a PSNR is finite and an SSIM within -1 and 1")]
    OutOfRange { psnr: f32, ssim: f32 },
}

/// The card of one attack.
#[derive(Debug, Default)]
struct Card {
    /// `None` while the attack does not apply to updates like the newest.
    view: Option<AttackView>,
    /// Number of the update behind the result.
    serial: u64,
    /// Client and round of the previous result, for which a score may still arrive.
    before: Option<(ClientId, u32)>,
    /// SSIM by round, newest last, for the current client and defence.
    recent: Scores,
}

/// The cards of all attacks.
#[derive(Debug, Default)]
pub(crate) struct Attacked {
    cards: BTreeMap<AttackMethod, Card>,
    /// The attacks that apply to updates like the newest.
    applicable: Vec<AttackMethod>,
}

fn keep_tables(tables: Tables, about: &About, pictures: &Pictures) -> TablesView {
    let Tables { positions, patches, patch, per_side, dim } = tables;
    let keep = |name, png| Some(pictures.keep(about.client, name, &format!("{}-", about.round), png));
    TablesView { positions: keep("positions", positions), patches: keep("patches", patches), patch, per_side, dim }
}

impl Attacked {
    /// Returns the current results, in the order of [`AttackMethod::ALL`].
    pub(crate) fn views(&self) -> impl Iterator<Item = &AttackView> {
        self.cards.values().filter_map(|card| card.view.as_ref())
    }

    /// Removes the results of attacks that do not apply to the newer update.
    pub(crate) fn begin(&mut self, applicable: Vec<AttackMethod>) {
        self.applicable = applicable;
        let gone: Vec<AttackMethod> =
            self.cards.keys().copied().filter(|method| !self.applicable.contains(method)).collect();
        gone.into_iter().for_each(|method| self.remove(method));
    }

    pub(crate) fn remove(&mut self, method: AttackMethod) {
        if let Some(card) = self.cards.get_mut(&method)
            && let Some(view) = card.view.take()
        {
            card.before = Some((view.client, view.round));
            card.recent.clear();
        }
    }

    pub(crate) fn forget(&mut self, client: ClientId) {
        let is_of = |card: &Card| card.view.as_ref().is_some_and(|view| view.client == client);
        let gone: Vec<AttackMethod> =
            self.cards.iter().filter(|(_, card)| is_of(card)).map(|(method, _)| *method).collect();
        gone.into_iter().for_each(|method| self.remove(method));
    }

    /// Takes a result. Returns the message that sends the attacked client its reconstruction, if that is a single
    /// picture.
    pub(crate) fn found(
        &mut self,
        finding: Finding,
        nickname: &str,
        config: Option<&VitConfig>,
        pictures: &Pictures,
    ) -> Option<(RelayMessage, Vec<f32>)> {
        let Finding { about, method, seconds, outcome, search } = finding;
        let is_search = search.is_some();
        let (card, earlier) = self.turn(method, &about)?;
        let mut view =
            AttackView { seconds, search, recent: card.recent.values(), ..blank(method, &about, nickname, config) };
        let mut message = None;
        match outcome {
            Ok(Seen { side, pictures: count, values, png, remark, tables }) => {
                view.tables = tables.map(|tables| keep_tables(tables, &about, pictures));
                view.picture = Some(pictures.keep(about.client, method.name(), &format!("{}-", about.round), png));
                (view.pictures, view.remark) = (count, remark);
                if count == 1 {
                    let (round, attack) = (about.round, method);
                    message = Some((RelayMessage::Reconstruction { round, attack, side }, values));
                }
            }
            Err(reason) => view.remark = Some(reason.to_string()),
        }
        if let Some(earlier) = earlier.filter(|earlier| earlier.client == view.client) {
            view.gathered = earlier.gathered;
            // A search shows pictures so quickly that the last score stays until the next one arrives.
            if is_search && earlier.round == view.round && view.picture.is_some() {
                (view.psnr, view.ssim) = (earlier.psnr, earlier.ssim);
                if let (Some(search), Some(earlier)) = (&mut view.search, earlier.search) {
                    search.recognised_after = earlier.recognised_after;
                }
            }
        }
        card.view = Some(view);
        message
    }

    /// Takes the state of the gathering; its picture arrives through [`Attacked::found`].
    pub(crate) fn gathered(
        &mut self,
        about: &About,
        outcome: Result<GatheredView, Failure>,
        nickname: &str,
        config: Option<&VitConfig>,
    ) {
        let Some((card, earlier)) = self.turn_in_place(AttackMethod::Rounds, about) else { return };
        let mut view = earlier
            .filter(|earlier| earlier.client == about.client)
            .unwrap_or_else(|| blank(AttackMethod::Rounds, about, nickname, config));
        view.recent = card.recent.values();
        match outcome {
            Ok(gathered) => {
                view.gathered = Some(gathered);
                // Without a picture, an earlier remark can only be about an update that was not added.
                view.remark = view.remark.filter(|_| view.picture.is_some());
            }
            Err(reason) => {
                view.remark = Some(format!("Round {} is not among those gathered, because {reason}.", about.round));
            }
        }
        card.view = Some(view);
    }

    /// Returns the card that a result for this update replaces, and its earlier content; `None` if the result must not
    /// be shown.
    fn turn(&mut self, method: AttackMethod, about: &About) -> Option<(&mut Card, Option<AttackView>)> {
        let (card, earlier) = self.turn_in_place(method, about)?;
        card.serial = about.serial;
        if let Some(earlier) = &earlier
            && (earlier.client, earlier.round) != (about.client, about.round)
        {
            card.before = Some((earlier.client, earlier.round));
        }
        Some((card, earlier))
    }

    fn turn_in_place(&mut self, method: AttackMethod, about: &About) -> Option<(&mut Card, Option<AttackView>)> {
        if !self.applicable.contains(&method) {
            return None;
        }
        let card = self.cards.entry(method).or_default();
        if card.view.is_some() && card.serial > about.serial {
            return None;
        }
        let earlier = card.view.take();
        if earlier.as_ref().is_some_and(|earlier| (earlier.client, earlier.defence) != (about.client, about.defence)) {
            card.recent.clear();
        }
        Some((card, earlier))
    }

    /// Takes a client's score of its reconstruction. Returns the defence it applies to, or `None` if a newer result has
    /// replaced the one scored.
    pub(crate) fn score(
        &mut self,
        client: ClientId,
        round: u32,
        attack: AttackMethod,
        psnr: f32,
        ssim: f32,
    ) -> Result<Option<Defence>, ScoreError> {
        let card = self.cards.get_mut(&attack).ok_or(ScoreError::Nothing { attack })?;
        let shown = card.view.as_ref().map(|view| (view.client, view.round));
        if card.before == Some((client, round)) && shown != Some((client, round)) {
            // The next result overtook this score. That is not an error, but there is nothing to show it on.
            return Ok(None);
        }
        let view = card.view.as_mut().ok_or(ScoreError::Nothing { attack })?;
        if view.client != client {
            return Err(ScoreError::NotTarget);
        }
        if view.round != round {
            return Err(ScoreError::OtherRound { round, attack, shown: view.round });
        }
        if view.picture.is_none() {
            return Err(ScoreError::NoPicture { round, attack });
        }
        check_score(psnr, ssim)?;
        (view.psnr, view.ssim) = (Some(psnr), Some(ssim));
        if let Some(search) = view.search.as_mut().filter(|_| f64::from(ssim) >= RECOGNISABLE_FROM) {
            search.recognised_after.get_or_insert(search.elapsed);
        }
        let defence = view.defence;
        card.recent.push(round, ssim, RECENT);
        if let Some(view) = &mut card.view {
            view.recent = card.recent.values();
        }
        Ok(Some(defence))
    }
}

/// # Errors
/// If no pictures have this distance.
pub(super) fn check_score(psnr: f32, ssim: f32) -> Result<(), ScoreError> {
    let is_possible = psnr.is_finite() && (-1.0..=1.0).contains(&ssim);
    if is_possible { Ok(()) } else { Err(ScoreError::OutOfRange { psnr, ssim }) }
}

fn blank(method: AttackMethod, about: &About, nickname: &str, config: Option<&VitConfig>) -> AttackView {
    let family = method.family();
    AttackView {
        attack: method,
        family,
        family_title: family.title().to_owned(),
        title: method.title().to_owned(),
        attacker: method.attacker().to_owned(),
        explanation: method.explanation(config),
        round: about.round,
        client: about.client,
        nickname: nickname.to_owned(),
        defence: about.defence,
        ..AttackView::default()
    }
}

#[cfg(test)]
mod tests {
    use unmask_attack::Concealment;
    use unmask_core::{Rule, VitPreset};
    use unmask_wire::view::SearchView;

    use super::*;
    use crate::attacks::report::NoResult;

    const TARGET: ClientId = ClientId(4);

    fn about(round: u32) -> About {
        About {
            epoch: 1,
            serial: round.into(),
            gathering: 0,
            client: TARGET,
            round,
            defence: Defence::None,
            rule: Rule::FedSgd,
            samples: 1,
        }
    }

    fn seen() -> Result<Seen, NoResult> {
        Ok(Seen { side: 1, pictures: 1, values: vec![0.5; 3], png: vec![1, 2, 3], remark: None, tables: None })
    }

    struct Shown {
        attacked: Attacked,
        pictures: Pictures,
    }

    impl Shown {
        fn new(concealment: Concealment) -> Self {
            let mut attacked = Attacked::default();
            attacked.begin(concealment.methods(VitPreset::Pico.into(), 1));
            Self { attacked, pictures: Pictures::default() }
        }

        fn found(
            &mut self,
            method: AttackMethod,
            round: u32,
            outcome: Result<Seen, NoResult>,
            search: Option<SearchView>,
        ) -> Option<(RelayMessage, Vec<f32>)> {
            let finding = Finding { about: about(round), method, seconds: 0.1, outcome, search };
            let config = VitConfig::from(VitPreset::Pico);
            self.attacked.found(finding, "Ada", Some(&config), &self.pictures)
        }

        fn embedding(&mut self, round: u32, outcome: Result<Seen, NoResult>) -> Option<(RelayMessage, Vec<f32>)> {
            self.found(AttackMethod::Embedding, round, outcome, None)
        }

        fn shown(&self) -> (u32, Option<f32>) {
            self.attacked.views().map(|view| (view.round, view.ssim)).next().unwrap()
        }
    }

    #[test]
    fn scores_count_for_the_picture_shown_alone() {
        let mut room = Shown::new(Concealment::Nothing);
        let error = room.attacked.score(TARGET, 3, AttackMethod::Embedding, 20.0, 0.5).unwrap_err().to_string();
        assert!(error.contains("shown nothing"), "{error}");
        let (message, values) = room.embedding(3, seen()).unwrap();
        assert_eq!(message, RelayMessage::Reconstruction { round: 3, attack: AttackMethod::Embedding, side: 1 });
        assert_eq!(values, [0.5; 3]);
        for (client, round, attack, psnr, ssim, reason) in [
            (ClientId(5), 3, AttackMethod::Embedding, 20.0, 0.5, "not under attack"),
            (TARGET, 2, AttackMethod::Embedding, 20.0, 0.5, "is of round 3"),
            (TARGET, 3, AttackMethod::April, 20.0, 0.5, "shown nothing"),
            (TARGET, 3, AttackMethod::Jigsaw, 20.0, 0.5, "shown nothing"),
            (TARGET, 3, AttackMethod::Embedding, 20.0, 1.1, "1.1"),
            (TARGET, 3, AttackMethod::Embedding, 20.0, f32::NAN, "NaN"),
            (TARGET, 3, AttackMethod::Embedding, f32::INFINITY, 0.5, "inf"),
        ] {
            let error = room.attacked.score(client, round, attack, psnr, ssim).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert_eq!(room.shown(), (3, None));
        }
        room.attacked.score(TARGET, 3, AttackMethod::Embedding, 20.0, -0.25).unwrap();
        assert_eq!(room.shown(), (3, Some(-0.25)));
        let path = room.attacked.views().next().unwrap().picture.clone().unwrap();
        assert!(path.starts_with("/api/reconstruction/embedding/3-"), "{path}");
        assert_eq!(room.pictures.get(&path).unwrap().as_ref(), [1, 2, 3]);
    }

    #[test]
    fn late_score_for_the_picture_before_is_let_pass() {
        let mut room = Shown::new(Concealment::Nothing);
        for round in [3, 4] {
            room.embedding(round, seen()).unwrap();
        }
        room.attacked.score(TARGET, 3, AttackMethod::Embedding, 20.0, 0.5).unwrap();
        assert_eq!(room.shown(), (4, None));
        room.attacked.score(TARGET, 2, AttackMethod::Embedding, 20.0, 0.5).unwrap_err();
    }

    #[test]
    fn no_picture_no_score() {
        let mut room = Shown::new(Concealment::Nothing);
        assert!(room.embedding(1, Err(NoResult::NotYet)).is_none());
        let remark = room.attacked.views().next().unwrap().remark.clone();
        assert_eq!(remark.as_deref(), Some("It has not made a picture yet."));
        let error = room.attacked.score(TARGET, 1, AttackMethod::Embedding, 20.0, 0.5).unwrap_err();
        assert_eq!(error, ScoreError::NoPicture { round: 1, attack: AttackMethod::Embedding });
    }

    #[test]
    fn older_results_never_replace_newer_ones() {
        let mut room = Shown::new(Concealment::Nothing);
        room.embedding(4, seen()).unwrap();
        assert!(room.embedding(3, seen()).is_none());
        assert_eq!(room.shown(), (4, None));
    }

    /// A score for a card that was removed with its defence is not an error.
    #[test]
    fn cards_that_do_not_apply_disappear() {
        let mut room = Shown::new(Concealment::Entries);
        for method in [AttackMethod::Rounds, AttackMethod::Embedding] {
            room.found(method, 3, seen(), None).unwrap();
        }
        room.attacked.begin(Concealment::Nothing.methods(VitPreset::Pico.into(), 1));
        let shown: Vec<AttackMethod> = room.attacked.views().map(|view| view.attack).collect();
        assert_eq!(shown, [AttackMethod::Embedding]);
        room.attacked.score(TARGET, 3, AttackMethod::Rounds, 20.0, 0.5).unwrap();
        assert!(room.found(AttackMethod::Rounds, 3, seen(), None).is_none());
        assert_eq!(room.attacked.views().count(), 1);
    }

    #[test]
    fn searchs_score_stands_until_the_next_one() {
        let mut room = Shown::new(Concealment::Nothing);
        let search = |iteration: usize| {
            Some(SearchView { iteration, iterations: 9, elapsed: iteration as f64, ..SearchView::default() })
        };
        room.found(AttackMethod::MatchingAware, 3, seen(), search(1)).unwrap();
        room.attacked.score(TARGET, 3, AttackMethod::MatchingAware, 20.0, 0.4).unwrap();
        room.found(AttackMethod::MatchingAware, 3, seen(), search(2)).unwrap();
        assert_eq!(room.shown(), (3, Some(0.4)));
        // The first recognisable picture stops the clock, whatever later scores are.
        for (step, ssim) in [(3, 0.8), (4, 0.2), (5, 0.9)] {
            room.found(AttackMethod::MatchingAware, 3, seen(), search(step)).unwrap();
            room.attacked.score(TARGET, 3, AttackMethod::MatchingAware, 20.0, ssim).unwrap();
        }
        let after = |room: &Shown| room.attacked.views().next().unwrap().search.clone().unwrap().recognised_after;
        assert_eq!(after(&room), Some(3.0));
        room.found(AttackMethod::MatchingAware, 4, seen(), search(1)).unwrap();
        assert_eq!((room.shown(), after(&room)), ((4, None), None));
    }

    #[test]
    fn recent_scores_are_of_one_client_and_one_defence() {
        let mut room = Shown::new(Concealment::Nothing);
        let recent = |room: &Shown| room.attacked.views().next().unwrap().recent.clone();
        for round in 1..=7 {
            room.embedding(round, seen()).unwrap();
            for ssim in [0.9, f32::from(round as u8) / 10.0] {
                let defence = room.attacked.score(TARGET, round, AttackMethod::Embedding, 20.0, ssim);
                assert_eq!(defence, Ok(Some(Defence::None)));
            }
        }
        assert_eq!(recent(&room), [0.3, 0.4, 0.5, 0.6, 0.7]);
        room.embedding(8, seen()).unwrap();
        assert_eq!(recent(&room).len(), 5, "the next picture has no score yet");
        let fixed = About { defence: Defence::FixedPosition, ..about(9) };
        let method = AttackMethod::Embedding;
        let finding = Finding { about: fixed, method, seconds: 0.1, outcome: seen(), search: None };
        room.attacked.found(finding, "Ada", None, &room.pictures).unwrap();
        assert!(recent(&room).is_empty());
        room.attacked.score(TARGET, 9, method, 20.0, 0.5).unwrap();
        assert_eq!(recent(&room), [0.5]);
        room.attacked.forget(TARGET);
        room.embedding(10, seen()).unwrap();
        assert!(recent(&room).is_empty());
    }

    #[test]
    fn pictures_of_a_batch_are_not_sent() {
        let mut room = Shown::new(Concealment::Nothing);
        let two = Ok(Seen { side: 1, pictures: 2, values: vec![0.5; 6], png: vec![1], remark: None, tables: None });
        assert!(room.found(AttackMethod::MatchingAware, 1, two, None).is_none());
        assert_eq!(room.attacked.views().next().unwrap().pictures, 2);
    }

    #[test]
    fn a_card_says_what_was_attacked_and_how() {
        let mut room = Shown::new(Concealment::Nothing);
        let method = AttackMethod::MatchingAware;
        room.found(method, 3, seen(), None).unwrap();
        let card = room.attacked.views().next().unwrap();
        assert_eq!((card.attack, card.family, card.title.as_str()), (method, method.family(), method.title()));
        assert_eq!((card.client, card.round, card.defence), (TARGET, 3, Defence::None));
        assert!(!card.attacker.is_empty() && card.explanation != Default::default());
    }
}
