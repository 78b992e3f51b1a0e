//! unmask.mask.

use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyInt, PyMapping, PyString},
};
use unmask_core::{GroupRates, MaskSeed, ZeroRate};
use unmask_defence::Mask;
use unmask_inversion::{Asked, DumpedModel, Told};
use unmask_tensors::TensorFile;

use crate::{
    arrays::{arrays, bits, in_memory},
    value_error,
};

const UPDATE: &str = "the update";

/// Hide entries of an update behind the random binary mask of an unmask client.
///
/// B ~ Bernoulli(1 - R), drawn with ChaCha8 from the seed over all parameters in timm's order: bit for bit the mask that a
/// browser or the command line draws from the same seed. A seed is not secret, because the server needs the mask to
/// average. Each update needs a new one, such as secrets.token_bytes(32).
///
/// Parameters
/// ----------
/// update : dict of str to array
///     The gradient, or the weights after local training, of every parameter of a ViT or ResNet.
/// rates : float, str or dict of str to float
///     R, the share of zeros, at least 0 and below 1; or one for each group: patch, pos, attn, mlp, norm, head and conv, and
///     others for all groups not named: {"pos": 0, "others": 0.5}, or "pos=0,0.5".
/// seed : bytes or int
///     32 bytes, or the same as a little-endian number.
///
/// Returns
/// -------
/// masked, mask : dict of str to array
///     Names and shapes as in update: values of the same type, 0 where hidden; and uint8, 1 where kept.
///
/// Raises
/// ------
/// ValueError
///     The arrays fit no model, or rates or seed are invalid.
#[pyfunction]
#[pyo3(text_signature = "(update, rates, seed)")]
pub(crate) fn mask<'py>(
    py: Python<'py>,
    update: &Bound<'py, PyAny>,
    rates: &Bound<'py, PyAny>,
    seed: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let (rates, seed) = (group_rates(rates)?, mask_seed(seed)?);
    let arrays = arrays(UPDATE, update)?;
    let file = in_memory(py, UPDATE, &arrays)?;
    let drawn = py.detach(|| draw(&file, &rates, seed)).map_err(value_error)?;
    let numpy = py.import("numpy")?;
    let (masked, mask) = (PyDict::new(py), PyDict::new(py));
    // In the order of the update.
    for (name, array) in arrays {
        let Some(part) = drawn.iter().find(|part| part.name == name) else { continue };
        let kept = bits(py, &part.kept, &part.shape)?;
        let zero = array.getattr("dtype")?.getattr("type")?.call1((0,))?;
        masked.set_item(&name, numpy.call_method1("where", (&kept, array, zero))?)?;
        mask.set_item(&name, kept)?;
    }
    Ok((masked, mask))
}

struct Part {
    name: String,
    shape: Vec<usize>,
    kept: Vec<bool>,
}

/// Draws the mask of a whole model and splits it into its arrays.
fn draw(file: &TensorFile, rates: &GroupRates, seed: MaskSeed) -> Result<Vec<Part>, String> {
    let said = |error: &dyn std::error::Error| error.to_string();
    let Told { model, .. } =
        DumpedModel::tell(&Asked::default(), std::slice::from_ref(file)).map_err(|error| said(&error))?;
    let architecture = model.architecture;
    let layout = architecture.layout();
    let mut reader = file.open().map_err(|error| said(&error))?;
    let read = reader.read_flat::<f32>(&layout);
    read.map_err(|error| said(&error))?;
    if let Some(name) = reader.names().into_iter().find(|name| layout.get(name).is_none()) {
        return Err(format!(
            "{UPDATE} holds {name}, which is not a parameter of {architecture}; leave it out, as named_parameters() does"
        ));
    }
    let mut entries = Mask::new(seed, rates, &layout).entries();
    let mut parts = Vec::new();
    for param in &layout {
        for (name, shape) in reader.parts(&param.name) {
            let kept = entries.by_ref().take(shape.iter().product()).collect();
            parts.push(Part { name: name.to_owned(), shape: shape.to_vec(), kept });
        }
    }
    Ok(parts)
}

fn group_rates(rates: &Bound<'_, PyAny>) -> PyResult<GroupRates> {
    const OTHERS: &str = "others";
    if let Ok(text) = rates.cast::<PyString>() {
        return text.to_cow()?.parse().map_err(value_error);
    }
    if let Ok(groups) = rates.cast::<PyMapping>() {
        let mut parts = Vec::new();
        for item in groups.items()? {
            let (group, rate): (String, f64) = item.extract()?;
            parts.push(if group == OTHERS { rate.to_string() } else { format!("{group}={rate}") });
        }
        return parts.join(",").parse().map_err(value_error);
    }
    let rate: f64 = rates.extract().map_err(|_| {
        value_error(format!("{rates} is not a share of zeros; give a number, or a dict of groups and numbers"))
    })?;
    Ok(GroupRates::uniform(ZeroRate::new(rate).map_err(value_error)?))
}

pub(crate) fn mask_seed(seed: &Bound<'_, PyAny>) -> PyResult<MaskSeed> {
    let refused = || value_error(format!("{seed} is not a seed; give 32 bytes, or an int from 0 to 2**256 - 1"));
    let bytes = match seed.is_instance_of::<PyInt>() {
        true => seed.call_method1("to_bytes", (32, "little")).map_err(|_| refused())?,
        false => seed.clone(),
    };
    let bytes = bytes.cast::<PyBytes>().map_err(|_| refused())?;
    Ok(MaskSeed(bytes.as_bytes().try_into().map_err(|_| refused())?))
}
