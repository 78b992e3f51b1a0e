//! unmask.invert.

use std::{ops::ControlFlow, path::PathBuf, sync::Mutex};

use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};
use unmask_attack::SearchOptions;
use unmask_core::VitConfig;
use unmask_inversion::{
    Asked, InferenceAttack, Inversion, KnownPictures, LocalTraining, PixelSpace, Told, Update, UpdateFiles, round_files,
};
use unmask_tensors::TensorFile;

use crate::{
    arrays::{array, pictures, tensor_file},
    caller::Caller,
    report::Report,
    value_error,
};

/// Attack an update of any ViT or ResNet: what an honest-but-curious server sees of a client's picture.
///
/// The shapes of the tensors give the model. Closed forms take milliseconds to seconds, release the interpreter's lock
/// while they run, and need no model:
///
/// embedding, embedding-aware, april, april-aware, completion, rounds, known-start, label, membership
///
/// Attacks that know the mask undo it where they can. completion computes hidden entries from the rank of the
/// embeddings' gradients. It needs few patches for the model's width, and refuses before it starts if there are too many
/// unknowns. Searches (matching, inverting-gradients, jigsaw) are only in the command line.
///
/// Parameters
/// ----------
/// weights : dict of str to array, path or None
///     The model's state_dict() at which the gradient was taken. april and known-start read it; completion and
///     embedding do not.
/// gradients : dict of str to array, or path
///     The update: {name: p.grad for name, p in model.named_parameters()}. For the attack rounds, a list of updates of
///     one picture, or a folder of them.
/// mask : dict of str to array, path, or list, optional
///     1 where an entry arrived, 0 where it was hidden; names and shapes as in gradients. Without it nothing is hidden.
/// attack : str
///     One of those above.
/// model : str, optional
///     Its name, if shapes do not give it: "vit_small_patch16_224", or vit_patch16_dim192_depth12_heads3_64.
/// heads, side : int, optional
///     The number of attention heads, and the side of a ResNet's images, which no shape gives.
/// mean, std : float or sequence of 3 floats, optional
///     The values used to normalise the images; 0.5 if absent.
/// april_block : bool
///     The first block has no LayerNorm before attention and no residual.
/// eval : bool
///     The gradient was taken in evaluation mode, which only matters to batch norm.
/// encrypted_weights : dict of str to array or path, optional
///     The weights as an encrypted room holds them, for known-start.
/// fedavg : (float, int), optional
///     Local rate and steps, if gradients holds weights after local training instead of gradients.
/// labels : sequence of int, optional
///     The pictures' labels, if known.
/// batch : int, optional
///     Number of pictures in the update; by default from labels or rank.
/// truth : array [side, side, 3] or [n, side, side, 3], optional
///     The private pictures, in [0, 1] or uint8. The verdict then depends on their similarity to the result.
/// candidate : array [side, side, 3], optional
///     A picture that may have been in the update, for membership. Needs gradient_of.
/// gradient_of : callable, optional
///     gradient_of(images, labels) returns {name: gradient} of your model's mean loss. images is float32 [n, 3, side,
///     side], normalised like the model's input; labels is int64 [n]. It checks the pictures found: misfit and verdict.
///
/// Returns
/// -------
/// Report
///
/// Raises
/// ------
/// ValueError
///     In the words of the command line: the input is incomplete or wrong, or the attack cannot work on it.
///     Exceptions of gradient_of are raised unchanged.
#[pyfunction]
#[pyo3(signature = (
    weights, gradients, mask=None, attack="completion", *, model=None, heads=None, side=None, mean=None, std=None,
    april_block=false, eval=false, encrypted_weights=None, fedavg=None, labels=Vec::new(), batch=None, truth=None,
    candidate=None, gradient_of=None
), text_signature = "(weights, gradients, mask=None, attack='completion', *, model=None, heads=None, side=None, mean=None, \
    std=None, april_block=False, eval=False, encrypted_weights=None, fedavg=None, labels=(), batch=None, truth=None, \
    candidate=None, gradient_of=None)")]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
