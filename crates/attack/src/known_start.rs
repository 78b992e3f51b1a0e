//! The key of an encrypted room, computed from weights known in both forms.

use std::{fmt, sync::OnceLock};

use faer::{Mat, MatRef};

use crate::{
    AttackError, Rounding, Tensors,
    least_squares::least_squares,
    model::{PATCH_WEIGHT, POSITION},
};

/// Largest relative difference between two forms of one model, which differ only by f32 rounding.
const LARGEST_RESIDUAL: f64 = 1e-3;

/// The keys E_a and E_b of an encrypted Vision Transformer, computed from weights known both plain and encrypted.
///
/// Each row w of the patch embedding W `[D, L]` was sent as E_a w, so W_enc = W E_a^T, and E_a^T = pinv(W) W_enc if D
/// >= L. E_b reorders the patch rows of the position embedding, so each encrypted row equals one of the plain rows.
#[derive(Clone)]
pub struct RecoveredKey {
    /// E_a^-T, `[L, L]`.
    inverse: Mat<f64>,
    /// Encrypted patch row i of the position embedding is plain patch row `source[i]`.
    source: Vec<usize>,
}

impl RecoveredKey {
    /// timm names of the weights that [`RecoveredKey::from_known_start`] reads.
    pub const WEIGHTS: [&'static str; 2] = [POSITION, PATCH_WEIGHT];

    /// Recovers the keys from the same weights in both forms, each with [`RecoveredKey::WEIGHTS`].
    ///
    /// # Errors
    /// D < L, a tensor is missing, the plain weights do not determine the key, or the two are not forms of one model.
    pub fn from_known_start(plain: &Tensors, encrypted: &Tensors) -> Result<Self, AttackError> {
        let config = plain.vit()?;
        if config != encrypted.vit()? {
            return Err(AttackError::NotTwoForms { reason: "their shapes differ".to_owned() });
        }
        let (dim, len) = (config.dim, config.patch_len());
        if dim < len {
            return Err(AttackError::TooFewRows { dim, len });
        }
        let source = order(plain.matrix(POSITION, config.tokens())?, encrypted.matrix(POSITION, config.tokens())?)?;

        let (weights, sent) = (plain.matrix(PATCH_WEIGHT, dim)?, encrypted.matrix(PATCH_WEIGHT, dim)?);
        let undetermined = |rank| AttackError::KeyUndetermined { rank, len };
        let cutoff = plain.rounding().max(encrypted.rounding()).cutoff();
        let (key, spectrum) = least_squares(weights, sent, cutoff).ok_or(undetermined(0))?;
        if spectrum.kept < spectrum.total {
            return Err(undetermined(spectrum.kept));
        }
        let size = sent.norm_l2();
        if size == 0.0 {
            return Err(AttackError::NotTwoForms { reason: "the encrypted patch embedding is all zero".to_owned() });
        }
        let residual = (weights * &key - sent).norm_l2() / size;
        if residual > LARGEST_RESIDUAL {
            let percent = 100.0 * residual;
            return Err(AttackError::NotTwoForms {
                reason: format!("the best key leaves {percent:.1} % of the encrypted patch embedding unexplained"),
            });
        }
        let identity = Mat::<f64>::identity(len, len);
        let (inverse, spectrum) =
            least_squares(key.as_ref(), identity.as_ref(), Rounding::F64.cutoff()).ok_or(undetermined(0))?;
        if spectrum.kept < spectrum.total {
            return Err(undetermined(spectrum.kept));
        }
        Ok(Self { inverse, source })
    }

    /// Decrypts a gradient or update: G = G_enc E_a^-T for the patch embedding, and the patch rows of the position
    /// embedding in their original order. Clients encrypt updates in the same way as weights. All other tensors travel
    /// plain and stay as they are. Either embedding may be missing.
    ///
    /// # Errors
    /// The key is for another model, or a mask hides entries of the patch embedding, which the key mixes with the
    /// others.
    pub fn decrypt(&self, gradients: &Tensors) -> Result<Tensors, AttackError> {
        let config = gradients.vit()?;
        let (patches, len) = (self.source.len(), self.inverse.nrows());
        if (config.patches(), config.patch_len()) != (patches, len) {
            return Err(AttackError::OtherKey {
                patches: config.patches(),
                len: config.patch_len(),
                key_patches: patches,
                key_len: len,
            });
        }
        let mut plain = gradients.clone();
        if gradients.values(PATCH_WEIGHT).is_some() {
            if gradients.kept(PATCH_WEIGHT).is_some() {
                return Err(AttackError::MaskedUnderKey { name: PATCH_WEIGHT });
            }
            let decrypted = gradients.matrix(PATCH_WEIGHT, config.dim)? * &self.inverse;
            let values = decrypted.row_iter().flat_map(|row| row.iter().copied()).collect();
            plain.insert(PATCH_WEIGHT, &[config.dim, 3, config.patch, config.patch], values)?;
        }
        if let Some(values) = gradients.values(POSITION) {
            let shape = [1, config.tokens(), config.dim];
            let values = self.rows_in_order(values, config.dim);
            match gradients.kept(POSITION) {
                Some(kept) => plain.insert_kept(POSITION, &shape, values, self.rows_in_order(kept, config.dim))?,
                None => plain.insert(POSITION, &shape, values)?,
            }
        }
        Ok(plain)
    }

    /// Returns E_b^-1 E for `rows` = E, `[1 + S, D]`, where the class row does not move.
    fn rows_in_order<T: Copy>(&self, rows: &[T], dim: usize) -> Vec<T> {
        let mut ordered = rows.to_vec();
        for (encrypted, &plain) in self.source.iter().enumerate() {
            ordered[(1 + plain) * dim..][..dim].copy_from_slice(&rows[(1 + encrypted) * dim..][..dim]);
        }
        ordered
    }
}

/// The embeddings of one model as the relay sent them and as they came back encrypted.
pub struct KnownStart {
    plain: Tensors,
    encrypted: Tensors,
    /// Computed by the first attack that needs it.
    key: OnceLock<Result<RecoveredKey, AttackError>>,
}

impl KnownStart {
    /// Takes both forms, each with [`RecoveredKey::WEIGHTS`].
    pub fn new(plain: Tensors, encrypted: Tensors) -> Self {
        Self { plain, encrypted, key: OnceLock::new() }
    }

