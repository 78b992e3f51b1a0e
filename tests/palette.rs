//! The pages' colours have enough contrast to be read, and differ for colour-blind people too.

use std::{collections::HashMap, path::Path};

use crate::support::Scheme;

/// Red, green and blue of linear light, 0 to 1.
type Light = [f64; 3];

/// Contrast that text needs, and lines and areas (WCAG 2.2, 1.4.3 and 1.4.11).
const TEXT: f64 = 4.5;
const SHAPE: f64 = 3.0;

/// CIE76 distance at which two areas are easily distinguished.
const APART: f64 = 20.0;

/// Colour vision without red cones and without green cones: Viénot, Brettel and Mollon 1999, on linear light.
const PROTANOPIA: [Light; 3] = [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]];
const DEUTERANOPIA: [Light; 3] = [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]];

/// The variables of `www/base.css` in light or dark.
fn palette(scheme: Scheme) -> HashMap<String, Light> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/base.css");
    let css = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (light, rest) = css.split_once("@media (prefers-color-scheme: dark)").expect("a dark scheme");
    let dark = rest.split("\n}").next().expect("its end");
    let mut colours: HashMap<String, Light> = variables(light).collect();
    if scheme == Scheme::Dark {
        colours.extend(variables(dark));
    }
    colours
}

fn variables(css: &str) -> impl Iterator<Item = (String, Light)> + '_ {
    css.lines().filter_map(|line| {
        let (name, value) = line.trim().strip_prefix("--")?.split_once(": #")?;
        Some((name.to_owned(), light(value.trim_end_matches(';'))))
    })
}

fn light(hex: &str) -> Light {
    assert_eq!(hex.len(), 6, "#{hex} is not a colour with six digits");
    [0, 2, 4].map(|at| {
        let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits")) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

fn luminance([red, green, blue]: Light) -> f64 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(a: Light, b: Light) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn seen_with(matrix: &[Light; 3], colour: Light) -> Light {
    matrix.map(|row| row.iter().zip(colour).map(|(weight, value)| weight * value).sum::<f64>().clamp(0.0, 1.0))
}

/// CIE L*a*b* for the white point D65.
fn lab([red, green, blue]: Light) -> [f64; 3] {
    let f = |t: f64| if t > 216.0 / 24389.0 { t.cbrt() } else { (24389.0 / 27.0 * t + 16.0) / 116.0 };
    let x = f((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505);
    let y = f(luminance([red, green, blue]));
    let z = f((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089);
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn distance(a: Light, b: Light) -> f64 {
    lab(a).into_iter().zip(lab(b)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn text_and_shapes_stand_out() {
    let on =
        |ground: &'static str, names: &[&'static str]| names.iter().map(|name| (*name, ground)).collect::<Vec<_>>();
    let text = [
        on("ground", &["ink", "quiet", "accent", "leak", "safe"]),
        on("card", &["ink", "quiet", "accent", "leak", "safe"]),
        on("accent-soft", &["ink", "accent"]),
        on("leak-soft", &["ink", "leak"]),
        on("photo", &["ink", "quiet"]),
        on("accent", &["on-accent"]),
        on("right", &["on-strong"]),
        on("wrong", &["on-strong"]),
    ];
    let shapes = [
        on("card", &["accent", "leak", "right", "wrong", "quiet", "bar"]),
        on("photo", &["accent", "leak", "quiet", "bar"]),
    ];
    for scheme in Scheme::ALL {
        let palette = palette(scheme);
        for (pairs, least) in [(text.concat(), TEXT), (shapes.concat(), SHAPE)] {
            for (name, ground) in pairs {
                let contrast = contrast(palette[name], palette[ground]);
                assert!(contrast >= least, "{scheme:?}: {name} on {ground} has {contrast:.2}, {least} are needed");
            }
        }
    }
}

/// Colours with opposite meanings differ for everybody. The pages also distinguish them by sign or word.
#[test]
fn opposites_differ_for_colour_blind_people() {
    for scheme in Scheme::ALL {
        let palette = palette(scheme);
        for (a, b) in [("leak", "safe"), ("right", "wrong"), ("accent", "leak"), ("accent", "quiet")] {
            for (eyes, matrix) in [("no red cones", &PROTANOPIA), ("no green cones", &DEUTERANOPIA)] {
                let distance = distance(seen_with(matrix, palette[a]), seen_with(matrix, palette[b]));
                assert!(distance >= APART, "{scheme:?}, {eyes}: {a} and {b} are {distance:.0} apart");
            }
        }
    }
}

/// White is far from black and grey has no colour: the formulas are right.
#[test]
fn known_colours_have_known_values() {
    let (white, black, grey) = (light("ffffff"), light("000000"), light("777777"));
    assert!((contrast(white, black) - 21.0).abs() < 1e-9);
    assert!((contrast(white, grey) - 4.48).abs() < 0.01);
    let [lightness, a, b] = lab(light("ff0000"));
    assert!((lightness - 53.2).abs() < 0.2 && (a - 80.1).abs() < 0.3 && (b - 67.2).abs() < 0.3, "{lightness} {a} {b}");
    for matrix in [&PROTANOPIA, &DEUTERANOPIA] {
        assert!(distance(seen_with(matrix, grey), grey) < 0.1);
    }
}
