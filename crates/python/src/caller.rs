//! Runs the model through a function of the caller.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use unmask_attack::{AttackError, Search, SearchOptions, SearchTarget, Searches, WholeUpdate};
use unmask_core::{AttackMethod, VitConfig};
use unmask_inversion::{DumpedModel, read_gradient};

use crate::arrays::{array, integers, tensor_file};

/// The caller's own function that computes gradients.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) gradient_of: Option<Py<PyAny>>,
    pub(crate) model: DumpedModel,
    /// The first exception that it raised.
    pub(crate) raised: Mutex<Option<PyErr>>,
}

impl Caller {
    /// Keeps an exception, to raise it unchanged after the attack.
    pub(crate) fn keep(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub(crate) fn raised(self) -> Option<PyErr> {
        self.raised.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, function: &Py<PyAny>, labels: &[usize], pictures: &[f32]) -> PyResult<Vec<f64>> {
        let side = self.model.architecture.side();
        let len = VitConfig::CHANNELS * side * side;
        let fed: Vec<f32> = self.model.pixels.fed(pictures);
        let fed: Vec<f32> = fed.chunks(len).flat_map(|picture| unmask_data::hwc_to_chw(picture, side, side)).collect();
        Python::attach(|py| {
            let inputs = array(py, &fed, &[fed.len() / len, VitConfig::CHANNELS, side, side])?;
            let gradient = function.bind(py).call1((inputs, integers(py, labels)?))?;
            let file = tensor_file("the dict that gradient_of returned", &gradient)?;
            py.detach(|| read_gradient(&self.model, &file)).map_err(crate::value_error)
        })
    }
}

impl Searches for Caller {
    fn begin(
        &self,
        method: AttackMethod,
        _: &SearchTarget<'_>,
        _: SearchOptions,
    ) -> Result<Box<dyn Search>, AttackError> {
        let reason = format!(
            "{method} runs the model thousands of times, and this package has none; save gradients and weights with \
             torch.save, and run `unmask invert --attack {method} --gradients FILE --weights FILE --out DIR`"
        );
        Err(AttackError::Search { reason })
    }

    fn gradient(&self, whole: &WholeUpdate, labels: &[usize], pictures: &[f32]) -> Result<Vec<f64>, AttackError> {
        let Some(function) = &self.gradient_of else {
            let reason =
                format!("no {} is at hand to run; give gradient_of, a function that runs yours", whole.architecture);
            return Err(AttackError::Search { reason });
        };
        self.call(function, labels, pictures).map_err(|error| {
            let reason = format!("gradient_of failed: {error}");
            self.keep(error);
            AttackError::Search { reason }
        })
    }
}
