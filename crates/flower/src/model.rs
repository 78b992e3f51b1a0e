//! Converts arrays to a model and back.

use std::{collections::HashMap, io::Cursor, ops::Range};

use bytes::Bytes;
use unmask_core::{Architecture, ModelState, ParamLayout};
use unmask_tensors::{TensorReader, WeightsError, read_state, state_dict};

use crate::{Array, Named};

/// The suffix that names an array's mask: bytes, where 1 marks a value that was sent. A strategy that supports masks
/// divides the mean of the array by the mean of its mask.
pub const MASK_SUFFIX: &str = ".mask";

/// Why arrays are not a valid model.
#[derive(Debug, thiserror::Error)]
pub enum ArraysError {
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(
        "{0} came: a strategy averaged masks as if they were weights; the server must use MaskedFedAvg of \
         integrations/flower"
    )]
    Mask(String),
    #[error("{given} arrays came by position; {architecture} has {expected}")]
    Count { given: usize, expected: String, architecture: Architecture },
}

/// The mapping between a federation's arrays and a model's values.
///
/// Arrays are identified by timm's names, by equivalent names of torchvision, Hugging Face and wrapped models, or by
/// their position in PyTorch's `state_dict`, as from `to_numpy_ndarrays`. Arrays that the model does not use are
/// returned unchanged.
#[derive(Debug, Clone)]
pub struct ModelArrays {
    arrays: Vec<(String, Source)>,
}

/// The place of an array's values in the model.
#[derive(Debug, Clone)]
enum Source {
    Weights(Vec<usize>, Range<usize>),
    Statistics(Vec<usize>, Range<usize>),
    AsItCame(Array),
}

impl ModelArrays {
    /// Reads a model of `architecture`. Returns the mapping and the values.
    ///
    /// # Errors
    /// Lists the arrays that are missing, have a wrong shape or type, or are not finite. Also refuses masks, since
    /// weights that were averaged without their masks are too small.
    pub fn read(architecture: Architecture, arrays: &Named<Array>) -> Result<(Self, ModelState), ArraysError> {
        if let Some((name, _)) = arrays.iter().find(|(name, _)| name.ends_with(MASK_SUFFIX)) {
            return Err(ArraysError::Mask(name.clone()));
        }
        let by_position = positions(architecture, arrays)?;
        let name =
            |index: usize, key: &str| by_position.as_ref().map_or_else(|| key.to_owned(), |names| names[index].clone());
        let named =
            arrays.iter().enumerate().map(|(index, (key, array))| (name(index, key), Cursor::new(array.npy.clone())));
        let reader = TensorReader::from_arrays("what the SuperLink sent", named)?;
        let (layout, statistics) = (architecture.layout(), architecture.statistics());
        let mut places: HashMap<String, Source> = HashMap::new();
        for (layout, source) in [(&layout, Source::Weights as fn(_, _) -> _), (&statistics, Source::Statistics)] {
            places.extend(parts(&reader, layout).map(|(name, shape, range)| (name, source(shape, range))));
        }
        let state = read_state(reader, architecture)?;
        let source = |(index, (key, array)): (usize, &(String, Array))| {
            let source = places.remove(&name(index, key)).unwrap_or_else(|| Source::AsItCame(array.clone()));
            (key.clone(), source)
        };
        Ok((Self { arrays: arrays.iter().enumerate().map(source).collect() }, state))
    }

    /// Returns the arrays of a model of the same architecture, with the names and order of those that were read.
    pub fn write(&self, state: &ModelState) -> Named<Array> {
        let array = |shape: &[usize], flat: &[f32], range: &Range<usize>| {
            Array::from_f32(shape, flat.get(range.clone()).unwrap_or_default())
        };
        let arrays = self.arrays.iter().map(|(key, source)| {
            let array = match source {
                Source::Weights(shape, range) => array(shape, &state.weights, range),
                Source::Statistics(shape, range) => array(shape, &state.statistics, range),
                Source::AsItCame(array) => array.clone(),
            };
            (key.clone(), array)
        });
        arrays.collect()
    }

    /// Returns the name, shape and range in the flat vector of each array that holds weights. Omits running statistics
    /// and unused arrays.
    pub fn weights(&self) -> impl Iterator<Item = (&str, &[usize], Range<usize>)> {
        self.arrays.iter().filter_map(|(key, source)| match source {
            Source::Weights(shape, range) => Some((key.as_str(), shape.as_slice(), range.clone())),
            Source::Statistics(..) | Source::AsItCame(_) => None,
        })
    }
}

/// Returns the names of the state dict if the arrays are identified by position.
fn positions(architecture: Architecture, arrays: &Named<Array>) -> Result<Option<Vec<String>>, ArraysError> {
    let by_position = arrays.iter().enumerate().all(|(index, (key, _))| key.parse() == Ok(index));
    if !by_position || arrays.is_empty() {
        return Ok(None);
    }
    let orders = [false, true].map(|has_batches| state_dict(architecture, has_batches));
    let counts = orders.each_ref().map(Vec::len);
    let expected = match counts {
        [one, other] if one == other => one.to_string(),
        [one, other] => format!("{one}, or {other} with num_batches_tracked"),
    };
    match orders.into_iter().find(|names| names.len() == arrays.len()) {
        Some(names) => Ok(Some(names)),
        None => Err(ArraysError::Count { given: arrays.len(), expected, architecture }),
    }
}

