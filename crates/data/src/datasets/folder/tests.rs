use crate::encode_png;
use image::{DynamicImage, ImageFormat};

use super::*;

struct Made(tempfile::TempDir);

impl Made {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, path: &str, bytes: &[u8]) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    /// Adds `count` grey pictures of side `side`. The first has brightness 1, and each following one is brighter by 1.
    fn class(&self, name: &str, count: u8, side: usize) -> &Self {
        for index in 0..count {
            let picture = Picture::new(side, side, vec![index + 1; side * side * 3]).unwrap();
            self.file(&format!("{name}/{index:03}.png"), &encode_png(&picture).unwrap());
        }
        self
    }

    fn read(&self, seed: u64) -> ClassFolder {
        ClassFolder::read(self.0.path(), seed).unwrap()
    }

    fn refusal(&self) -> String {
        let message = ClassFolder::read(self.0.path(), 1).unwrap_err().to_string();
        message.replace(&self.0.path().display().to_string(), "PLACE")
    }
}

fn brightness(half: &Labelled, label: u8) -> Vec<u8> {
    (0..half.len()).filter(|&index| half.labels()[index] == label).map(|index| half.rgb(index).unwrap()[0]).collect()
}

#[test]
fn a_fifth_of_each_class_is_held_out() {
    let made = Made::new();
    made.class("dog", 20, 32).class("cat", 10, 32).class(".hidden", 1, 32).file("notes.txt", b"hello");
    let read = made.read(1);
    assert_eq!(read.train.classes(), ["cat", "dog"]);
    for (label, count, held_out) in [(0, 10, 2), (1, 20, 4)] {
        let (mut train, test) = (brightness(&read.train, label), brightness(&read.test, label));
        assert_eq!((train.len(), test.len()), (count - held_out, held_out));
        train.extend(test);
        train.sort_unstable();
        assert_eq!(train, (1..=count as u8).collect::<Vec<_>>(), "every picture is in one half");
    }
    assert_eq!(made.read(1).test, read.test);
    let others = (2..6).filter(|&seed| made.read(seed).test != read.test).count();
    assert!(others >= 3, "the seed decides which");
    let made = Made::new();
    made.class("a", 2, 32).class("b", 3, 32);
    let read = made.read(1);
    assert_eq!((read.train.labels(), read.test.labels()), (&[0, 1, 1][..], &[0, 1][..]));
}

#[test]
fn sizes_meet_in_the_middle() {
    let side = |sides: &[usize]| {
        let made = Made::new();
        for (index, &side) in sides.iter().enumerate() {
            made.class(&format!("{index}"), 2, side);
        }
        made.read(1).train.side()
    };
    assert_eq!(side(&[32, 32]), 32);
    assert_eq!(side(&[48, 64, 96]), 64);
    assert_eq!(side(&[5, 8]), 32, "the smallest model's side");
    assert_eq!(side(&[300, 400]), 224, "the largest model's side");
}

