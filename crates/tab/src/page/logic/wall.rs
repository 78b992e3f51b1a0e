//! How large the pictures of a wall are that has a picture for each of many clients.

/// The wall's width and height, and the height of a name with its gap, in units of the slide.
const WIDTH: usize = 1200;
const HEIGHT: usize = 540;
const NAME: usize = 40;
const GAP: usize = 12;
/// A few pictures need not fill the wall.
const LARGEST: usize = 380;

/// Columns, and the side of each picture in units of the slide, so that `count` pictures are as large as possible.
pub fn layout(count: usize) -> (usize, usize) {
    let side = |columns: usize| {
        let rows = count.max(1).div_ceil(columns);
        let wide = (WIDTH + GAP) / columns - GAP;
        wide.min((HEIGHT / rows).saturating_sub(NAME)).min(LARGEST)
    };
    let columns = (1..=count.max(1)).max_by_key(|columns| (side(*columns), *columns)).unwrap_or(1);
    (columns, side(columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pictures_fit_and_are_large() {
        for count in 1..=30 {
            let (columns, side) = layout(count);
            let rows = count.div_ceil(columns);
            assert!(columns * (side + GAP) <= WIDTH + GAP && rows * (side + NAME) <= HEIGHT, "{count}");
            assert!(side >= 100, "{count} pictures of {side}");
        }
        assert_eq!((layout(0), layout(1)), ((1, 380), (1, 380)));
        assert_eq!(layout(4).0, 4);
    }
}
