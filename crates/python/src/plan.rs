//! A planned federation with a model of the caller: what unmask.audit predicts and tries.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::{prelude::*, types::PyDict};
use unmask_audit::{Audit, Deployment, Tried, page};
use unmask_core::{Defence, MaskSeed, Rule, VitConfig};
use unmask_data::{Picture, encode_png, metrics, synthetic_picture};
use unmask_defence::{KeyMaterial, PlainUpdate, Protect};
use unmask_inversion::{Asked, DumpedModel, InferenceAttack, PixelSpace, Told};
use unmask_tensors::{Role, TensorFile};

use crate::{
    arrays::{array, bits, pictures, tensor_file},
    invert::Channels,
    mask::mask_seed,
    value_error,
};

/// Predictions for one plan, and what happened when its attacks were tried.
#[pyclass(module = "unmask._unmask", frozen)]
pub(crate) struct Plan {
    audit: Mutex<Audit>,
    deployment: Deployment,
    model: DumpedModel,
}

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(signature = (weights, *, rule, batch, cohort, defence, secagg, heads=None, side=None, mean=None, std=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn new(
        py: Python<'_>,
        weights: &Bound<'_, PyAny>,
        rule: &str,
        batch: usize,
        cohort: usize,
        defence: &str,
        secagg: bool,
        heads: Option<usize>,
        side: Option<usize>,
        mean: Option<Channels>,
        std: Option<Channels>,
    ) -> PyResult<Self> {
        let pixels = PixelSpace::new(&Channels::values(mean), &Channels::values(std)).map_err(value_error)?;
        let asked = Asked { heads, side, pixels, ..Asked::default() };
        let file = tensor_file("the module's state_dict()", weights)?.with_role(Role::Weights);
        let told = py.detach(|| DumpedModel::tell(&asked, std::slice::from_ref(&file)));
        let Told { model, notes } = told.map_err(value_error)?;
        let deployment = Deployment {
            model: model.architecture,
            april_block: false,
            rule: rule.parse::<Rule>().map_err(value_error)?,
            batch,
            cohort,
            defence: defence.parse::<Defence>().map_err(value_error)?,
            secure_sum: secagg,
        };
        if let Some(variant) = model.variant() {
            return Err(value_error(format!(
                "the module is {variant}, and a plan is tried only with a standard ViT; unmask.invert's embedding reads its \
                 updates"
            )));
        }
        let mut audit = Audit::of_deployment(deployment).map_err(value_error)?;
        audit.read_weights(&file).map_err(value_error)?;
        audit.notes = notes;
        Ok(Self { audit: Mutex::new(audit), deployment, model })
    }

    /// (epochs, rate) of the steps behind what this party receives, or None if it receives gradients.
    fn local(&self, viewer: &str) -> PyResult<Option<(u16, f32)>> {
        Ok(match self.deployment.trial_rule(parsed(viewer)?) {
            Rule::FedSgd => None,
            Rule::FedAvg { epochs, rate } => Some((epochs, rate)),
        })
    }

    #[getter]
    fn side(&self) -> usize {
        self.model.architecture.side()
    }

    #[getter]
    fn classes(&self) -> usize {
        self.model.architecture.classes()
    }

    #[getter]
    fn conclusion(&self) -> String {
        self.lock().conclusion.clone()
    }

    /// Pictures whose gradients are added in what this party receives; None if it receives no update.
    fn pictures(&self, viewer: &str) -> PyResult<Option<usize>> {
        Ok(self.deployment.sight(parsed(viewer)?).map(|sight| sight.pictures()))
    }

    /// Why nothing can be tried for this party: a clause.
    fn obstacle(&self, viewer: &str, updates: usize) -> PyResult<Option<String>> {
        let viewer = parsed(viewer)?;
        let encrypts = self.deployment.sight(viewer).is_some_and(|sight| sight.defence.is_encrypted());
        let program = "only the program unmask encrypts; give `unmask audit` the module's weights";
        Ok(self.deployment.obstacle(viewer, updates).or_else(|| encrypts.then(|| program.to_owned())))
    }

    /// The attacks of this party that are worth trying without a search.
    fn attacks(&self, viewer: &str) -> PyResult<Vec<&'static str>> {
        let viewer = parsed(viewer)?;
        let audit = self.lock();
        let view = audit.views.iter().find(|view| view.viewer == viewer);
        Ok(view
            .map(|view| view.worth_trying(false))
            .unwrap_or_default()
            .into_iter()
            .map(InferenceAttack::name)
            .collect())
    }

    /// A picture of nobody, float32 [side, side, 3] in [0, 1].
    fn synthetic<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Bound<'py, PyAny>> {
        let side = self.side();
        array(py, &synthetic_picture(side, number), &[side, side, VitConfig::CHANNELS])
    }

    fn note(&self, sentence: String) {
        self.lock().notes.push(sentence);
    }

    /// Says why this party's attacks were not tried: a clause.
    fn not_tried(&self, viewer: &str, why: String) -> PyResult<()> {
        let viewer = parsed(viewer)?;
        self.lock()
            .views
            .iter_mut()
            .filter(|view| view.viewer == viewer)
            .for_each(|view| view.not_tried = Some(why.clone()));
        Ok(())
    }

    /// Records an attack on several updates: a verdict for each, with the reason if it cannot be told.
    #[pyo3(signature = (viewer, attack, verdicts, psnr, example=None))]
    fn tried(
        &self,
        viewer: &str,
        attack: &str,
        verdicts: Vec<(String, Option<String>)>,
        psnr: Option<f64>,
        example: Option<[Bound<'_, PyAny>; 2]>,
    ) -> PyResult<()> {
        let count = |name: &str| verdicts.iter().filter(|(verdict, _)| verdict == name).count();
        let side = self.side();
        let png = |picture: &Bound<'_, PyAny>| -> PyResult<Vec<u8>> {
            let values = pictures("the example", picture, side)?.into_iter().next().unwrap_or_default();
            let picture = Picture::from_hwc(side, side, &values).map_err(value_error)?;
            encode_png(&picture).map_err(value_error)
        };
        let example = match &example {
            Some([truth, found]) => Some([png(truth)?, png(found)?]),
            None => None,
        };
        let tried = Tried {
            updates: verdicts.len(),
            recognisable: count("recognisable"),
            not_recognisable_by_this_attack: count("not-recognisable-by-this-attack"),
            cannot_tell: count("cannot-tell"),
            psnr,
            because: verdicts.iter().find_map(|(_, because)| because.clone()),
            example,
        };
        self.lock().tried(parsed(viewer)?, parsed(attack)?, tried);
        Ok(())
    }

    /// Applies the plan's defence to an update of the module. Returns the update as it leaves the device, and the mask if
    /// it drops values.
    #[pyo3(signature = (update, seed, reference=None))]
    fn protect<'py>(
        &self,
        py: Python<'py>,
        update: &Bound<'py, PyAny>,
        seed: &Bound<'py, PyAny>,
        reference: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyDict>, Option<Bound<'py, PyDict>>)> {
        let seed = mask_seed(seed)?;
        let file = tensor_file("the update", update)?;
        let reference = reference.map(|reference| tensor_file("the weights", reference)).transpose()?;
        let parts = py.detach(|| self.protected(&file, reference.as_ref(), seed)).map_err(value_error)?;
        let (sent, mask) = (PyDict::new(py), PyDict::new(py));
        let mut is_masked = false;
        for Part { name, shape, values, kept } in parts {
            sent.set_item(&name, array(py, &values, &shape)?)?;
            if let Some(kept) = kept {
                is_masked = true;
                mask.set_item(&name, bits(py, &kept, &shape)?)?;
            }
        }
        Ok((sent, is_masked.then_some(mask)))
    }

    /// The page as HTML.
    fn page(&self, made: &str) -> String {
        page(&self.lock(), made)
    }

    /// The report as JSON.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string_pretty(&*self.lock()).map_err(value_error)
    }
}

