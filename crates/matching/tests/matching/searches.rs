//! Searches as a relay or the command line starts them, on `vit_pico_patch4_16`.

use super::common::{photograph, ssim};
use unmask_attack::{
    Misfit, Needs, Search, SearchOptions, SearchProgress, SearchTarget, Searches, WholeUpdate, embedding_inversion,
};
use unmask_core::{Architecture, AttackMethod, Knowledge, ModelState, VitPreset};
use unmask_data::{chw_to_hwc, metrics};
use unmask_matching::GradientMatching;
use unmask_model::{Network, device::OpenDevice};

const SIDE: usize = 16;
const LABELS: [usize; 4] = [3, 5, 7, 9];
const SEARCHES: [AttackMethod; 5] = [
    AttackMethod::Matching,
    AttackMethod::MatchingAware,
    AttackMethod::Gradients,
    AttackMethod::GradientsAware,
    AttackMethod::Jigsaw,
];

fn searches() -> GradientMatching {
    GradientMatching::new(OpenDevice::cpu())
}

fn architecture() -> Architecture {
    Architecture::from(VitPreset::Pico)
}

/// Owns what a [`SearchTarget`] borrows.
#[derive(Clone)]
struct Owned {
    architecture: Architecture,
    state: ModelState,
    gradient: Vec<f32>,
    kept: Option<Vec<bool>>,
    labels: Vec<usize>,
    start: Vec<f32>,
}

impl Owned {
    fn target(&self) -> SearchTarget<'_> {
        let Self { architecture, state, gradient, kept, labels, start } = self;
        let (labels, start) = (labels.clone(), start.clone());
        let kept = kept.as_deref();
        SearchTarget {
            architecture: *architecture,
            state,
            gradient,
            kept,
            is_training: true,
            labels,
            start,
            is_start_exact: false,
        }
    }
}

/// Returns the update of these photographs at the initialisation, half masked by a fixed hash, and a grey start.
fn subject(names: &[&str]) -> Owned {
    let network = Network::new(architecture(), OpenDevice::cpu().device()).unwrap();
    let images: Vec<f32> = names.iter().flat_map(|name| photograph(name, SIDE)).collect();
    let labels = LABELS[..names.len()].to_vec();
    let state = architecture().initial(1);
    let mut gradient = network.loss_and_gradient_blocking(&state, &images, &labels).unwrap().gradient;
    let kept: Vec<bool> = (0..gradient.len()).map(|i| (i as u32).wrapping_mul(2_654_435_761) >> 15 & 1 == 1).collect();
    gradient.iter_mut().zip(&kept).filter(|(_, kept)| !**kept).for_each(|(value, _)| *value = 0.0);
    let (architecture, start) = (architecture(), vec![0.5; images.len()]);
    Owned { architecture, state, gradient, kept: Some(kept), labels, start }
}

fn begin(method: AttackMethod, subject: &Owned, iterations: usize) -> Box<dyn Search> {
    let options = SearchOptions { iterations: Some(iterations), ..SearchOptions::default() };
    let mut target = subject.target();
    target.kept = target.kept.filter(|_| method.knowledge() == Knowledge::Aware);
    searches().begin(method, &target, options).unwrap_or_else(|error| panic!("{method}: {error}"))
}

fn finish(search: &mut dyn Search) -> (SearchProgress, SearchProgress) {
    let first = search.step().unwrap();
    let mut last = first.clone();
    while !last.is_over {
        last = search.step().unwrap();
    }
    (first, last)
}

#[test]
fn every_search_begins_and_ends() {
    let subject = subject(&["rocket.png"]);
    for method in SEARCHES {
        let mut search = begin(method, &subject, 16);
        let (first, last) = finish(search.as_mut());
        assert_eq!((first.iteration, first.iterations, first.is_over), (1, 16, false), "{method}");
        assert!(last.iteration <= 16 && last.objective < first.objective, "{method}: {last:?}");
        assert_eq!(last.image.len(), SIDE * SIDE * 3, "{method}");
        assert!(last.image.iter().all(|value| (0.0..=1.0).contains(value)), "{method}");
        assert_eq!(search.step().unwrap(), last, "{method} is over");
    }
}