pub(crate) fn invert(
    py: Python<'_>,
    weights: Option<&Bound<'_, PyAny>>,
    gradients: &Bound<'_, PyAny>,
    mask: Option<&Bound<'_, PyAny>>,
    attack: &str,
    model: Option<&str>,
    heads: Option<usize>,
    side: Option<usize>,
    mean: Option<Channels>,
    std: Option<Channels>,
    april_block: bool,
    eval: bool,
    encrypted_weights: Option<&Bound<'_, PyAny>>,
    fedavg: Option<(f64, u32)>,
    labels: Vec<usize>,
    batch: Option<usize>,
    truth: Option<&Bound<'_, PyAny>>,
    candidate: Option<&Bound<'_, PyAny>>,
    gradient_of: Option<Py<PyAny>>,
) -> PyResult<Report> {
    let attack: InferenceAttack = attack.parse().map_err(value_error)?;
    let model = model.map(str::parse).transpose().map_err(value_error)?;
    let pixels = PixelSpace::new(&Channels::values(mean), &Channels::values(std)).map_err(value_error)?;
    let file = |what: &str, value: Option<&Bound<'_, PyAny>>| value.map(|value| tensor_file(what, value)).transpose();
    let local = |(rate, steps)| format!("rate={rate},steps={steps}").parse::<LocalTraining>();
    let inversion = Inversion {
        attack,
        model: Asked { model, heads, side, size: None, april_block, pixels },
        update: update(gradients, mask)?,
        weights: file("the dict of weights", weights)?,
        encrypted_weights: file("the dict of encrypted weights", encrypted_weights)?,
        fedavg: fedavg.map(local).transpose().map_err(value_error)?,
        is_training: !eval,
        labels,
        batch,
        search: SearchOptions::default(),
    };
    let Told { model, notes } = py.detach(|| inversion.tell()).map_err(value_error)?;
    let side = model.architecture.side();
    let read = |what: &str, value: Option<&Bound<'_, PyAny>>| match value {
        Some(value) => pictures(what, value, side),
        None => Ok(Vec::new()),
    };
    let known = KnownPictures {
        truths: read("the truth", truth)?,
        candidate: read("the candidate", candidate)?.into_iter().next(),
        ..KnownPictures::default()
    };
    let caller = Caller { gradient_of, model, raised: Mutex::default() };
    let go_on = || match Python::attach(|py| py.check_signals()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(interrupted) => {
            caller.keep(interrupted);
            ControlFlow::Break(())
        }
    };
    let found = py.detach(|| inversion.run(&model, &known, &caller, &mut || go_on(), &mut |_| go_on()));
    if let Some(error) = caller.raised() {
        return Err(error);
    }
    let (pictures, report) = found.map_err(value_error)?;
    let pictures = array(py, &pictures.concat(), &[pictures.len(), side, side, VitConfig::CHANNELS])?;
    Ok(Report::new(report, pictures, notes))
}

/// One number for all channels, or one for each.
#[derive(FromPyObject)]
pub(crate) enum Channels {
    All(f64),
    Each(Vec<f64>),
}

impl Channels {
    pub(crate) fn values(channels: Option<Self>) -> Vec<f64> {
        match channels {
            None => Vec::new(),
            Some(Self::All(value)) => vec![value],
            Some(Self::Each(values)) => values,
        }
    }
}

/// One update, or those of several rounds.
fn update(gradients: &Bound<'_, PyAny>, mask: Option<&Bound<'_, PyAny>>) -> PyResult<Update> {
    if let Some(folder) = gradients.extract::<PathBuf>().ok().filter(|path| path.is_dir()) {
        let rounds = round_files(&folder).map_err(value_error)?;
        return Ok(Update::Rounds { name: folder.display().to_string(), rounds });
    }
    if !gradients.is_instance_of::<PyList>() && !gradients.is_instance_of::<PyTuple>() {
        return Ok(Update::One(files("", gradients, mask)?));
    }
    let updates = gradients.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let masks = match mask {
        Some(masks) => {
            masks.try_iter()?.map(|mask| Ok(Some(mask?).filter(|mask| !mask.is_none()))).collect::<PyResult<_>>()?
        }
        None => vec![None; updates.len()],
    };
    if masks.len() != updates.len() {
        return Err(value_error(format!(
            "there are {} masks for {} updates; give one for each, or None where nothing is hidden",
            masks.len(),
            updates.len()
        )));
    }
    let round = |(round, (update, mask)): (usize, (&Bound<'_, PyAny>, &Option<Bound<'_, PyAny>>))| {
        files(&format!(" of round {round}"), update, mask.as_ref())
    };
    let rounds = (1..).zip(updates.iter().zip(&masks)).map(round).collect::<PyResult<_>>()?;
    Ok(Update::Rounds { name: "the list of updates".to_owned(), rounds })
}

fn files(round: &str, gradients: &Bound<'_, PyAny>, mask: Option<&Bound<'_, PyAny>>) -> PyResult<UpdateFiles> {
    let mask: Option<TensorFile> =
        mask.map(|mask| tensor_file(&format!("the dict of masks{round}"), mask)).transpose()?;
    Ok(UpdateFiles { gradients: tensor_file(&format!("the dict of gradients{round}"), gradients)?, mask })
}
