//! What an attack reads: named tensors of one model, validated on insertion.

use std::collections::{BTreeMap, BTreeSet};

use faer::{Mat, MatRef};
use unmask_core::{AttackMethod, Param, ParamLayout, VitConfig};

use crate::{AttackError, ModelShape, TensorSource, model::POSITION, observed::Observed};

/// Precision to which values were rounded before they reached the attacker, finest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Rounding {
    /// 53 significant bits.
    F64,
    /// 24 significant bits, as clients send them.
    #[default]
    F32,
    /// 11 significant bits.
    F16,
    /// 8 significant bits.
    Bf16,
    /// At most 256 different values in a tensor, as after compression to a byte.
    Byte,
}

impl Rounding {
    /// The coarsest type that holds all of `values` exactly. Gradients rounded to f16 are still recognised in an f32
    /// file.
    pub fn of(values: &[f64]) -> Self {
        let all = |holds: fn(f64) -> bool| values.iter().all(|&value| value == 0.0 || holds(value));
        if values.iter().all(|&value| value == 0.0) || !all(|value| f64::from(value as f32) == value) {
            Self::F64
        } else if all(fits_f16) {
            Self::F16
        } else if all(|value| (value as f32).to_bits() & 0xffff == 0) {
            Self::Bf16
        } else if has_few_values(values) {
            Self::Byte
        } else {
            Self::F32
        }
    }

    /// Relative cutoff below which singular values count as rounding noise and are dropped.
    ///
    /// It is half the unit roundoff. For f32 gradients of `vit_lab_patch4_32` with condition number 1e9 it raises
    /// APRIL's result from 20 dB to 35 dB, and it costs nothing where the condition number is small. In f64 the
    /// decomposition's own roundoff sets the floor.
    pub(crate) fn cutoff(self) -> f64 {
        match self {
            Self::F64 => 1e-14,
            Self::F32 => 2f64.powi(-25),
            Self::F16 => 2f64.powi(-12),
            // A byte with a sign has 7 bits for the largest value.
            Self::Bf16 | Self::Byte => 2f64.powi(-9),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Byte => "8-bit values",
        }
    }
}

/// Whether a tensor has many values other than zero, of which at most 255 differ.
fn has_few_values(values: &[f64]) -> bool {
    const MANY: usize = 1024;
    const FEW: usize = 255;
    let mut different = BTreeSet::new();
    let mut nonzero = values.iter().filter(|value| **value != 0.0);
    let is_few = nonzero.by_ref().all(|value| {
        different.insert(value.to_bits());
        different.len() <= FEW
    });
    is_few && values.iter().filter(|value| **value != 0.0).count() >= MANY
}

/// Whether an f32 value has at most 11 significant bits and is a multiple of 2^-24, the smallest step of f16.
fn fits_f16(value: f64) -> bool {
    const MAX: f64 = 65504.0;
    let steps = value * 2f64.powi(24);
    value.abs() <= MAX && steps.trunc() == steps && (value as f32).to_bits() & 0x1fff == 0
}

/// Tensors by timm name, with the shapes of the model's parameters and finite values only.
///
/// A tensor may record which of its entries arrived. The others hold 0, which a naive attack takes for their value.
#[derive(Debug, Clone)]
pub struct Tensors {
    source: TensorSource,
    model: ModelShape,
    layout: ParamLayout,
    rounding: Rounding,
    values: BTreeMap<String, Vec<f64>>,
    /// Which entries arrived, for tensors with missing ones.
    kept: BTreeMap<String, Vec<bool>>,
}

impl Tensors {
    /// Creates an empty set for values with this `rounding`.
    pub fn new(source: TensorSource, model: impl Into<ModelShape>, rounding: Rounding) -> Self {
        let model = model.into();
        Self { source, model, layout: model.layout(), rounding, values: BTreeMap::new(), kept: BTreeMap::new() }
    }

