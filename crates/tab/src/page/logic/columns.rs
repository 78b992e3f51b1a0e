//! The columns of the trade-off: what stands in each, and which is nearest to the room's own R.

use unmask_core::{Defence, TradeOffColumn, TradeOffColumns};
use unmask_lesson::uniform_rate;
use unmask_words::say;

use super::decimal;

/// A column as it is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Share of zeros R.
    pub rate: String,
    pub picture: Option<String>,
    /// The height of the bar in percent, with its label.
    pub right: Option<(f64, String)>,
    /// Whether no other column is nearer to the room's R.
    pub is_nearest: bool,
}

/// The columns in a room with this defence. Without a single R, no column is nearest.
pub fn columns(measured: &TradeOffColumns, room: Defence) -> Vec<Column> {
    let nearest = nearest(&measured.columns, room);
    let column = |(place, column): (usize, &TradeOffColumn)| Column {
        rate: decimal(uniform_rate(column.defence).unwrap_or_default().to_string()),
        picture: column.picture.clone().map(String::from),
        right: column.accuracy.map(|accuracy| (accuracy.clamp(0.0, 1.0) * 100.0, percent(accuracy))),
        is_nearest: nearest == Some(place),
    };
    measured.columns.iter().enumerate().map(column).collect()
}

/// The rounds that all columns have run.
pub fn rounds(measured: &TradeOffColumns) -> u32 {
    measured.columns.iter().map(|column| column.rounds).min().unwrap_or_default()
}

/// A share in whole percent.
pub fn percent(share: f64) -> String {
    say::unit::percent(format_args!("{:.0}", share * 100.0))
}

fn nearest(columns: &[TradeOffColumn], room: Defence) -> Option<usize> {
    let rate = |defence| uniform_rate(defence).map(|rate| rate.get());
    let room = rate(room)?;
    let distances =
        columns.iter().enumerate().filter_map(|(place, column)| Some((place, (rate(column.defence)? - room).abs())));
    distances.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use unmask_core::PictureAddress;

    use super::*;

    fn measured() -> TradeOffColumns {
        let column = |(defence, accuracy): (&str, Option<f64>)| TradeOffColumn {
            defence: defence.parse().expect("a defence"),
            rounds: if accuracy.is_some() { 20 } else { 10 },
            accuracy,
            ssim: None,
            picture: accuracy.map(|_| PictureAddress::embedded("")),
        };
        let columns = [("none", Some(0.768)), ("random-binary:0.5", Some(0.606)), ("random-binary:0.8", None)];
        TradeOffColumns {
            model: "vit_nano_patch4_32".to_owned(),
            robots: 4,
            test_pictures: 500,
            chance: 0.1,
            is_recorded: false,
            columns: columns.into_iter().map(column).collect(),
        }
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        let columns = columns(&measured(), Defence::None);
        let drawn: Vec<_> =
            columns.iter().map(|it| (it.rate.as_str(), it.right.clone(), it.picture.is_some())).collect();
        let right = |percent: f64, text: &str| Some((percent, text.to_owned()));
        assert_eq!(drawn, [("0", right(76.8, "77 %"), true), ("0.5", right(60.6, "61 %"), true), ("0.8", None, false)]);
        assert_eq!(rounds(&measured()), 10, "of the column furthest behind");
    }

    #[test]
    fn the_column_nearest_to_the_room_is_marked() {
        let marked = |defence: &str| {
            let columns = columns(&measured(), defence.parse().expect("a defence"));
            columns.iter().position(|column| column.is_nearest)
        };
        assert_eq!(["none", "random-binary:0.2"].map(marked), [Some(0); 2]);
        assert_eq!(["random-binary:0.3", "random-binary:0.6"].map(marked), [Some(1); 2]);
        assert_eq!(["random-binary:0.95", "fixed-position"].map(marked), [Some(2), None]);
    }
}
