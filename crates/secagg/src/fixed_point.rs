//! Values as whole numbers mod 2^32, scaled so that their sum cannot overflow.

/// Converts values of at most `bound` to integers and their sum back.
///
/// A sum of n clients differs from the sum of the values by at most n / (2 `scale`) in each place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FixedPoint {
    bound: f64,
    clients: usize,
    /// A power of two, so that scaling is exact.
    scale: f64,
    /// Number of low bits that stay free.
    free: u32,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FixedPointError {
    #[error("no sum is bounded by {bound} for each of {clients} clients; give a positive bound and one client or more")]
    Bound { bound: f64, clients: usize },
    #[error("value {at} is {value}, beyond the bound of {bound} on which the clients agreed")]
    Beyond { at: usize, value: f64, bound: f64 },
    #[error("the sum of {clients} clients is {value} in place {at}: somebody sent more than the bound of {bound}")]
    Implausible { at: usize, value: f64, bound: f64, clients: usize },
    #[error("{kept} of {clients} clients say that they kept value {at}: somebody counted more than once")]
    Count { at: usize, kept: u32, clients: usize },
}

impl FixedPoint {
    /// For values in [-`bound`, `bound`] of up to `clients` clients. An update of L2 norm at most C has values of at most
    /// C.
    ///
    /// # Errors
    /// [`FixedPointError::Bound`].
    pub fn new(bound: f64, clients: usize) -> Result<Self, FixedPointError> {
        Self::above(0, bound, clients)
    }

    /// The same, with `free` low bits of each integer left at zero for something else.
    ///
    /// # Errors
    /// [`FixedPointError::Bound`].
    pub(crate) fn above(free: u32, bound: f64, clients: usize) -> Result<Self, FixedPointError> {
        if !(bound.is_finite() && bound > f64::from(f32::MIN_POSITIVE) && clients > 0) {
            return Err(FixedPointError::Bound { bound, clients });
        }
        // n (bound scale + 1/2) <= 2^(31 - free) - 1, since each value is rounded.
        let largest = (f64::from(i32::MAX >> free) / clients as f64 - 0.5) / bound;
        // The power of two below it: without its fraction's bits.
        let scale = f64::from_bits(largest.to_bits() & !((1 << 52) - 1));
        let is_usable = scale.is_normal() && scale > 0.0;
        if is_usable {
            Ok(Self { bound, clients, scale, free })
        } else {
            Err(FixedPointError::Bound { bound, clients })
        }
    }

    /// Integer steps in 1.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The largest error of a sum of `clients` clients in one place.
    pub fn error(&self, clients: usize) -> f64 {
        clients as f64 / (2.0 * self.scale)
    }

    /// The values `[P]` as integers `[P]`.
    ///
    /// # Errors
    /// [`FixedPointError::Beyond`] for values beyond the bound and for NaN.
    pub fn encode(&self, values: &[f32]) -> Result<Vec<u32>, FixedPointError> {
        let mut encoded = Vec::with_capacity(values.len());
        for (at, &value) in values.iter().enumerate() {
            let value = f64::from(value);
            if value.is_nan() || value.abs() > self.bound {
                return Err(FixedPointError::Beyond { at, value, bound: self.bound });
            }
            encoded.push(((value * self.scale).round() as i32).cast_unsigned() << self.free);
        }
        Ok(encoded)
    }

    /// The sum `[P]` of `clients` clients' integers as values `[P]`.
    ///
    /// # Errors
    /// [`FixedPointError::Implausible`] if the bound does not allow the sum. A sum that wraps around mostly ends so, but
    /// it may also fall inside the bound.
    pub fn decode(&self, sum: &[u32], clients: usize) -> Result<Vec<f32>, FixedPointError> {
        self.decode_each(sum, |_| clients)
    }

    /// The same, where place `at` has the values of `clients(at)` clients.
    pub(crate) fn decode_each(
        &self,
        sum: &[u32],
        clients: impl Fn(usize) -> usize,
    ) -> Result<Vec<f32>, FixedPointError> {
        let mut values = Vec::with_capacity(sum.len());
        for (at, &sum) in sum.iter().enumerate() {
            let clients = clients(at);
            let most = clients.min(self.clients) as f64 * self.bound + self.error(clients);
            let value = f64::from(sum.cast_signed() >> self.free) / self.scale;
            if value.abs() > most {
                return Err(FixedPointError::Implausible { at, value, bound: self.bound, clients });
            }
            values.push(value as f32);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Within the stated error for any bound, any number of clients and values up to the bound itself.
        #[test]
        fn a_sum_is_within_the_stated_error(
            exponent in -30..60_i32,
            shares in prop::collection::vec(prop::collection::vec(-1.0..=1.0_f64, 3), 1..=50),
            at_bound in any::<bool>(),
        ) {
            let bound = f64::from(exponent).exp2() * 1.37;
            let fixed = FixedPoint::new(bound, shares.len()).unwrap();
            let mut sum = vec![0_u32; 3];
            let mut exact = [0.0; 3];
            for share in &shares {
                let share = if at_bound { vec![1.0, -1.0, 1.0] } else { share.clone() };
                // The largest f32 up to the bound.
                let values: Vec<f32> = share.iter().map(|share| (share * bound * (1.0 - 1e-7)) as f32).collect();
                for (place, value) in fixed.encode(&values).unwrap().into_iter().enumerate() {
                    sum[place] = sum[place].wrapping_add(value);
                    exact[place] += f64::from(values[place]);
                }
            }
            for (found, exact) in fixed.decode(&sum, shares.len()).unwrap().into_iter().zip(exact) {
                // The result is rounded to f32 once more.
                let allowed = fixed.error(shares.len()) + exact.abs() * f64::from(f32::EPSILON);
                prop_assert!((f64::from(found) - exact).abs() <= allowed, "{} {}", found, exact);
            }
            // The scale is the best that a power of two gives, but for a factor of 2.
            let worst = shares.len() as f64 * bound * fixed.scale();
            prop_assert!(worst <= f64::from(i32::MAX) && worst * 2.1 > f64::from(i32::MAX), "{}", worst);
        }
    }

    #[test]
    fn what_no_sum_can_hold_is_refused_in_words() {
        for (bound, clients) in [(0.0, 3), (-1.0, 3), (f64::NAN, 3), (f64::INFINITY, 3), (1.0, 0)] {
            let refused = FixedPoint::new(bound, clients).unwrap_err().to_string();
            assert!(refused.contains("give a positive bound"), "{refused}");
        }
        let fixed = FixedPoint::new(1.0, 3).unwrap();
        for value in [1.01, -7.0, f32::NAN, f32::INFINITY] {
            assert!(fixed.encode(&[0.0, value]).unwrap_err().to_string().starts_with("value 1 is"), "{value}");
        }
        let too_much = ((3.5 * fixed.scale()) as i32).cast_unsigned();
        let refused = fixed.decode(&[too_much], 3).unwrap_err().to_string();
        assert!(refused.contains("somebody sent more than the bound of 1"), "{refused}");
    }
}
