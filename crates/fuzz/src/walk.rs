//! What holds for every file of tensors, whatever bytes it has.

use std::{
    collections::HashSet,
    io::{Read, Seek},
    slice,
};

use unmask_inversion::{Asked, DumpedModel, read_gradient, read_model};
use unmask_tensors::{NamedTensor, Role, TensorFile, TensorReader};

/// What a file holds, or why a tensor is refused.
#[derive(Debug, PartialEq)]
pub(crate) struct Contents {
    tensors: Vec<Result<NamedTensor<f64>, String>>,
    head: Option<[String; 2]>,
    notes: Vec<String>,
}

/// One file of so many is opened twice, chosen by its length, because that takes half of the time.
const TWICE: usize = 4;

/// Opens a file, reads all of it, and tells its model. Bytes are refused, or read in one way.
pub(crate) fn file(bytes: &[u8], role: Role) {
    let file = TensorFile::bytes("a file", bytes).with_role(role);
    let Ok(reader) = file.open() else { return };
    let read = contents(reader);
    if bytes.len().is_multiple_of(TWICE) {
        let again = file.open().expect("the same bytes were taken before");
        assert_eq!(read, contents(again), "the same bytes were read in two ways");
    }
    let Ok(told) = DumpedModel::tell(&Asked::default(), slice::from_ref(&file)) else { return };
    let (layout, statistics) = (told.model.architecture.layout(), told.model.architecture.statistics());
    if let Ok(gradient) = read_gradient(&told.model, &file) {
        assert_eq!(gradient.len(), layout.len());
        assert!(gradient.iter().all(|value| value.is_finite()));
    }
    if let Ok(state) = read_model(&told.model, &file) {
        assert_eq!((state.weights.len(), state.statistics.len()), (layout.len(), statistics.len()));
        assert!(state.weights.iter().chain(&state.statistics).all(|value| value.is_finite()));
    }
}

/// Reads everything there is, and checks that it is what the names and the shapes say.
pub(crate) fn contents<R: Read + Seek>(mut reader: TensorReader<R>) -> Contents {
    let names = reader.names();
    let mut known = HashSet::new();
    let mut tensors = Vec::new();
    for name in &names {
        assert!(known.insert(name), "two tensors are called {name}");
        assert!(!reader.parts(name).is_empty(), "{name} is nowhere in the file");
        let shape = reader.shape(name).expect("it is listed").to_vec();
        let read = reader.read::<f64>(name);
        if let Ok(tensor) = &read {
            let values = shape.iter().try_fold(1, |values: usize, &side| values.checked_mul(side));
            // In any order of its sides, one without values has none.
            let values = values.filter(|_| !shape.contains(&0)).unwrap_or(0);
            assert_eq!((&tensor.name, &tensor.shape, tensor.values.len()), (name, &shape, values));
            assert!(tensor.values.iter().all(|value| value.is_finite()), "{name}");
        }
        tensors.push(read.map_err(|error| error.to_string()));
    }
    Contents { tensors, head: reader.head(), notes: reader.notes().to_vec() }
}