    /// Decrypts as [`RecoveredKey::decrypt`] does, with the key recovered from both forms.
    ///
    /// # Errors
    /// As [`RecoveredKey::from_known_start`] and [`RecoveredKey::decrypt`].
    pub fn decrypt(&self, gradients: &Tensors) -> Result<Tensors, AttackError> {
        let recover = || RecoveredKey::from_known_start(&self.plain, &self.encrypted);
        self.key.get_or_init(recover).as_ref().map_err(Clone::clone)?.decrypt(gradients)
    }
}

/// Shows no weights, because they reveal the key.
impl fmt::Debug for KnownStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownStart").finish_non_exhaustive()
    }
}

/// Shows only sizes, because the contents are a key.
impl fmt::Debug for RecoveredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveredKey")
            .field("patches", &self.source.len())
            .field("patch_len", &self.inverse.nrows())
            .finish_non_exhaustive()
    }
}

/// Maps each encrypted patch row of the position embedding `[1 + S, D]` to its plain row.
fn order(plain: MatRef<'_, f64>, encrypted: MatRef<'_, f64>) -> Result<Vec<usize>, AttackError> {
    let different = |reason: String| AttackError::NotTwoForms { reason };
    let distance = |a: usize, b: usize| (plain.row(a) - encrypted.row(b)).norm_l2();
    let is_far = |a: usize, b: usize| distance(a, b) > LARGEST_RESIDUAL * encrypted.row(b).norm_l2();
    if is_far(0, 0) {
        return Err(different("the class token's rows of the position embedding differ".to_owned()));
    }
    let patches = plain.nrows() - 1;
    let mut is_taken = vec![false; patches];
    let mut source = Vec::with_capacity(patches);
    for row in 1..=patches {
        let nearest = (1..=patches).min_by(|&a, &b| distance(a, row).total_cmp(&distance(b, row)));
        let Some(nearest) = nearest.filter(|&nearest| !is_far(nearest, row)) else {
            return Err(different(format!(
                "encrypted row {row} of the position embedding equals none of the plain rows"
            )));
        };
        if std::mem::replace(&mut is_taken[nearest - 1], true) {
            return Err(different(format!("plain row {nearest} of the position embedding matches two encrypted rows")));
        }
        source.push(nearest - 1);
    }
    Ok(source)
}
