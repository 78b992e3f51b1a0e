//! Names of classes, sample photographs and people.

use unmask_core::{InitialWeights, TrainOn};
use unmask_data::{CLASSES, PHOTOGRAPH_CLASSES, photograph_label};
use unmask_wire::view::{DataView, RoomView};

use unmask_words::say;

/// A photograph that the relay serves under `/samples/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// As in `?image=`.
    pub name: &'static str,
    /// Its file in `www/samples`.
    pub file: &'static str,
}

impl Sample {
    pub fn title(self) -> &'static str {
        match self.name {
            "astronaut" => say::sample::astronaut(),
            "cat" => say::sample::cat(),
            "coffee" => say::sample::coffee(),
            "rocket" => say::sample::rocket(),
            "cameraman" => say::sample::cameraman(),
            "hubble" => say::sample::hubble(),
            other => other,
        }
    }
}

pub const SAMPLES: [Sample; 6] = [
    Sample { name: "astronaut", file: "astronaut.png" },
    Sample { name: "cat", file: "cat.png" },
    Sample { name: "coffee", file: "coffee.png" },
    Sample { name: "rocket", file: "rocket.png" },
    Sample { name: "cameraman", file: "cameraman.jpg" },
    Sample { name: "hubble", file: "hubble.jpg" },
];

pub fn sample(name: &str) -> Option<Sample> {
    SAMPLES.into_iter().find(|sample| sample.name == name)
}

/// A sample from which attacks recover enough to see. Dark ones leak too, but little of that is visible. `draw` is in
/// [0, 1).
pub fn proposed_sample(draw: f64) -> Sample {
    const BRIGHT: [&str; 4] = ["astronaut", "cat", "coffee", "cameraman"];
    sample(pick(&BRIGHT, draw)).unwrap_or(SAMPLES[0])
}

/// The classes that a private picture can be labelled with: the room's own, or else words for any photograph.
pub fn photograph_classes(named: &[String]) -> Vec<String> {
    if named.is_empty() { PHOTOGRAPH_CLASSES.map(str::to_owned).to_vec() } else { named.to_vec() }
}

/// The label that the page proposes for a picture with this name; an empty name is nobody's.
pub fn proposed_label(classes: &[String], name: &str) -> u8 {
    u8::try_from(photograph_label(classes, name)).unwrap_or_default()
}

/// The classes that the current rounds teach. Weights that were trained before know their own.
pub fn classes_in_force(room: &RoomView) -> Vec<String> {
    let data = room.data.as_ref();
    let photographs = data.map_or(&[][..], DataView::photograph_classes);
    match data {
        Some(data) if data.train_on == TrainOn::Shared && !data.classes.is_empty() => data.classes.clone(),
        _ if photographs.is_empty() && room.initial_weights == InitialWeights::Pretrained => {
            CLASSES.map(str::to_owned).to_vec()
        }
        _ => photograph_classes(photographs),
    }
}

/// The name of a class, or its number if it has no name.
pub fn class_name(classes: &[String], place: usize) -> String {
    classes.get(place).map_or_else(|| say::class::nameless(place), |class| shown_class(class))
}

/// The displayed name of a class. CIFAR-10's classes and the words for photographs are translated; others keep the data
/// set's name.
pub fn shown_class(class: &str) -> String {
    let shown = match class {
        "airplane" => say::class::airplane(),
        "automobile" => say::class::automobile(),
        "bird" => say::class::bird(),
        "cat" => say::class::cat(),
        "deer" => say::class::deer(),
        "dog" => say::class::dog(),
        "frog" => say::class::frog(),
        "horse" => say::class::horse(),
        "ship" => say::class::ship(),
        "truck" => say::class::truck(),
        "person" => say::class::person(),
        "animal" => say::class::animal(),
        "plant" => say::class::plant(),
        "food" => say::class::food(),
        "vehicle" => say::class::vehicle(),
        "building" => say::class::building(),
        "thing" => say::class::thing(),
        "landscape" => say::class::landscape(),
        "sky" => say::class::sky(),
        "not said" => say::class::not_said(),
        other => other,
    };
    shown.to_owned()
}

/// The label for a class name or for a label given as a number.
pub fn class_label(classes: &[String], class: &str) -> Option<u8> {
    let place = classes
        .iter()
        .position(|name| name.eq_ignore_ascii_case(class))
        .or_else(|| class.parse().ok().filter(|place| *place < classes.len()))?;
    u8::try_from(place).ok()
}

/// The maximum length of a typed nickname, in characters.
pub const NICKNAME_LENGTH: usize = 24;