/// Returns the name, shape and range in the flat vector of each array that the parameters of `layout` are read from.
fn parts(
    reader: &TensorReader<Cursor<Bytes>>,
    layout: &ParamLayout,
) -> impl Iterator<Item = (String, Vec<usize>, Range<usize>)> {
    layout.iter().flat_map(move |param| {
        let mut start = param.range.start;
        let place = |(name, shape): (&str, &[usize])| {
            let end = start.saturating_add(shape.iter().product());
            (name.to_owned(), shape.to_vec(), std::mem::replace(&mut start, end)..end)
        };
        reader.parts(&param.name).into_iter().map(place).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use unmask_core::{ResnetPreset, VitPreset};

    use super::*;

    fn arrays(architecture: Architecture, state: &ModelState) -> Named<Array> {
        let (layout, statistics) = (architecture.layout(), architecture.statistics());
        let array = |flat: &[f32], param: &unmask_core::Param| {
            (param.name.clone(), Array::from_f32(&param.shape, &flat[param.range.clone()]))
        };
        let weights = layout.iter().map(|param| array(&state.weights, param));
        weights.chain(statistics.iter().map(|param| array(&state.statistics, param))).collect()
    }

    fn batches() -> Array {
        let text = format!("{:<117}\n", "{'descr': '<i8', 'fortran_order': False, 'shape': (), }");
        let npy = [b"\x93NUMPY\x01\x00\x76\x00".as_slice(), text.as_bytes(), &3_i64.to_le_bytes()].concat();
        Array { dtype: "int64".to_owned(), shape: Vec::new(), npy: npy.into() }
    }

    #[test]
    fn a_model_comes_and_goes_under_its_names() {
        for architecture in [Architecture::from(VitPreset::Pico), Architecture::from(ResnetPreset::Nano)] {
            let state = architecture.initial(5);
            let mut came = arrays(architecture, &state);
            came.reverse();
            came.push(("bn1.num_batches_tracked".to_owned(), batches()));
            let (arrays, read) = ModelArrays::read(architecture, &came).unwrap();
            assert_eq!(read, state);
            assert_eq!(arrays.write(&read), came);
            let weights: usize = arrays.weights().map(|(_, _, range)| range.len()).sum();
            assert_eq!(weights, state.weights.len());
        }
    }

    #[test]
    fn a_model_comes_and_goes_by_position() {
        let architecture = Architecture::from(ResnetPreset::Nano);
        let state = architecture.initial(5);
        let by_name: HashMap<String, Array> = arrays(architecture, &state).into_iter().collect();
        for has_batches in [false, true] {
            let order = state_dict(architecture, has_batches);
            let array = |name: &String| by_name.get(name).cloned().unwrap_or_else(batches);
            let came: Named<Array> =
                order.iter().enumerate().map(|(index, name)| (index.to_string(), array(name))).collect();
            let (arrays, read) = ModelArrays::read(architecture, &came).unwrap();
            assert_eq!(read, state);
            assert_eq!(arrays.write(&read), came);
            let error = ModelArrays::read(architecture, &came[1..].to_vec()).unwrap_err().to_string();
            assert!(error.contains("is missing"), "{error}");
            let error = ModelArrays::read(architecture, &came[..3].to_vec()).unwrap_err().to_string();
            assert!(error.starts_with("3 arrays came by position; resnet_nano has "), "{error}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let architecture = Architecture::from(VitPreset::Pico);
        let mut came = arrays(architecture, &architecture.initial(5));
        let head = came.iter_mut().find(|(name, _)| name == "head.weight").unwrap();
        head.1 = Array::from_f32(&[3], &[0.0; 3]);
        let error = ModelArrays::read(architecture, &came).unwrap_err().to_string();
        assert!(error.contains("head.weight has shape [3], expected [10, "), "{error}");
        head_of(&mut came).npy = Bytes::from_static(b"nothing");
        let error = ModelArrays::read(architecture, &came).unwrap_err().to_string();
        assert!(error.contains("head.weight: it is cut short"), "{error}");
        let mut masked = came.clone();
        masked.push(("head.weight.mask".to_owned(), Array::from_u8(&[1], &[1])));
        let error = ModelArrays::read(architecture, &masked).unwrap_err().to_string();
        assert!(error.starts_with("head.weight.mask came: ") && error.contains("MaskedFedAvg"), "{error}");
        let mut came = arrays(architecture, &architecture.initial(5));
        let shape = head_of(&mut came).shape.clone();
        let mut values = vec![0.0; shape.iter().product()];
        values[1] = f32::NAN;
        *head_of(&mut came) = Array::from_f32(&shape, &values);
        let error = ModelArrays::read(architecture, &came).unwrap_err().to_string();
        assert!(error.contains("head.weight [10, ") && error.contains("holds NaN at value 1"), "{error}");
    }

    fn head_of(came: &mut Named<Array>) -> &mut Array {
        &mut came.iter_mut().find(|(name, _)| name == "head.weight").unwrap().1
    }
}
