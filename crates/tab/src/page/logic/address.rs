//! The part of the page's address that stores the place in the lesson.

use unmask_lesson::{Place, Scene};

use super::input::from_fragment;

/// The state of the page that the fragment of its address stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Address {
    /// The place in the lesson.
    pub place: Option<Place>,
    /// Whether the expert view is shown.
    pub is_expert: bool,
    /// Whether the page is only for viewing, even if its browser is the teacher's.
    pub is_audience: bool,
}

impl Address {
    /// Reads `#scene=4&beat=1&expert`. Unknown scenes and beats are ignored.
    pub fn read(fragment: &str) -> Self {
        let number = |name| from_fragment(fragment, name).and_then(|value| value.parse::<u8>().ok());
        let place = number("scene").and_then(Scene::from_number).map(|scene| {
            let beat = number("beat").filter(|beat| usize::from(*beat) < scene.beats().len()).unwrap_or(0);
            Place { scene, beat }
        });
        let has = |flag| fragment.trim_start_matches('#').split('&').any(|part| part == flag);
        Self { place, is_expert: has("expert"), is_audience: has("audience") }
    }

    /// Returns the fragment with its `#`; empty if there is nothing to store.
    pub fn fragment(self) -> String {
        let scene = self.place.map(|place| format!("scene={}", place.scene.number()));
        let beat = self.place.filter(|place| place.beat > 0).map(|place| format!("beat={}", place.beat));
        let expert = self.is_expert.then(|| "expert".to_owned());
        let audience = self.is_audience.then(|| "audience".to_owned());
        let parts: Vec<String> = [scene, beat, expert, audience].into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!("#{}", parts.join("&")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stores_the_place_in_the_lesson() {
        for place in Place::all().map(Some).chain([None]) {
            for (is_expert, is_audience) in [(false, false), (true, false), (false, true), (true, true)] {
                let address = Address { place, is_expert, is_audience };
                assert_eq!(Address::read(&address.fragment()), address, "{}", address.fragment());
            }
        }
        assert_eq!(Address::default().fragment(), "");
        assert_eq!(Address::read("#scene=4").place, Some(Place::start(Scene::Mask)));
        for bad in ["", "#", "#scene=14", "#scene=-1", "#scene=four", "#scenes=4", "#expertly"] {
            assert_eq!(Address::read(bad), Address::default(), "{bad}");
        }
        assert_eq!(Address::read("#beat=200&scene=4").place, Some(Place::start(Scene::Mask)));
    }
}
