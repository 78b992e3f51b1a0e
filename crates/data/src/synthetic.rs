//! Pictures of nobody: coloured shapes on a shaded ground.

/// Shapes on each picture.
const SHAPES: usize = 6;

/// A picture `[side, side, 3]` in [0, 1]. The same number gives the same picture.
pub fn synthetic_picture(side: usize, number: u64) -> Vec<f32> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    // SplitMix64: a few bits of each step are enough.
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1u32 << 24) as f32
    };
    let mut colour = || [next(), next(), next()];
    let (from, to) = (colour(), colour());
    let shapes: Vec<([f32; 3], [f32; 3], [f32; 3])> = (0..SHAPES).map(|_| (colour(), colour(), colour())).collect();
    let mut picture = Vec::with_capacity(side * side * 3);
    for row in 0..side {
        for column in 0..side {
            let [y, x] = [row, column].map(|at| (at as f32 + 0.5) / side as f32);
            let ground = |channel: usize| from[channel] + (to[channel] - from[channel]) * (x + y) / 2.0;
            let mut pixel = [ground(0), ground(1), ground(2)];
            for (place, size, colour) in &shapes {
                let (dx, dy) = (x - place[0], y - place[1]);
                let reach = 0.08 + 0.2 * size[0];
                let is_inside = match size[2] < 0.5 {
                    true => dx * dx + dy * dy < reach * reach,
                    false => dx.abs() < reach && dy.abs() < reach * (0.3 + size[1]),
                };
                if is_inside {
                    pixel = *colour;
                }
            }
            // A fine texture, so that no patch is flat.
            let grain = 0.04 * ((row * 7 + column * 13 + number as usize % 11) as f32).sin();
            // Whole grey levels, as in a photograph of 8 bits.
            picture.extend(pixel.map(|value| ((value * 0.9 + 0.05 + grain).clamp(0.0, 1.0) * 255.0).round() / 255.0));
        }
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_gives_its_own_picture() {
        let picture = synthetic_picture(16, 3);
        assert_eq!(picture.len(), 768);
        assert!(picture.iter().all(|value| (0.0..=1.0).contains(value)));
        assert_eq!(picture, synthetic_picture(16, 3));
        assert_ne!(picture, synthetic_picture(16, 4));
    }
}
