//! Writes and reads whole networks, and reports what does not fit.

use std::collections::BTreeMap;

use safetensors::SafeTensors;
use unmask_core::{Architecture, ModelState};
use unmask_tensors::{
    HeadReplaced, Imported, Storage, TensorProblem, TensorReader, WeightsError, encode, encode_state, import_from,
};

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn network(name: &str) -> (Architecture, ModelState) {
    let architecture = Architecture::named(name, 10).unwrap();
    let mut state = architecture.initial(5);
    // A fresh network's ones and zeros would hide swapped tensors.
    let all = state.weights.iter_mut().chain(&mut state.statistics);
    all.enumerate().for_each(|(i, value)| *value += 1e-3 * (i % 997) as f32);
    (architecture, state)
}

fn tensors(architecture: Architecture, state: &ModelState) -> Tensors {
    let mut tensors = Tensors::new();
    for (layout, flat) in [(architecture.layout(), &state.weights), (architecture.statistics(), &state.statistics)] {
        for param in &layout {
            tensors.insert(param.name.clone(), (param.shape.clone(), flat[param.range.clone()].to_vec()));
        }
    }
    tensors
}

fn read(tensors: &Tensors, architecture: Architecture) -> Result<Imported, WeightsError> {
    let file = tensors.iter().map(|(name, (shape, values))| (name.as_str(), shape.as_slice(), values.as_slice()));
    let bytes = encode(file).unwrap();
    import_from(TensorReader::from_bytes("a file", &bytes).unwrap(), architecture, 1)
}

fn problems(error: WeightsError) -> Vec<TensorProblem> {
    let WeightsError::Tensors { problems, .. } = error else { panic!("{error}") };
    problems
}

#[test]
fn what_was_exported_comes_back() {
    for name in ["vit_pico_patch4_16", "resnet_nano"] {
        let (architecture, state) = network(name);
        let back = |storage| {
            let bytes = encode_state(architecture, &state, storage).unwrap();
            import_from(TensorReader::from_bytes("a file", &bytes).unwrap(), architecture, 1).unwrap()
        };
        let Imported { state: whole, head_replaced, surplus } = back(Storage::F32);
        assert_eq!(whole, state);
        assert_eq!(head_replaced, None);
        assert!(surplus.is_empty(), "{surplus:?}");
        let halved = back(Storage::F16).state;
        for (half, whole) in halved.weights.iter().zip(&state.weights) {
            assert!((half - whole).abs() <= 2f32.powi(-11) * whole.abs() + 2f32.powi(-24));
        }
    }
}

#[test]
fn a_resnet_is_written_as_pytorch_wants_it() {
    let (architecture, state) = network("resnet_nano");
    let bytes = encode_state(architecture, &state, Storage::F32).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let batches = file.tensor("layer2.0.downsample.1.num_batches_tracked").unwrap();
    assert_eq!((batches.dtype(), batches.shape()), (safetensors::Dtype::I64, [].as_slice()));
    assert_eq!(file.tensor("layer2.0.downsample.0.weight").unwrap().shape(), [32, 16, 1, 1]);
    assert_eq!(file.tensor("bn1.running_var").unwrap().shape(), [16]);
}

#[test]
fn a_head_of_other_classes_is_replaced_and_said_so() {
    for (name, head) in [("vit_pico_patch4_16", "head"), ("resnet_nano", "fc")] {
        let (architecture, state) = network(name);
        let of_seven = architecture.with_classes(7);
        let file = tensors(architecture, &state);
        let imported = read(&file, of_seven).unwrap();
        assert_eq!(imported.head_replaced, Some(HeadReplaced { found: 10, fresh: 7 }));
        assert!(imported.surplus.is_empty());
        let layout = of_seven.layout();
        let fresh = of_seven.initial(1);
        for param in &layout {
            let found = &imported.state.weights[param.range.clone()];
            if param.name.starts_with(head) {
                assert_eq!(found, &fresh.weights[param.range.clone()], "{}", param.name);
            } else {
                assert_eq!(found, file[&param.name].1, "{}", param.name);
            }
        }
        // A head that differs in more than its classes does not belong to this network.
        let mut wrong = file.clone();
        wrong.insert(format!("{head}.weight"), (vec![3, 5], vec![0.0; 15]));
        let error = problems(read(&wrong, of_seven).unwrap_err());
        assert!(matches!(&error[0], TensorProblem::Shape { given, .. } if *given == [3, 5]), "{error:?}");
    }
}

#[test]
fn missing_and_surplus_tensors_are_named() {
    let (architecture, state) = network("resnet_nano");
    let mut file = tensors(architecture, &state);
    file.insert("bn1.num_batches_tracked".into(), (vec![1], vec![7.0]));
    file.insert("optimizer.step".into(), (vec![1], vec![7.0]));
    file.insert("auxiliary.0.num_batches_tracked".into(), (vec![1], vec![7.0]));
    let imported = read(&file, architecture).unwrap();
    assert_eq!(imported.state, state);
    assert_eq!(imported.surplus, ["auxiliary.0.num_batches_tracked", "optimizer.step"]);
    file.remove("bn1.running_var");
    file.remove("layer2.0.conv1.weight");
    let error = read(&file, architecture).unwrap_err();
    assert!(error.to_string().contains("layer2.0.conv1.weight [32, 16, 3, 3] is missing"), "{error}");
    let names: Vec<String> = problems(error)
        .into_iter()
        .map(|problem| match problem {
            TensorProblem::Missing { name, .. } => name,
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(names, ["layer2.0.conv1.weight", "bn1.running_var"]);
}

#[test]
fn what_is_no_number_is_refused_both_ways() {
    let (architecture, state) = network("vit_pico_patch4_16");
    let mut file = tensors(architecture, &state);
    file.get_mut("blocks.1.mlp.fc1.bias").unwrap().1[4] = f32::NAN;
    let error = problems(read(&file, architecture).unwrap_err());
    assert!(
        matches!(&error[..], [TensorProblem::NonFinite { name, index: 4, .. }] if name == "blocks.1.mlp.fc1.bias"),
        "{error:?}"
    );
    let place = architecture.layout().get("norm.weight").unwrap().range.start + 2;
    for (value, storage, is_refused) in
        [(f32::INFINITY, Storage::F32, true), (1e6, Storage::F32, false), (1e6, Storage::F16, true)]
    {
        let mut state = state.clone();
        state.weights[place] = value;
        let written = encode_state(architecture, &state, storage);
        assert_eq!(written.is_err(), is_refused, "{value} as {storage:?}");
        if let Err(error) = written {
            let error = error.to_string();
            assert!(error.contains("norm.weight") && error.contains('2'), "{error}");
        }
    }
    let short = ModelState { weights: vec![0.0; 3], statistics: Vec::new() };
    let error = encode_state(architecture, &short, Storage::F32).unwrap_err();
    assert!(matches!(error, WeightsError::Length { given: 3, .. }));
}
