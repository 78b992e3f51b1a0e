//! The private picture as training code may have fed it to the model: cropped or squashed, mirrored, grey, turned.

use unmask_data::Picture;

/// What a centre crop keeps after the usual resize to 256 for 224.
const CENTRE: f64 = 0.875;

/// A picture, `[height, width, 3]` in [0, 1], and how it was made from the file, as a part of a sentence.
pub type Fed = (String, Vec<f32>);

/// Turns a picture of this width.
type Turn = fn(&[f32], usize) -> Vec<f32>;
type Colour = fn(&[f32]) -> Vec<f32>;

/// All usual ways to make an input of `width` x `height` pixels, other than the centred crop of the picture itself.
/// `as_stored`: the picture without its EXIF orientation, if it has one.
pub fn other_ways(picture: &Picture, as_stored: Option<&Picture>, width: usize, height: usize) -> Vec<Fed> {
    let mut shapes = vec![
        ("cropped to the centre", picture.fitted(width, height)),
        ("squashed instead of cropped", picture.squashed(width, height)),
        ("cropped to the inner 87.5 %", picture.centre(CENTRE).fitted(width, height)),
    ];
    if let Some(stored) = as_stored {
        shapes.push(("without its EXIF orientation", stored.fitted(width, height)));
        shapes.push(("without its EXIF orientation and squashed", stored.squashed(width, height)));
    }
    let turns: [(&str, Turn); 2] = [("", |picture, _| picture.to_vec()), ("mirrored", mirrored)];
    let colours: [(&str, Colour); 3] =
        [("", <[f32]>::to_vec), ("in grey", grey), ("with red and blue exchanged (BGR)", exchanged)];
    let mut all = Vec::new();
    for (place, (shape, made)) in shapes.iter().enumerate() {
        for (turn, turned) in turns {
            for (colour, coloured) in colours {
                if place == 0 && turn.is_empty() && colour.is_empty() {
                    continue;
                }
                let shape = if place == 0 { "" } else { shape };
                let how: Vec<&str> = [shape, turn, colour].into_iter().filter(|word| !word.is_empty()).collect();
                all.push((how.join(", "), coloured(&turned(made, width))));
            }
        }
    }
    all
}

fn mirrored(picture: &[f32], width: usize) -> Vec<f32> {
    let rows = picture.chunks(width * 3);
    rows.flat_map(|row| row.as_chunks::<3>().0.iter().rev().flatten().copied().collect::<Vec<_>>()).collect()
}

/// The luma of ITU-R 601, which PIL's conversion to grey takes.
fn grey(picture: &[f32]) -> Vec<f32> {
    let luma = |&[red, green, blue]: &[f32; 3]| [0.299 * red + 0.587 * green + 0.114 * blue; 3];
    picture.as_chunks().0.iter().flat_map(luma).collect()
}

fn exchanged(picture: &[f32]) -> Vec<f32> {
    picture.as_chunks::<3>().0.iter().flat_map(|&[red, green, blue]| [blue, green, red]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_another_picture_with_a_name() {
        let rgb = (0..12 * 8 * 3).map(|i| (i * 7 % 251) as u8).collect();
        let picture = Picture::new(12, 8, rgb).unwrap();
        let stored = Picture::new(8, 12, picture.rgb().to_vec()).unwrap();
        let ways = other_ways(&picture, Some(&stored), 4, 4);
        assert_eq!(ways.len(), 29);
        let mut names: Vec<&String> = ways.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 29);
        assert!(names.contains(&&"squashed instead of cropped, mirrored, in grey".to_owned()), "{names:?}");
        assert!(ways.iter().all(|(_, made)| made.len() == 48 && *made != picture.fitted(4, 4)));
        let of = |name: &str| ways.iter().find(|(way, _)| way == name).unwrap().1.clone();
        assert_eq!(mirrored(&of("mirrored"), 4), picture.fitted(4, 4));
        assert_eq!(exchanged(&of("with red and blue exchanged (BGR)")), picture.fitted(4, 4));
    }
}
