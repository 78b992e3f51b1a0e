//! A contact sheet of a data set.

use crate::{Picture, PictureError};

use crate::datasets::Labelled;

const GAP: usize = 2;

/// Draws one row per class, in label order, with its first `columns` pictures on white, each enlarged `zoom` times. The
/// sheet is at most as wide as the largest class. Pixels stay square blocks, because that is what a model sees.
///
/// # Errors
/// [`PictureError`]: no classes, no columns, or a zoom of 0.
pub fn contact_sheet(set: &Labelled, columns: usize, zoom: usize) -> Result<Picture, PictureError> {
    let (rows, cell) = (set.classes().len(), set.side() * zoom);
    let columns = columns.min(largest_class(set).max(1));
    if rows * columns * zoom == 0 {
        return Err(PictureError::Empty { width: columns * cell, height: rows * cell });
    }
    let length = |count: usize| count * cell + (count + 1) * GAP;
    let (width, height) = (length(columns), length(rows));
    let mut rgb = vec![255; width * height * 3];
    let mut filled = vec![0; rows];
    for (index, &label) in set.labels().iter().enumerate() {
        let row = usize::from(label);
        let (Some(column), Some(picture)) = (filled.get_mut(row), set.rgb(index)) else { continue };
        if *column == columns {
            continue;
        }
        let corner = (length(row), length(*column));
        *column += 1;
        for y in 0..cell {
            for x in 0..cell {
                let from = ((y / zoom) * set.side() + x / zoom) * 3;
                let to = ((corner.0 + y) * width + corner.1 + x) * 3;
                rgb[to..to + 3].copy_from_slice(&picture[from..from + 3]);
            }
        }
    }
    Picture::new(width, height, rgb)
}

fn largest_class(set: &Labelled) -> usize {
    let mut counts = [0; u8::MAX as usize + 1];
    set.labels().iter().for_each(|&label| counts[usize::from(label)] += 1);
    counts.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_rows_and_pixels_stay_squares() {
        let classes = vec!["dark".to_owned(), "light".to_owned()];
        let set = Labelled::new(1, classes, vec![200, 201, 202, 10, 11, 12, 210, 211, 212], vec![1, 0, 1]).unwrap();
        let sheet = contact_sheet(&set, 2, 3).unwrap();
        assert_eq!((sheet.width(), sheet.height()), (12, 12));
        let at = |x: usize, y: usize| sheet.rgb()[(y * 12 + x) * 3];
        assert_eq!([at(2, 2), at(4, 4), at(7, 2), at(2, 7), at(9, 9), at(0, 0)], [10, 10, 255, 200, 210, 255]);
        assert_eq!(contact_sheet(&set, 50, 3).unwrap(), sheet, "no columns that every class leaves empty");
        assert!(contact_sheet(&set, 0, 3).is_err() && contact_sheet(&set, 2, 0).is_err());
    }
}
