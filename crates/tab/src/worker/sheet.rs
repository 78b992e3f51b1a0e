//! A shard in a few numbers and small pictures.

use unmask_client::Shard;
use unmask_data::Picture;

use crate::protocol::ShardView;

/// Pictures abreast on the contact sheet, and at most so many rows.
const COLUMNS: usize = 12;
const ROWS: usize = 4;
/// Side of a picture on it.
const THUMBNAIL: usize = 32;

/// What the page shows of a shard.
pub fn view(shard: &Shard) -> ShardView {
    let mut counts = vec![0; shard.classes().len()];
    for &label in shard.labels() {
        if let Some(count) = counts.get_mut(usize::from(label)) {
            *count += 1;
        }
    }
    let chosen = chosen(shard.labels(), COLUMNS * ROWS);
    let columns = chosen.len().min(COLUMNS);
    let rows = chosen.len().div_ceil(COLUMNS);
    let (width, height) = (columns * THUMBNAIL, rows * THUMBNAIL);
    // What no picture covers stays transparent.
    let mut sheet = vec![0; 4 * width * height];
    for (place, position) in chosen.into_iter().enumerate() {
        let Some(picture) = thumbnail(shard, position) else { continue };
        let (left, top) = (place % COLUMNS * THUMBNAIL, place / COLUMNS * THUMBNAIL);
        for (y, row) in picture.rgb().chunks_exact(3 * THUMBNAIL).enumerate() {
            let start = 4 * ((top + y) * width + left);
            let pixels = sheet[start..start + 4 * THUMBNAIL].as_chunks_mut::<4>().0;
            for (pixel, &[r, g, b]) in pixels.iter_mut().zip(row.as_chunks::<3>().0) {
                *pixel = [r, g, b, 255];
            }
        }
    }
    ShardView {
        data: shard.data().to_owned(),
        partition: shard.partition(),
        classes: shard.classes().to_vec(),
        counts,
        width: width as u32,
        height: height as u32,
        sheet,
    }
}

/// At most `most` positions, ordered by class, taken evenly so that each class has its share.
fn chosen(labels: &[u8], most: usize) -> Vec<usize> {
    let mut by_class: Vec<usize> = (0..labels.len()).collect();
    by_class.sort_by_key(|&position| labels[position]);
    let shown = by_class.len().min(most);
    (0..shown).map(|place| by_class[place * by_class.len() / shown]).collect()
}

fn thumbnail(shard: &Shard, position: usize) -> Option<Picture> {
    let rgb = shard.rgb(position)?.to_vec();
    Some(Picture::new(shard.side(), shard.side(), rgb).ok()?.thumbnail(THUMBNAIL))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    #[wasm_bindgen_test]
    fn a_sheet_shows_each_class_as_often_as_there_are_pictures_of_it() {
        let labels: Vec<u8> = (0..400).map(|i| if i % 4 == 0 { 1 } else { 0 }).collect();
        let chosen = chosen(&labels, 48);
        assert_eq!(chosen.len(), 48);
        assert_eq!(chosen.iter().filter(|&&position| labels[position] == 1).count(), 12);
        assert_eq!(super::chosen(&[2, 0, 1], 48), [1, 2, 0]);
        assert!(super::chosen(&[], 48).is_empty());
    }
}