#[test]
fn one_masked_update_is_enough_for_the_aware_attacker() {
    let subject = subject(&["rocket.png"]);
    let truth = chw_to_hwc(&photograph("rocket.png", SIDE), SIDE, SIDE);
    let score = |method| ssim(&finish(begin(method, &subject, 300).as_mut()).1.image, &truth, SIDE);
    let (aware, naive) = (score(AttackMethod::MatchingAware), score(AttackMethod::Matching));
    assert!(aware >= 0.5 && naive < 0.3, "SSIM {aware} with the mask, {naive} without");
}

#[test]
fn pictures_of_a_batch_do_not_stay_alike() {
    let subject = subject(&["astronaut.png", "rocket.png"]);
    let (first, last) = finish(begin(AttackMethod::MatchingAware, &subject, 200).as_mut());
    assert!(last.objective < 0.5 * first.objective, "{} to {}", first.objective, last.objective);
    let (one, other) = last.image.split_at(SIDE * SIDE * 3);
    let alike = ssim(one, other, SIDE);
    assert!(alike < 0.5, "SSIM {alike} of one to the other");
}

#[test]
fn a_newer_update_goes_on_from_the_picture() {
    let subject = subject(&["rocket.png"]);
    let mut search = begin(AttackMethod::MatchingAware, &subject, 40);
    let (first, last) = finish(search.as_mut());
    let unlike = self::subject(&["rocket.png", "cat.png"]);
    assert!(search.retarget(&unlike.target()).is_err());
    assert_eq!(search.step().unwrap(), last, "a refused update changes nothing");
    search.retarget(&subject.target()).unwrap();
    let next = search.step().unwrap();
    assert!(!next.is_over && next.iteration < last.iteration, "{next:?}");
    assert!(next.objective < 0.5 * (first.objective + last.objective), "{} after {}", next.objective, last.objective);
}

/// From the picture already found, no step goes down far enough.
#[test]
fn a_start_that_cannot_be_bettered_is_kept_and_said_so() {
    let mut subject = subject(&["rocket.png"]);
    let found = finish(begin(AttackMethod::MatchingAware, &subject, 400).as_mut()).1;
    assert_eq!(found.note, None);
    subject.start.clone_from(&found.image);
    let options = SearchOptions { iterations: Some(32), step: Some(0.5), ..SearchOptions::default() };
    let mut search = searches().begin(AttackMethod::MatchingAware, &subject.target(), options).unwrap();
    let last = finish(search.as_mut()).1;
    assert!(
        last.note.as_deref().is_some_and(|note| note.contains("better than the one the search started from")),
        "{last:?}"
    );
    assert!(last.image.iter().zip(&subject.start).all(|(a, b)| (a - b).abs() < 1e-6));
}

/// The closed form is exact for an unmasked update of one picture. Total variation alone would pull the search away
/// from it until the result is only similar.
#[test]
fn an_exact_start_is_not_made_worse() {
    let mut subject = subject(&["rocket.png"]);
    let network = Network::new(architecture(), OpenDevice::cpu().device()).unwrap();
    let picture = photograph("rocket.png", SIDE);
    subject.gradient = network.loss_and_gradient_blocking(&subject.state, &picture, &subject.labels).unwrap().gradient;
    subject.kept = None;
    let needs = Needs::of(AttackMethod::Embedding, architecture()).unwrap();
    let evidence = needs.read_flat(architecture(), &subject.state.weights, &subject.gradient, None).unwrap();
    subject.start = embedding_inversion(&evidence.gradients).unwrap().image;
    let psnr = |found: &[f32]| metrics::psnr(found, &chw_to_hwc(&picture, SIDE, SIDE), SIDE, SIDE).unwrap();
    let start = psnr(&subject.start);
    assert!(start > 60.0, "the closed form reaches {start} dB");
    for iterations in [16, 100] {
        for stop_after in [3, iterations] {
            let mut search = begin(AttackMethod::MatchingAware, &subject, iterations);
            let mut found = search.step().unwrap();
            while !found.is_over && found.iteration < stop_after {
                found = search.step().unwrap();
            }
            let found = search.finish().unwrap();
            let reached = psnr(&found.image);
            assert!(found.is_over && reached > start - 0.1, "{reached} dB after {found:?}, {start} dB at the start");
        }
    }
}

