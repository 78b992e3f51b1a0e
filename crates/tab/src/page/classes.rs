//! The ten class names that a private picture can be labelled with, and the sample photographs.

/// The classes of CIFAR-10 in its order; a label is a place in this list.
pub const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// A photograph that the relay serves under `/samples/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Name, as in `?image=`.
    pub name: &'static str,
    /// File in `www/samples`.
    pub file: &'static str,
    /// Place in [`CLASSES`] that the page proposes: the class itself or the nearest one. What leaks does not depend on it.
    pub label: u8,
}

/// The gallery, in the order shown.
pub const SAMPLES: [Sample; 6] = [
    Sample { name: "astronaut", file: "astronaut.png", label: 0 },
    Sample { name: "cat", file: "cat.png", label: 3 },
    Sample { name: "coffee", file: "coffee.png", label: 8 },
    Sample { name: "rocket", file: "rocket.png", label: 0 },
    Sample { name: "cameraman", file: "cameraman.jpg", label: 9 },
    Sample { name: "hubble", file: "hubble.jpg", label: 2 },
];

/// The sample of this name.
pub fn sample(name: &str) -> Option<Sample> {
    SAMPLES.into_iter().find(|sample| sample.name == name)
}

/// The name of a class; a place beyond [`CLASSES`] is called by its number.
pub fn name(place: usize) -> String {
    CLASSES.get(place).map_or_else(|| format!("class {place}"), |name| (*name).to_owned())
}

/// The label of a class name, or of a label written as a number.
pub fn label(class: &str) -> Option<u8> {
    let place = CLASSES
        .iter()
        .position(|name| name.eq_ignore_ascii_case(class))
        .or_else(|| class.parse().ok().filter(|place| *place < CLASSES.len()))?;
    u8::try_from(place).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_name_and_number() {
        assert_eq!(label("cat"), Some(3));
        assert_eq!(label("Truck"), Some(9));
        assert_eq!(label("9"), Some(9));
        assert_eq!(label("10"), None);
        assert_eq!(label("coffee"), None);
        assert_eq!((name(3).as_str(), name(12).as_str()), ("cat", "class 12"));
    }

    #[test]
    fn every_sample_proposes_a_class_and_is_there() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
        for sample in SAMPLES {
            assert!(usize::from(sample.label) < CLASSES.len(), "{sample:?}");
            assert!(folder.join(sample.file).is_file(), "{} is not in {}", sample.file, folder.display());
        }
    }
}
