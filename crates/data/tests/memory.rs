//! Memory use of a large photograph: its pixels once, with a byte for each colour.

use image::{GenericImageView, Rgb, codecs::jpeg::JpegEncoder};
use peak_alloc::PeakAlloc;
use unmask_data::decode;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const WIDTH: u32 = 8000;
const HEIGHT: u32 = 6000;

/// A photograph of 48 megapixels that takes no memory.
struct Photograph;

impl GenericImageView for Photograph {
    type Pixel = Rgb<u8>;

    fn dimensions(&self) -> (u32, u32) {
        (WIDTH, HEIGHT)
    }

    fn get_pixel(&self, x: u32, y: u32) -> Rgb<u8> {
        Rgb([(x >> 5) as u8, (y >> 5) as u8, ((x ^ y) >> 4) as u8])
    }
}

/// Phones take such photographs. They were copied and turned into floating-point numbers, in 720 MB.
#[test]
fn a_photograph_of_48_megapixels_is_in_memory_once() {
    let mut file = Vec::new();
    JpegEncoder::new_with_quality(&mut file, 80).encode_image(&Photograph).unwrap();
    let pixels = WIDTH as usize * HEIGHT as usize * 3;
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let picture = decode(&file).unwrap();
    let seen = picture.for_model(224);
    let fitted = picture.fitted(64, 64);
    let peak = MEMORY.peak_usage() - before;
    assert!((seen[0] - 0.1).abs() < 0.1 && fitted.len() == 64 * 64 * 3);
    assert!(peak < pixels + pixels / 4, "{} MB for {} MB of pixels", peak / 1_000_000, pixels / 1_000_000);
}
