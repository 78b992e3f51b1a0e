//! The ten shapes, each defined by the points it covers.

pub(super) const NAMES: [&str; 10] =
    ["disc", "ring", "target", "frame", "grid", "triangle", "cross", "stripes", "checker", "dots"];

/// Whether the shape of this label covers the point `(x, y)`, with y upwards. Shapes reach about 1 from the origin.
pub(super) fn covers(label: usize, x: f32, y: f32) -> bool {
    let squared = x * x + y * y;
    let (nearer, farther) = (x.abs().min(y.abs()), x.abs().max(y.abs()));
    match label {
        0 => squared < 0.85 * 0.85,
        1 => squared < 0.95 * 0.95 && squared > 0.65 * 0.65,
        2 => squared < 0.35 * 0.35 || (squared < 0.95 * 0.95 && squared > 0.65 * 0.65),
        3 => farther < 0.85 && farther > 0.58,
        4 => farther < 0.9 && (nearer < 0.13 || farther > 0.64),
        5 => y > -0.6 && inside_edges(x, y),
        6 => farther < 0.95 && nearer < 0.24,
        7 => farther < 0.85 && even(x, 0.34),
        8 => farther < 0.9 && even(x + 0.225, 0.45) != even(y + 0.225, 0.45),
        _ => dots(x, y),
    }
}

/// Whether a point is between the slanted edges of an equilateral triangle with a corner at (0, 1.1).
fn inside_edges(x: f32, y: f32) -> bool {
    // The slope is the tangent of 60 degrees.
    y < 1.1 - 1.732_050_8 * x.abs()
}

/// Whether `x` is on one of the stripes of this width; one stripe is centred at 0.
fn even(x: f32, width: f32) -> bool {
    ((x / width + 0.5).floor() as i32).rem_euclid(2) == 0
}

/// Nine dots in three rows.
fn dots(x: f32, y: f32) -> bool {
    let from_nearest = |position: f32| position - (position / 0.62).clamp(-1.0, 1.0).round() * 0.62;
    let (x, y) = (from_nearest(x), from_nearest(y));
    x * x + y * y < 0.22 * 0.22
}
