//! Summarises the turns of both sides in a table.

use std::fmt::{self, Write};

use super::counted;

#[derive(Debug, Default)]
pub struct Turns {
    pub ours: Vec<f64>,
    pub pytorch: Vec<f64>,
}

/// A case, with its turns for each number of threads.
#[derive(Debug)]
pub struct Row {
    title: String,
    pub turns: Vec<Turns>,
}

impl Row {
    pub fn new(title: String) -> Self {
        Self { title, turns: Vec::new() }
    }
}

/// The median, minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// Returns `None` for an empty slice.
    fn of(values: &[f64]) -> Option<Self> {
        let median = median(values)?;
        let end = |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of).unwrap_or(median);
        Some(Self { median, least: end(f64::min), most: end(f64::max) })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, least, most } = self;
        write!(f, "{} ({} to {})", digits(*median), digits(*least), digits(*most))
    }
}

/// Returns `None` for an empty slice.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().saturating_sub(1) / 2)?, sorted.get(sorted.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

/// Rounds to three digits, or to all integer digits of large numbers: measured times are not more precise.
fn digits(value: f64) -> String {
    let places = match value {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}

impl Turns {
    fn cells(&self) -> [Option<Spread>; 3] {
        // Turn by turn: a slow spell of the machine slows both sides and keeps the ratio.
        let ratios: Vec<f64> = self.ours.iter().zip(&self.pytorch).map(|(ours, pytorch)| ours / pytorch).collect();
        [Spread::of(&self.ours), Spread::of(&self.pytorch), Spread::of(&ratios)]
    }
}

/// The last turn of each side, for progress output.
impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(&ours), Some(&pytorch)) = (self.ours.last(), self.pytorch.last()) else {
            return f.write_str("not measured");
        };
        write!(f, "{} ms here, {} ms in PyTorch, ratio {}", digits(ours), digits(pytorch), digits(ours / pytorch))
    }
}

/// A table with one group of columns for each number of threads.
pub fn markdown(threads: &[u32], rows: &[Row]) -> String {
    let mut text = String::from("|");
    for &threads in threads {
        // Writing into a string never fails.
        let _ = write!(text, " | {}, here | PyTorch | ratio", counted(threads));
    }
    text.push_str(" |\n|---");
    text.push_str(&"|---".repeat(3 * threads.len()));
    text.push_str("|\n");
    for Row { title, turns } in rows {
        let _ = write!(text, "| {title}");
        for spread in turns.iter().flat_map(Turns::cells) {
            let _ = match spread {
                Some(spread) => write!(text, " | {spread}"),
                None => write!(text, " | "),
            };
        }
        text.push_str(" |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!([4.125, 9.994, 53.25, 437.4, 4533.2].map(digits), ["4.12", "9.99", "53.2", "437", "4533"]);
    }

    /// A slow spell of the machine doubles the times of its turns and keeps the ratio.
    #[test]
    fn the_ratio_is_that_of_turns_beside_each_other() {
        let turns = Turns { ours: vec![1.0, 2.0, 1.0], pytorch: vec![2.0, 4.0, 2.0] };
        let [ours, _, ratio] = turns.cells();
        assert_eq!(ours, Some(Spread { median: 1.0, least: 1.0, most: 2.0 }));
        assert_eq!(ratio, Some(Spread { median: 0.5, least: 0.5, most: 0.5 }));
    }

    #[test]
    fn the_table_is_markdown() {
        let turns = |scale: f64| Turns { ours: vec![scale, 1.5 * scale], pytorch: vec![2.0 * scale, 2.0 * scale] };
        let row = Row { turns: vec![turns(8.0), turns(4.0)], ..Row::new("vit, batch 1".to_owned()) };
        let expected = "\
| | 1 thread, here | PyTorch | ratio | 2 threads, here | PyTorch | ratio |
|---|---|---|---|---|---|---|
| vit, batch 1 | 10.0 (8.00 to 12.0) | 16.0 (16.0 to 16.0) | 0.62 (0.50 to 0.75) | 5.00 (4.00 to 6.00) | 8.00 (8.00 to 8.00) | 0.62 (0.50 to 0.75) |
";
        assert_eq!(markdown(&[1, 2], &[row]), expected);
    }
}