    /// Takes the tensors `names` from a flat f32 vector in the layout's order. Only entries marked in `kept` arrived,
    /// or all without a mask; the others are ignored.
    ///
    /// # Errors
    /// The vector or the mask does not fit the model, or an entry that arrived is NaN or infinite.
    pub fn from_flat(
        source: TensorSource,
        model: impl Into<ModelShape>,
        flat: &[f32],
        kept: Option<&[bool]>,
        names: &[&str],
    ) -> Result<Self, AttackError> {
        let mut tensors = Self::new(source, model, Rounding::F32);
        let expected = tensors.layout.len();
        if flat.len() != expected {
            return Err(AttackError::WrongLength { from: source, found: flat.len(), expected });
        }
        if let Some(kept) = kept.filter(|kept| kept.len() != expected) {
            return Err(AttackError::WrongMask { found: kept.len(), expected });
        }
        for &name in names {
            let Param { shape, range, .. } = tensors.param(name)?.clone();
            let values = flat[range.clone()].iter().map(|&value| f64::from(value)).collect();
            match kept {
                Some(kept) => tensors.insert_kept(name, &shape, values, kept[range].to_vec())?,
                None => tensors.insert(name, &shape, values)?,
            }
        }
        Ok(tensors)
    }

    /// Adds one row-major tensor.
    ///
    /// # Errors
    /// The model has no such parameter or its shape differs, or a value is NaN or infinite.
    pub fn insert(&mut self, name: &str, shape: &[usize], values: Vec<f64>) -> Result<(), AttackError> {
        let from = self.source;
        let param = self.param(name)?;
        if shape != param.shape {
            return Err(AttackError::WrongShape {
                from,
                name: name.to_owned(),
                found: shape.to_vec(),
                expected: param.shape.clone(),
            });
        }
        if values.len() != param.range.len() {
            return Err(AttackError::WrongCount {
                from,
                name: name.to_owned(),
                found: values.len(),
                expected: param.range.len(),
            });
        }
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(AttackError::NonFinite { from, name: name.to_owned(), index, value: values[index] });
        }
        self.values.insert(name.to_owned(), values);
        self.kept.remove(name);
        Ok(())
    }

    /// Adds one row-major tensor of which only the entries marked in `kept` arrived; the others are ignored.
    ///
    /// # Errors
    /// As [`Tensors::insert`], and if `kept` and `values` differ in length.
    pub fn insert_kept(
        &mut self,
        name: &str,
        shape: &[usize],
        mut values: Vec<f64>,
        kept: Vec<bool>,
    ) -> Result<(), AttackError> {
        if kept.len() != values.len() {
            return Err(AttackError::WrongMask { found: kept.len(), expected: values.len() });
        }
        for (value, &kept) in values.iter_mut().zip(&kept) {
            if !kept {
                *value = 0.0;
            }
        }
        self.insert(name, shape, values)?;
        if kept.contains(&false) {
            self.kept.insert(name.to_owned(), kept);
        }
        Ok(())
    }

    /// Replaces a tensor by a matrix whose row-major values it gets; all of them count as arrived.
    ///
    /// # Errors
    /// As [`Tensors::insert`].
    pub(crate) fn replace(&mut self, name: &str, matrix: &Mat<f64>) -> Result<(), AttackError> {
        let shape = self.param(name)?.shape.clone();
        self.insert(name, &shape, matrix.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<f64>>()).collect())
    }

    /// Subtracts `weight` times each tensor of `other` that is also here.
    pub(crate) fn subtract(&mut self, other: &Self, weight: f64) {
        for (name, other) in &other.values {
            let Some(values) = self.values.get_mut(name) else { continue };
            values.iter_mut().zip(other).for_each(|(value, other)| *value -= weight * other);
        }
    }

    /// Values of a tensor, row-major, with 0 for entries that did not arrive.
    pub fn values(&self, name: &str) -> Option<&[f64]> {
        self.values.get(name).map(Vec::as_slice)
    }

    /// The same without the classification head.
    #[must_use]
    pub fn without_head(&self) -> Self {
        let mut without = self.clone();
        for name in self.model.head() {
            without.values.remove(name);
            without.kept.remove(name);
        }
        without
    }

    /// Whether entries of any tensor did not arrive.
    pub(crate) fn is_masked(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Which entries of a tensor arrived; `None` if none is known to be missing.
    pub fn kept(&self, name: &str) -> Option<&[bool]> {
        self.kept.get(name).map(Vec::as_slice)
    }

    /// A tensor as `[rows, everything else]`, with the entries that are known.
    pub(crate) fn observed(&self, name: &str, rows: usize) -> Result<Observed, AttackError> {
        Ok(Observed::new(rows, self.get(name)?, self.kept(name)))
    }

    pub fn model(&self) -> ModelShape {
        self.model
    }

    /// The configuration of a ViT.
    ///
    /// # Errors
    /// [`AttackError::NotVit`].
    pub fn vit(&self) -> Result<VitConfig, AttackError> {
        self.model.vit()
    }

    pub fn rounding(&self) -> Rounding {
        self.rounding
    }

    fn param(&self, name: &str) -> Result<&Param, AttackError> {
        self.layout.get(name).ok_or_else(|| AttackError::NoSuchParameter { name: name.to_owned() })
    }

    pub(crate) fn get(&self, name: &str) -> Result<&[f64], AttackError> {
        self.values
            .get(name)
            .map(Vec::as_slice)
            .ok_or_else(|| AttackError::Missing { from: self.source, name: name.to_owned() })
    }

    /// A tensor as `[rows, everything else]`.
    pub(crate) fn matrix(&self, name: &str, rows: usize) -> Result<MatRef<'_, f64>, AttackError> {
        let values = self.get(name)?;
        Ok(MatRef::from_row_major_slice(values, rows, values.len() / rows))
    }

    /// The position embedding's gradient `[S + 1, D]`, class token first. Fails if the model has too few dimensions for
    /// the `unknowns` of `method`, or if the patches' positions did not learn.
    pub(crate) fn position_gradient(&self, method: AttackMethod, unknowns: usize) -> Result<Mat<f64>, AttackError> {
        let config = self.vit()?;
        let dim = config.dim;
        if dim < unknowns {
            return Err(AttackError::TooFewDimensions { method, dim, unknowns });
        }
        let values = self.get(POSITION)?;
        if values[dim..].iter().all(|&value| value == 0.0) {
            return Err(AttackError::FixedPosition);
        }
        Ok(MatRef::from_row_major_slice(values, config.tokens(), dim).to_owned())
    }
}

