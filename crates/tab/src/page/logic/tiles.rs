//! The patches of a square picture, and where each one is in images drawn by the style sheet.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tiles {
    pub per_side: usize,
}

impl Tiles {
    pub fn count(self) -> usize {
        self.per_side * self.per_side
    }

    pub fn middle(self) -> usize {
        self.per_side / 2 * self.per_side + self.per_side / 2
    }

    /// The style that shows only the row of one patch in a table with a row for each.
    pub fn row(self, at: usize, source: &str) -> String {
        let (count, y) = (self.count().max(1), percent(at, self.count()));
        format!("background-image: url(\"{source}\"); background-size: 100% {count}00%; background-position: 0 {y}%")
    }

    /// The style that shows only one patch of a picture.
    pub fn crop(self, at: usize, source: &str) -> String {
        let side = self.per_side.max(1);
        let (x, y) = (percent(at % side, side), percent(at / side, side));
        format!("background-image: url(\"{source}\"); background-size: {side}00%; background-position: {x}% {y}%")
    }
}

/// The part `at` of `parts`: 0 % shows the first and 100 % the last one.
fn percent(at: usize, parts: usize) -> f32 {
    at as f32 * 100.0 / parts.saturating_sub(1).max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_patch_is_found_in_its_picture() {
        let tiles = Tiles { per_side: 5 };
        assert_eq!((tiles.count(), tiles.middle()), (25, 12));
        let crop = |at| tiles.crop(at, "/a.png");
        assert!(crop(0).ends_with("background-size: 500%; background-position: 0% 0%"), "{}", crop(0));
        assert!(crop(12).ends_with("position: 50% 50%") && crop(24).ends_with("position: 100% 100%"));
        assert!(crop(23).ends_with("position: 75% 100%") && crop(23).starts_with("background-image: url(\"/a.png\")"));
        let row = |at| tiles.row(at, "/a.png");
        assert!(row(0).ends_with("background-size: 100% 2500%; background-position: 0 0%"), "{}", row(0));
        assert!(row(24).ends_with("position: 0 100%") && row(6).ends_with("position: 0 25%"));
        assert_eq!(
            Tiles { per_side: 1 }.crop(0, "a"),
            "background-image: url(\"a\"); background-size: 100%; background-position: 0% 0%"
        );
    }
}
