//! What attackers read of an update, against its definition on the expanded update.

use std::sync::OnceLock;

use proptest::prelude::*;
use unmask_attack::{AttackError, Evidence, Needs, Received, TensorSource, Tensors, UpdateScale};
use unmask_core::{
    Architecture, AttackMethod, Defence, EncryptionStart, GroupRates, MaskSeed, ResnetPreset, Rule, VitPreset,
};
use unmask_defence::{Cipher, KeyMaterial, PlainUpdate, Protect, ProtectedUpdate, RoomKey};

fn cipher() -> &'static Cipher {
    static CIPHER: OnceLock<Cipher> = OnceLock::new();
    CIPHER.get_or_init(|| {
        let key = RoomKey::derive("swan", &[9; 16], EncryptionStart::Plain).unwrap();
        Cipher::new(&key, &Architecture::from(VitPreset::Pico).layout()).unwrap()
    })
}

fn defence() -> impl Strategy<Value = Defence> {
    let rates = any::<[u16; 7]>().prop_map(GroupRates::from_bits);
    prop_oneof![
        Just(Defence::None),
        Just(Defence::FixedPosition),
        rates.clone().prop_map(|rates| Defence::RandomBinary { rates }),
        rates.prop_map(|rates| Defence::FrozenBinary { rates }),
        Just("gaussian:eps=8,delta=1e-5,clip=0.5".parse().unwrap()),
        Just(Defence::Encrypted { start: EncryptionStart::Plain }),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![Just(Rule::FedSgd), (1u16..5, 1e-3f32..0.5).prop_map(|(epochs, rate)| Rule::FedAvg { epochs, rate }),]
}

/// An update as the client sends it for these weights.
fn sent(model: Architecture, defence: Defence, rule: Rule, weights: &[f32], seed: [u8; 32]) -> ProtectedUpdate {
    let change = |i: usize| ((i % 997) as f32 - 498.5) / 50_000.0;
    let values: Vec<f32> = match rule {
        Rule::FedSgd => (0..weights.len()).map(change).collect(),
        Rule::FedAvg { .. } => weights.iter().enumerate().map(|(i, weight)| weight - change(i)).collect(),
    };
    let plain = PlainUpdate { values, reference: rule.is_fedavg().then_some(weights) };
    let cipher = matches!(defence, Defence::Encrypted { .. }).then(cipher);
    defence.protect(&model.layout(), plain, KeyMaterial { seed: MaskSeed(seed), cipher }).unwrap()
}

/// The gradient and the kept entries by definition, from all P values of the expanded update and of its mask.
fn defined(
    model: Architecture,
    rule: Rule,
    (samples, batch): (u32, u16),
    weights: &[f32],
    update: &ProtectedUpdate,
) -> (Vec<f64>, Vec<bool>) {
    let layout = model.layout();
    let expanded = update.expand(&layout).unwrap();
    let kept: Vec<bool> =
        update.mask(&layout).map_or_else(|| vec![true; layout.len()], |mask| mask.entries().collect());
    let gradient = |i: usize| match rule {
        _ if !kept[i] => 0.0,
        Rule::FedSgd => f64::from(expanded[i]),
        Rule::FedAvg { rate, .. } => {
            let steps = rule.local_steps(samples, batch) as f64;
            (f64::from(weights[i]) - f64::from(expanded[i])) / (f64::from(rate) * steps)
        }
    };
    ((0..layout.len()).map(gradient).collect(), kept)
}

fn check_tensors(model: Architecture, tensors: &Tensors, names: &[&str], gradient: &[f64], kept: &[bool]) {
    let layout = model.layout();
    for name in names {
        let range = layout.get(name).unwrap().range.clone();
        assert_eq!(tensors.values(name).unwrap(), &gradient[range.clone()], "{name}");
        let known = tensors.kept(name).map_or_else(|| vec![true; range.len()], <[bool]>::to_vec);
        assert_eq!(known, kept[range], "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For any defence and rule, the tensors, the flat gradient and the dumped tensors are those of the definition.
    #[test]
    fn what_is_read_is_what_the_expanded_update_says(
        defence in defence(),
        rule in rule(),
        samples in 1u32..40,
        batch in 1u16..10,
        seed: [u8; 32],
        share in 0.0f64..1.0,
        is_resnet: bool,
    ) {
        let is_vit_only = matches!(defence, Defence::FixedPosition | Defence::Encrypted { .. });
        let model: Architecture =
            if is_resnet && !is_vit_only { ResnetPreset::Nano.into() } else { VitPreset::Pico.into() };
        let layout = model.layout();
        let mut weights = model.initial(3).weights;
        // The relay holds an encrypted room's weights encrypted.
        if matches!(defence, Defence::Encrypted { .. }) && !rule.is_fedavg() {
            cipher().encrypt(&mut weights).unwrap();
        }
        let update = sent(model, defence, rule, &weights, seed);
        let (gradient, kept) = defined(model, rule, (samples, batch), &weights, &update);
        let checked = update.checked(&layout).unwrap();
        let scale = UpdateScale::of(rule, samples, batch);
        let (values, words) = (checked.values(), checked.words());
        let received = Received { model: model.into(), weights: &weights, values, words, scale };

        let needs = Needs::of(AttackMethod::Gradients, model).unwrap();
        let Evidence { gradients, weights: read } = received.evidence(&needs).unwrap();
        check_tensors(model, &gradients, &needs.gradients.all(), &gradient, &kept);
        for param in &layout {
            let held = weights[param.range.clone()].iter().map(|&weight| f64::from(weight));
            prop_assert!(read.values(&param.name).unwrap().iter().copied().eq(held), "{}", param.name);
        }

        let some = ["head.weight", "head.bias"].map(|name| if layout.get(name).is_some() { name } else { "fc.bias" });
        let mut few = Needs::default();
        few.gradients.required = some.map(str::to_owned).to_vec();
        check_tensors(model, &received.evidence(&few).unwrap().gradients, &some, &gradient, &kept);

        let len = (share * layout.len() as f64) as usize;
        for len in [0, len, layout.len()] {
            let (flat, arrived) = received.gradient(len);
            let expected: Vec<f32> = gradient[..len].iter().map(|&value| value as f32).collect();
            prop_assert_eq!(flat, expected);
            prop_assert_eq!(arrived.is_some(), update.mask(&layout).is_some());
            prop_assert!(arrived.is_none_or(|arrived| arrived == kept[..len]));
        }

        if let Rule::FedAvg { rate, .. } = rule
            && !matches!(defence, Defence::Encrypted { .. })
        {
            let names: Vec<&str> = layout.iter().map(|param| param.name.as_str()).collect();
            let tensors = |source, flat: &[f32], kept| Tensors::from_flat(source, model, flat, kept, &names).unwrap();
            let before = tensors(TensorSource::Weights, &weights, None);
            let after = tensors(TensorSource::Gradients, &update.expand(&layout).unwrap(), Some(&kept));
            let scale = UpdateScale::after(f64::from(rate), rule.local_steps(samples, batch));
            match after.decrease_from(&before, scale) {
                Ok(found) => check_tensors(model, &found, &names, &gradient, &kept),
                // Noise, or a mask that drops nearly everything, leaves nothing that resembles weights.
                Err(error) => prop_assert_eq!(error, AttackError::OtherWeights),
            }
        }
    }
}

/// Rooms refuse an update that does not fit; reading one must not panic.
#[test]
fn values_of_another_length_are_read_without_harm() {
    let model = Architecture::from(VitPreset::Pico);
    let (layout, weights) = (model.layout(), model.initial(3).weights);
    let needs = Needs::of(AttackMethod::Gradients, model).unwrap();
    let whole = [(u64::MAX, 64)].repeat(layout.len() / 64);
    for (values, words) in [(vec![1.0; 10], None), (vec![1.0; 10], Some(whole.clone())), (Vec::new(), Some(whole))] {
        for scale in [UpdateScale::Gradient, UpdateScale::after(0.1, 2)] {
            let words = words.clone().map(Vec::into_iter);
            let is_dense = words.is_none();
            let received = Received { model: model.into(), weights: &weights, values: &values, words, scale };
            assert_eq!(received.evidence(&needs).is_err(), is_dense);
            let _ = received.gradient(layout.len());
        }
    }
}
