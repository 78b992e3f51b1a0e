//! What the control of the shared pictures' division holds.

use unmask_core::Partition;

/// Values of alpha that the slider offers, from one class or two for each client to almost alike for all.
const ALPHAS: [f64; 10] = [0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0];

/// How shared pictures are divided, and the alpha of Dirichlet also while all get alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Division {
    /// Whether the classes are skewed.
    pub is_skewed: bool,
    /// Dirichlet's alpha: the smaller, the fewer classes a client has.
    pub alpha: f64,
}

impl Default for Division {
    fn default() -> Self {
        Self { is_skewed: false, alpha: 0.3 }
    }
}

impl Division {
    /// The partition chosen.
    pub fn partition(self) -> Partition {
        if self.is_skewed { Partition::Dirichlet { alpha: self.alpha } } else { Partition::Iid }
    }

    /// Takes over what the room has; one without an alpha keeps it.
    pub fn follow(&mut self, partition: Partition) {
        match partition {
            Partition::Dirichlet { alpha } => *self = Self { is_skewed: true, alpha },
            Partition::Iid => self.is_skewed = false,
        }
    }

    /// Last place of the slider.
    pub const LAST_PLACE: usize = ALPHAS.len() - 1;

    /// Where the slider stands: at the value nearest in proportion.
    pub fn place(self) -> usize {
        let distance = |alpha: f64| (alpha / self.alpha).ln().abs();
        let nearest = |best: usize, place: usize| {
            if distance(ALPHAS[place]) < distance(ALPHAS[best]) { place } else { best }
        };
        (0..ALPHAS.len()).fold(0, nearest)
    }

    /// Skewed as the slider at `place` says; a place beyond it is its end.
    pub fn at(place: usize) -> Self {
        Self { is_skewed: true, alpha: ALPHAS[place.min(Self::LAST_PLACE)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_outlives_a_visit_to_iid() {
        let mut division = Division::default();
        for partition in [Partition::Dirichlet { alpha: 0.07 }, Partition::Iid] {
            division.follow(partition);
            assert_eq!(division.partition(), partition);
        }
        assert_eq!(division, Division { is_skewed: false, alpha: 0.07 });
    }

    #[test]
    fn the_slider_stands_at_the_nearest_alpha() {
        for place in 0..=Division::LAST_PLACE {
            assert_eq!(Division::at(place).place(), place);
        }
        assert_eq!(Division { is_skewed: true, alpha: 0.07 }.place(), 0);
        assert_eq!(Division { is_skewed: true, alpha: 1e9 }.place(), Division::LAST_PLACE);
        assert_eq!(Division::at(99).alpha, 100.0);
    }
}