/// Everything that one attack reads.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// What the relay sent out.
    pub weights: Tensors,
    /// What came back.
    pub gradients: Tensors,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_read_off_the_values() {
        assert_eq!(Rounding::of(&[0.1, 0.0]), Rounding::F64);
        assert_eq!(Rounding::of(&[f64::from(0.1f32), 1.0]), Rounding::F32);
        // 0x3dcd is 0.1 in bf16, 0x2e66 in f16.
        assert_eq!(Rounding::of(&[f64::from(f32::from_bits(0x3dcd_0000)), 1e30f32.trunc().into()]), Rounding::F32);
        assert_eq!(Rounding::of(&[f64::from(f32::from_bits(0x3dcd_0000)), 2f64.powi(100)]), Rounding::Bf16);
        assert_eq!(Rounding::of(&[0.099_975_585_937_5, 65504.0, -(2f64.powi(-24))]), Rounding::F16);
        assert_eq!(Rounding::of(&[2f64.powi(-25)]), Rounding::Bf16);
        let bytes: Vec<f64> = (1..2000).map(|i| f64::from(0.013f32 * (i % 127) as f32)).collect();
        assert_eq!(Rounding::of(&bytes), Rounding::Byte);
        assert_eq!(Rounding::of(&[0.0]), Rounding::F64, "zeros say nothing, and the finest is assumed");
    }
}
