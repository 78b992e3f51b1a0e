//! The report that invert returns.

use std::path::Path;

use pyo3::{prelude::*, types::PyDict};

use crate::value_error;

/// What one attack found in one update, and how far that can be trusted.
#[pyclass(module = "unmask", frozen)]
pub(crate) struct Report {
    inner: unmask_inversion::Report,
    pictures: Py<PyAny>,
    remarks: Vec<String>,
}

impl Report {
    /// `pictures` is an array; `notes` say how the model was determined.
    pub(crate) fn new(inner: unmask_inversion::Report, pictures: Bound<'_, PyAny>, notes: Vec<String>) -> Self {
        let remarks = notes.into_iter().chain(inner.notes.iter().cloned()).collect();
        Self { inner, pictures: pictures.unbind(), remarks }
    }
}

#[pymethods]
impl Report {
    /// The pictures found, float32 [n, side, side, 3] in [0, 1]; a closed form finds one. label and membership find
    /// none.
    #[getter]
    fn pictures(&self, py: Python<'_>) -> Py<PyAny> {
        self.pictures.clone_ref(py)
    }

    /// "recognisable", "not-recognisable-by-this-attack" or "cannot-tell"; None if the attack makes no picture.
    ///
    /// It only describes this attack on this update, and never says that something is safe.
    #[getter]
    fn verdict(&self) -> Option<&'static str> {
        self.inner.verdict.as_ref().map(|verdict| verdict.name())
    }

    /// Why there is no verdict.
    #[getter]
    fn because(&self) -> Option<&str> {
        self.inner.verdict.as_ref().and_then(|verdict| verdict.because())
    }

    /// The share of the update that the pictures' own gradient does not explain: 0 is a perfect match, 1 no match.
    /// Needs gradient_of.
    #[getter]
    fn misfit(&self) -> Option<f64> {
        self.inner.misfit
    }

    /// Remarks on the result, in sentences.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }

    /// Number of pictures in the update, from the rank of its last block, such as "2" or "at least 90"; None if the
    /// rank does not show it.
    #[getter]
    fn pictures_by_rank(&self) -> Option<&str> {
        self.inner.pictures_by_rank.as_deref()
    }

    /// The pictures' labels, read from the head's gradient; None if it does not show them.
    #[getter]
    fn labels(&self) -> Option<Vec<usize>> {
        self.inner.labels_read.clone()
    }

    /// The whole report, as in the report.json of `unmask invert`.
    #[getter]
    fn details<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let json = serde_json::to_string(&self.inner).map_err(value_error)?;
        Ok(py.import("json")?.call_method1("loads", (json,))?.cast_into::<PyDict>()?)
    }

    /// The text that the command line prints.
    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        let shape: Vec<usize> = self.pictures.getattr(py, "shape")?.extract(py)?;
        let pictures = format!("pictures {shape:?}");
        Ok(self.inner.summary(Path::new(&pictures)).join("\n"))
    }

    fn __repr__(&self) -> String {
        let verdict = self.inner.verdict.as_ref().map_or_else(String::new, |verdict| format!(", {verdict}"));
        format!("<unmask.Report of {} on {}{verdict}>", self.inner.attack, self.inner.model)
    }
}