/// The true picture explains its update, masked or not and at any scale. A grey picture and another label do not.
#[test]
fn a_picture_is_checked_by_its_own_gradient() {
    let subject = subject(&["rocket.png"]);
    let truth = chw_to_hwc(&photograph("rocket.png", SIDE), SIDE, SIDE);
    let Owned { architecture, state, gradient, kept, .. } = subject;
    let mut whole = WholeUpdate { architecture, state, gradient, kept, is_training: true };
    let misfit = |whole: &WholeUpdate, label: usize, picture: &[f32]| {
        let own = searches().gradient(whole, &[label], picture).unwrap();
        Misfit::of(&own, whole, Knowledge::Aware).unwrap()
    };
    let own = misfit(&whole, LABELS[0], &truth);
    assert!(own.relative < 1e-4 && (own.scale - 1.0).abs() < 1e-4, "{own:?}");
    assert!(misfit(&whole, LABELS[0], &[0.5; 768]).relative > 10.0 * Misfit::EXPLAINED);
    assert!(misfit(&whole, LABELS[1], &truth).relative > 0.5);
    whole.gradient.iter_mut().for_each(|value| *value *= 0.125);
    let clipped = misfit(&whole, LABELS[0], &truth);
    assert!(clipped.relative < 1e-4 && (clipped.scale - 0.125).abs() < 1e-4, "{clipped:?}");
    let refused = searches().gradient(&whole, &[3, 5], &truth).unwrap_err().to_string();
    assert!(refused.contains("2 pictures"), "{refused}");
}

#[test]
fn what_cannot_be_searched_is_refused_in_words() {
    let good = subject(&["rocket.png"]);
    let refused = |method: AttackMethod, subject: &Owned, options: SearchOptions| match searches().begin(
        method,
        &subject.target(),
        options,
    ) {
        Ok(_) => panic!("{method} began"),
        Err(reason) => reason.to_string(),
    };
    let says = |method: AttackMethod, change: &dyn Fn(&mut Owned), words: &str| {
        let mut subject = good.clone();
        change(&mut subject);
        let reason = refused(method, &subject, SearchOptions::default());
        assert!(reason.contains(words), "{method}: {reason}");
    };
    for method in AttackMethod::ALL.into_iter().filter(|method| !method.is_search()) {
        says(method, &|_| {}, "the searches are matching, matching-aware");
    }
    for method in SEARCHES {
        says(method, &|subject| subject.gradient.fill(0.0), "all zero");
        says(method, &|subject| subject.gradient[7] = f32::NAN, "NaN");
        says(method, &|subject| subject.state.weights.truncate(9), "weights have 9 values");
        says(method, &|subject| subject.labels = vec![10], "10");
        says(method, &|subject| subject.labels.clear(), "the batch is empty");
        says(method, &|subject| subject.start.truncate(767), "the start has 767 values");
        says(method, &|subject| subject.start[0] = f32::INFINITY, "the start holds inf");
        says(method, &|subject| subject.gradient.truncate(100), "100");
    }
    says(AttackMethod::MatchingAware, &|subject| subject.kept = Some(vec![true]), "the mask has 1 entries");
    says(AttackMethod::Jigsaw, &|subject| subject.architecture = Architecture::from(VitPreset::Nano), "weights");
    let position = Network::new(architecture(), OpenDevice::cpu().device()).unwrap();
    let position = position.layout().get("pos_embed").unwrap().range.clone();
    says(AttackMethod::MatchingAware, &|subject| subject.gradient[position.clone()].fill(0.0), "fixed-position");

    let four = subject(&["rocket.png", "cat.png", "coffee.png", "astronaut.png"]);
    let reason = refused(AttackMethod::MatchingAware, &four, SearchOptions::default());
    assert!(reason.contains("mean gradient of 4 pictures"), "{reason}");
    for step in [0.0, -0.1, f64::NAN, 3.0] {
        let options = SearchOptions { step: Some(step), ..SearchOptions::default() };
        assert!(refused(AttackMethod::Matching, &good, options).contains("first step size"));
    }
    let options = SearchOptions { iterations: Some(0), ..SearchOptions::default() };
    assert!(refused(AttackMethod::Matching, &good, options).contains("0 iterations"));
}
