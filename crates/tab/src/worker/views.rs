//! Converts values into what the page shows.

use unmask_client::{GroupComparison, Shard};
use unmask_data::{Picture, PictureError};

use crate::protocol::{GroupView, PICTURE_SIDE, Rgba, ShardView};

/// Columns and maximum rows of the contact sheet.
const COLUMNS: usize = 12;
const ROWS: usize = 4;
/// The side of a picture on the contact sheet.
const THUMBNAIL: usize = 32;

/// Converts the page's picture, dropping alpha.
///
/// # Errors
/// If it does not have the page's size.
pub fn from_page(picture: &Rgba) -> Result<Picture, PictureError> {
    let side = PICTURE_SIDE as usize;
    let rgb = picture.bytes.as_chunks::<4>().0.iter().flat_map(|&[r, g, b, _]| [r, g, b]).collect();
    Picture::new(side, side, rgb)
}

/// Converts `[side, side, 3]` with values in `[0, 1]`.
pub fn rgba(side: usize, hwc: &[f32]) -> Option<Rgba> {
    let byte = |value: f32| (value.clamp(0.0, 1.0) * 255.0).round() as u8;
    let bytes = hwc.as_chunks::<3>().0.iter().flat_map(|&[r, g, b]| [byte(r), byte(g), byte(b), 255]).collect();
    Rgba::new(side as u32, side as u32, bytes)
}

pub fn group(group: GroupComparison) -> GroupView {
    let (width, height) = (group.width as u32, group.height as u32);
    GroupView {
        title: group.group.title().to_owned(),
        values: group.values,
        zeros: group.zeros,
        norm_before: group.norm_before,
        norm_after: group.norm_after,
        noise: group.noise,
        ciphertext: group.ciphertext,
        before: Rgba::new(width, height, group.before),
        after: Rgba::new(width, height, group.after),
    }
}

/// Summarises a shard in a few numbers and small pictures.
pub fn shard(shard: &Shard) -> ShardView {
    let mut counts = vec![0; shard.classes().len()];
    for &label in shard.labels() {
        if let Some(count) = counts.get_mut(usize::from(label)) {
            *count += 1;
        }
    }
    ShardView {
        data: shard.data().to_owned(),
        partition: shard.partition(),
        classes: shard.classes().to_vec(),
        counts,
        contact_sheet: contact_sheet(shard),
    }
}

fn contact_sheet(shard: &Shard) -> Option<Rgba> {
    let shown = shown(shard.labels(), COLUMNS * ROWS);
    let (columns, rows) = (shown.len().min(COLUMNS), shown.len().div_ceil(COLUMNS));
    let (width, height) = (columns * THUMBNAIL, rows * THUMBNAIL);
    // Areas without a picture stay transparent.
    let mut bytes = vec![0; 4 * width * height];
    for (place, position) in shown.into_iter().enumerate() {
        let Some(picture) = thumbnail(shard, position) else { continue };
        let (left, top) = (place % COLUMNS * THUMBNAIL, place / COLUMNS * THUMBNAIL);
        for (y, row) in picture.rgb().chunks_exact(3 * THUMBNAIL).enumerate() {
            let start = 4 * ((top + y) * width + left);
            let pixels = bytes[start..start + 4 * THUMBNAIL].as_chunks_mut::<4>().0;
            for (pixel, &[r, g, b]) in pixels.iter_mut().zip(row.as_chunks::<3>().0) {
                *pixel = [r, g, b, 255];
            }
        }
    }
    Rgba::new(width as u32, height as u32, bytes)
}

/// At most `most` positions, ordered by class, evenly spaced so that each class gets its share.
fn shown(labels: &[u8], most: usize) -> Vec<usize> {
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

    use super::shown;

    #[wasm_bindgen_test]
    fn a_sheet_shows_each_class_as_often_as_there_are_pictures_of_it() {
        let labels: Vec<u8> = (0..400).map(|i| if i % 4 == 0 { 1 } else { 0 }).collect();
        let positions = shown(&labels, 48);
        assert_eq!(positions.len(), 48);
        assert_eq!(positions.iter().filter(|&&position| labels[position] == 1).count(), 12);
        assert_eq!(shown(&[2, 0, 1], 48), [1, 2, 0]);
        assert!(shown(&[], 48).is_empty());
    }
}