/// A nickname from two numbers in [0, 1), such as `Math.random()` returns.
pub fn nickname(first: f64, second: f64) -> String {
    let of = |words: &'static str, draw| pick(&words.split(", ").collect::<Vec<_>>(), draw);
    say::nickname::both(of(say::nickname::adjectives(), first), of(say::nickname::animals(), second))
}

fn pick<'a>(words: &[&'a str], draw: f64) -> &'a str {
    let place = (draw * words.len() as f64) as usize;
    words[place.min(words.len() - 1)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use unmask_words::Language;

    use super::*;

    #[test]
    fn labels_are_found_by_name_and_number() {
        let classes = photograph_classes(&[]);
        let label = |class| class_label(&classes, class);
        assert_eq!(label("animal"), Some(1));
        assert_eq!(label("Sky"), Some(8));
        assert_eq!(label("9"), Some(9));
        assert_eq!(label("10"), None);
        assert_eq!(label("coffee"), None);
        assert_eq!((class_name(&classes, 3).as_str(), class_name(&classes, 12).as_str()), ("food", "class 12"));
    }

    #[test]
    fn a_photograph_is_never_called_by_the_name_of_a_drawing() {
        let data = |source: &str, train_on: TrainOn| DataView {
            source: source.to_owned(),
            classes: vec!["ring".to_owned(), "cross".to_owned()],
            train_on,
            ..DataView::default()
        };
        let first = |classes: Vec<String>| classes[0].clone();
        for (source, train_on, photograph, now) in [
            ("generated", TrainOn::Private, "person", "person"),
            ("generated", TrainOn::Shared, "person", "ring"),
            ("folder:/data", TrainOn::Private, "ring", "ring"),
            ("folder:/data", TrainOn::Shared, "ring", "ring"),
        ] {
            let data = data(source, train_on);
            assert_eq!(first(photograph_classes(data.photograph_classes())), photograph, "{source} {train_on}");
            let room = RoomView { data: Some(data), ..RoomView::default() };
            assert_eq!(first(classes_in_force(&room)), now, "{source} {train_on}");
        }
        let pretrained = RoomView { initial_weights: InitialWeights::Pretrained, ..RoomView::default() };
        assert_eq!(first(classes_in_force(&pretrained)), "airplane");
        let unread = DataView { classes: Vec::new(), ..data("folder:/data", TrainOn::Private) };
        assert_eq!(first(photograph_classes(unread.photograph_classes())), "person");
    }

    #[test]
    fn every_sample_proposes_a_class_and_is_there() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
        for sample in SAMPLES {
            let label = usize::from(proposed_label(&photograph_classes(&[]), sample.name));
            assert!(label + 1 < PHOTOGRAPH_CLASSES.len(), "{sample:?} has no word of its own");
            assert!(folder.join(sample.file).is_file(), "{} is not in {}", sample.file, folder.display());
        }
    }

    #[test]
    fn the_sample_proposed_is_drawn_from_the_bright_ones() {
        let drawn: Vec<_> = [0.0, 0.25, 0.5, 0.75, 0.999].map(|draw| proposed_sample(draw).name).to_vec();
        assert_eq!(drawn, ["astronaut", "cat", "coffee", "cameraman", "cameraman"]);
    }

    #[test]
    fn every_draw_gives_a_name_that_fits() {
        for language in Language::ALL {
            language.speak();
            let names: BTreeSet<String> =
                (0..24 * 24).map(|draw| nickname(f64::from(draw / 24) / 24.0, f64::from(draw % 24) / 24.0)).collect();
            assert!(names.len() > 500, "{} names in {}", names.len(), language.own_name());
            assert!(names.iter().all(|name| name.chars().count() <= NICKNAME_LENGTH), "{names:?}");
        }
    }

    #[test]
    fn what_is_everybodys_is_called_in_the_pages_language() {
        Language::German.speak();
        assert_eq!((shown_class("dog").as_str(), shown_class("ring").as_str()), ("Hund", "ring"));
        assert_eq!(sample("rocket").map(Sample::title), Some("Rakete"));
        Language::English.speak();
        for class in CLASSES.into_iter().chain(PHOTOGRAPH_CLASSES) {
            assert_eq!(shown_class(class), class);
        }
        // A sample's title is its name in the address, except for one with a technical name.
        for sample in SAMPLES.into_iter().filter(|sample| sample.name != "hubble") {
            assert_eq!(sample.title(), sample.name);
        }
    }

    #[test]
    fn ends_of_the_range_are_the_ends_of_the_lists() {
        assert_eq!(nickname(0.0, 0.0), "amber badger");
        assert_eq!(nickname(0.999, 0.999), "witty wombat");
    }
}
