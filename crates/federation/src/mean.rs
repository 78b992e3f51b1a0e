/// sum_n k_n x_n / sum_n k_n of vectors x_n with weights k_n, in f64.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedMean {
    sums: Vec<f64>,
    weight: f64,
}

impl WeightedMean {
    /// The mean of vectors with `len` values; none added so far.
    pub fn new(len: usize) -> Self {
        Self { sums: vec![0.0; len], weight: 0.0 }
    }

    pub fn add(&mut self, values: &[f32], weight: u32) {
        let weight = f64::from(weight);
        for (sum, value) in self.sums.iter_mut().zip(values) {
            *sum += weight * f64::from(*value);
        }
        self.weight += weight;
    }

    /// The mean; NaN if nothing was added.
    pub fn mean(&self) -> Vec<f32> {
        self.sums.iter().map(|sum| (sum / self.weight) as f32).collect()
    }
}