fn encode(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// Two thirds red above one third blue, as a camera held sideways stores it: EXIF orientation 6, rotate right.
fn lying() -> Vec<u8> {
    let mut stored = image::RgbImage::from_pixel(96, 48, image::Rgb([220, 30, 30]));
    (0..48).for_each(|y| (64..96).for_each(|x| stored.put_pixel(x, y, image::Rgb([30, 30, 220]))));
    let mut bytes = encode(&DynamicImage::ImageRgb8(stored), ImageFormat::Jpeg);
    let tiff = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let segment = [&[0xff, 0xe1, 0, tiff.len() as u8 + 2], &tiff[..]].concat();
    bytes.splice(2..2, segment);
    bytes
}

/// One file of each unusual kind; a pixel near the middle shows whether it was decoded correctly.
#[test]
fn pictures_of_every_kind_are_read() {
    let grey = image::GrayImage::from_pixel(40, 40, image::Luma([77]));
    let deep = image::ImageBuffer::from_pixel(40, 40, image::Rgb([0_u16, 0x8080, 0xffff]));
    let deep_grey = image::ImageBuffer::from_pixel(40, 40, image::Luma([0x4040_u16]));
    let clear = image::RgbaImage::from_pixel(40, 40, image::Rgba([200, 0, 0, 0]));
    let half_clear = image::GrayAlphaImage::from_pixel(40, 40, image::LumaA([0, 128]));
    let wide = image::RgbImage::from_fn(200, 33, |x, _| image::Rgb([if (84..116).contains(&x) { 90 } else { 0 }; 3]));
    let single = image::RgbImage::from_pixel(1, 1, image::Rgb([11, 22, 33]));
    let kinds = [
        ("grey", encode(&DynamicImage::ImageLuma8(grey.clone()), ImageFormat::Png), [77; 3]),
        ("grey_jpeg", encode(&DynamicImage::ImageLuma8(grey), ImageFormat::Jpeg), [77; 3]),
        ("deep", encode(&DynamicImage::ImageRgb16(deep), ImageFormat::Png), [0, 128, 255]),
        ("deep_grey", encode(&DynamicImage::ImageLuma16(deep_grey), ImageFormat::Png), [64; 3]),
        ("clear", encode(&DynamicImage::ImageRgba8(clear.clone()), ImageFormat::Png), [255; 3]),
        ("clear_webp", encode(&DynamicImage::ImageRgba8(clear), ImageFormat::WebP), [255; 3]),
        ("half_clear", encode(&DynamicImage::ImageLumaA8(half_clear), ImageFormat::Png), [127; 3]),
        ("wide", encode(&DynamicImage::ImageRgb8(wide), ImageFormat::Png), [90; 3]),
        ("single", encode(&DynamicImage::ImageRgb8(single), ImageFormat::Png), [11, 22, 33]),
        ("inks", include_bytes!("../../../testdata/cmyk.jpg").to_vec(), [255, 0, 0]),
        ("lying", lying(), [220, 30, 30]),
    ];
    let made = Made::new();
    for (name, bytes, _) in &kinds {
        made.file(&format!("{name}/a.jpg"), bytes).file(&format!("{name}/b.JPEG"), bytes);
    }
    let read = made.read(1);
    assert!(read.left_out.is_empty(), "{:?}", read.left_out);
    let side = read.train.side();
    for (name, _, expected) in kinds {
        let label = read.train.classes().iter().position(|class| class == name).unwrap();
        let index = read.train.labels().iter().position(|&found| usize::from(found) == label).unwrap();
        // Left of the middle, because the two ink areas meet there.
        let at = (side / 2 * side + side / 4) * 3;
        let found = &read.train.rgb(index).unwrap()[at..at + 3];
        assert!(
            found.iter().zip(expected).all(|(&found, expected)| found.abs_diff(expected) <= 4),
            "{name}: {found:?}"
        );
        if name == "lying" {
            let bottom = &read.train.rgb(index).unwrap()[(side - 2) * side * 3..][..3];
            assert!(bottom[2] > 180 && bottom[0] < 80, "the blue third is at the bottom: {bottom:?}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_left_out_by_name() {
    let made = Made::new();
    made.class("a", 3, 32)
        .class("b", 2, 32)
        .file("a/cut.png", &encode_png(&Picture::new(1, 1, vec![0; 3]).unwrap()).unwrap()[..30]);
    made.file("b/page.jpg", b"<html>");
    let read = made.read(1);
    assert_eq!(read.train.len() + read.test.len(), 5);
    let names: Vec<_> = read.left_out.iter().map(|(path, why)| (path.file_name().unwrap(), why.to_string())).collect();
    assert_eq!((names[0].0, names[1].0), ("cut.png".as_ref(), "page.jpg".as_ref()));
    assert_eq!(names[1].1, "this is not a PNG, JPEG or WebP picture");
}

#[test]
fn what_is_no_data_set_is_refused_with_the_remedy() {
    let made = Made::new();
    let few = |found| {
        format!(
            "PLACE has {found} subfolders; a data set has at least 2, one for each class, such as PLACE/cat and \
             PLACE/dog"
        )
    };
    assert_eq!(made.refusal(), few(0));
    assert_eq!(made.class("cat", 3, 32).refusal(), few(1));
    fs::create_dir(made.0.path().join("dog")).unwrap();
    assert_eq!(made.refusal(), "class \"dog\": no pictures in PLACE/dog: put PNG, JPEG or WebP files there");
    made.file("dog/a.png", b"no picture");
    let message = made.refusal();
    assert!(message.starts_with("class \"dog\": no pictures in PLACE/dog (PLACE/dog/a.png: this is not"), "{message}");
    made.class("dog", 1, 32);
    assert_eq!(
        made.refusal(),
        "class \"dog\" has 1 picture; at least 2 are needed, one to learn from and one to test with: add pictures to \
         PLACE/dog"
    );
    let message = ClassFolder::read(Path::new("/nowhere/at/all"), 1).unwrap_err().to_string();
    assert!(message.starts_with("the folder /nowhere/at/all cannot be read: "), "{message}");
    let made = Made::new();
    (0..257).for_each(|class| fs::create_dir(made.0.path().join(format!("{class}"))).unwrap());
    assert_eq!(made.refusal(), "PLACE has 257 subfolders; at most 256 classes are supported");
}
