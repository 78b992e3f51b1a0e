//! What the control of the shared pictures' division holds.

use std::{fmt, str::FromStr};

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

/// A string that names no division.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "“{0}” is no way to divide pictures; it is iid, or dirichlet:ALPHA with an alpha above 0, such as dirichlet:0.3"
)]
pub struct DivisionError(String);

impl FromStr for Division {
    type Err = DivisionError;

    fn from_str(form: &str) -> Result<Self, DivisionError> {
        if form == "iid" {
            return Ok(Self::default());
        }
        let alpha = form.strip_prefix("dirichlet:").and_then(|alpha| alpha.parse().ok());
        let alpha = alpha.filter(|alpha: &f64| alpha.is_finite() && *alpha > 0.0);
        alpha.map(|alpha| Self { is_skewed: true, alpha }).ok_or_else(|| DivisionError(form.to_owned()))
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_skewed { write!(f, "dirichlet:{}", self.alpha) } else { f.write_str("iid") }
    }
}

impl Division {
    /// Takes over what the room has; a form that cannot be read changes nothing, and one without an alpha keeps it.
    pub fn follow(&mut self, form: &str) {
        match form.parse::<Self>() {
            Ok(division) if division.is_skewed => *self = division,
            Ok(_) => self.is_skewed = false,
            Err(_) => {}
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
    fn forms_come_back_and_others_are_named() {
        for form in ["iid", "dirichlet:0.3", "dirichlet:100"] {
            assert_eq!(form.parse::<Division>().expect("a form").to_string(), form);
        }
        for bad in ["", "dirichlet", "dirichlet:0", "dirichlet:-1", "dirichlet:inf", "even"] {
            assert!(bad.parse::<Division>().expect_err("no form").to_string().contains(bad), "{bad}");
        }
    }

    #[test]
    fn alpha_outlives_a_visit_to_iid() {
        let mut division = Division::default();
        for form in ["dirichlet:0.07", "iid", "nonsense"] {
            division.follow(form);
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
