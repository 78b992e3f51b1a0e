//! Where the dots of a swarm lie: one for each answer, in piles.

use unmask_lesson::Answers;

use super::decimal;

/// The widest distance of two dots in a pile, in SVG units.
const APART: f32 = 20.0;
/// How many piles the width holds.
const PILES: u16 = 38;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwarmDot {
    /// From the left end of the axis.
    pub x: f32,
    /// Above the axis.
    pub y: f32,
    pub is_robots: bool,
}

/// Dots above an axis from the smallest answer to the largest, with the axis's marks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Swarm {
    pub dots: Vec<SwarmDot>,
    /// Position and text.
    pub marks: Vec<(f32, String)>,
}

impl Swarm {
    /// Lays out the answers, in percent, of people and robots in `width` x `height` SVG units.
    pub fn new(people: &[u16], robots: &[u16], answers: Answers, width: f32, height: f32) -> Self {
        let (least, span) = (answers.least(), answers.most().saturating_sub(answers.least()).max(1));
        let x = |answer: u16| f32::from(answer.saturating_sub(least)) / f32::from(span) * width;
        let pile = |answer: u16| answer.saturating_sub(least) * PILES / span;
        let marked = |is_robots: bool| move |&answer: &u16| (answer, is_robots);
        let all: Vec<(u16, bool)> = people.iter().map(marked(false)).chain(robots.iter().map(marked(true))).collect();
        let dot = |(place, &(answer, is_robots)): (usize, &(u16, bool))| {
            let is_same = |(other, _): &&(u16, bool)| pile(*other) == pile(answer);
            let (below, size) = (all[..place].iter().filter(is_same).count(), all.iter().filter(is_same).count());
            let apart = APART.min(height / size as f32);
            SwarmDot { x: x(answer), y: below as f32 * apart, is_robots }
        };
        let mark = |answer: u16| (x(answer), decimal(format!("{:.2}", f32::from(answer) / 100.0)));
        let middle = least + span / 2;
        Self {
            dots: all.iter().enumerate().map(dot).collect(),
            marks: [least, middle, answers.most()].map(mark).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_answers_pile_up_within_the_height() {
        let answers = Answers::Number { least: 0, most: 95, bin: 20 };
        let swarm = Swarm::new(&[0, 50, 50, 95], &[50], answers, 760.0, 100.0);
        assert_eq!(swarm.dots.iter().map(|dot| dot.x).collect::<Vec<_>>(), [0.0, 400.0, 400.0, 760.0, 400.0]);
        assert_eq!(swarm.dots.iter().map(|dot| dot.y).collect::<Vec<_>>(), [0.0, 0.0, 20.0, 0.0, 40.0]);
        assert!(swarm.dots[4].is_robots && !swarm.dots[3].is_robots);
        let full = Swarm::new(&[30; 40], &[], answers, 760.0, 100.0);
        assert!(full.dots.iter().all(|dot| dot.y < 100.0));
        assert_eq!(full.marks.last(), Some(&(760.0, "0.95".to_owned())));
    }
}