/// An array of a protected update.
struct Part {
    name: String,
    shape: Vec<usize>,
    values: Vec<f32>,
    kept: Option<Vec<bool>>,
}

impl Plan {
    fn lock(&self) -> MutexGuard<'_, Audit> {
        self.audit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn protected(
        &self,
        update: &TensorFile,
        reference: Option<&TensorFile>,
        seed: MaskSeed,
    ) -> Result<Vec<Part>, String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let layout = self.model.architecture.layout();
        let flat = |file: &TensorFile| -> Result<Vec<f32>, String> {
            file.open().map_err(|error| said(&error))?.read_flat(&layout).map_err(|error| said(&error))
        };
        let reference = reference.map(flat).transpose()?;
        let plain = PlainUpdate { values: flat(update)?, reference: reference.as_deref() };
        let keys = KeyMaterial { seed, cipher: None };
        let protected = self.deployment.defence.protect(&layout, plain, keys).map_err(|error| said(&error))?;
        let checked = protected.checked(&layout).map_err(|error| said(&error))?;
        let is_masked = checked.words().is_some();
        // What a mask drops stays NaN.
        let sent = checked.expand_over(vec![f32::NAN; layout.len()]);
        let reader = update.open().map_err(|error| said(&error))?;
        let mut rest = sent.into_iter();
        let mut parts = Vec::new();
        for param in &layout {
            for (name, shape) in reader.parts(&param.name) {
                let mut values: Vec<f32> = rest.by_ref().take(shape.iter().product()).collect();
                let kept = is_masked.then(|| values.iter().map(|value| !value.is_nan()).collect());
                values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = 0.0);
                parts.push(Part { name: name.to_owned(), shape: shape.to_vec(), values, kept });
            }
        }
        Ok(parts)
    }
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> PyResult<T> {
    text.parse().map_err(value_error)
}

/// PSNR in dB, at most 99, and SSIM of two pictures [side, side, 3] in [0, 1].
#[pyfunction]
pub(crate) fn similarity(found: &Bound<'_, PyAny>, truth: &Bound<'_, PyAny>) -> PyResult<(f64, f64)> {
    let shape: Vec<usize> = truth.getattr("shape")?.extract()?;
    let side = shape.first().copied().unwrap_or_default();
    let one = |what: &str, value: &Bound<'_, PyAny>| -> PyResult<Vec<f32>> {
        Ok(pictures(what, value, side)?.into_iter().next().unwrap_or_default())
    };
    let (found, truth) = (one("the picture found", found)?, one("the truth", truth)?);
    let psnr = metrics::psnr(&found, &truth, side, side).map_err(value_error)?;
    Ok((psnr, metrics::ssim(&found, &truth, side, side).map_err(value_error)?))
}
