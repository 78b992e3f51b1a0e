//! The key of an encrypted room, from weights held in both forms.

use std::{fmt, sync::OnceLock};

use faer::{Mat, MatRef};

use crate::{
    AttackError, Rounding, Tensors,
    least_squares::least_squares,
    model::{PATCH_WEIGHT, POSITION},
};

/// Two forms of one model agree to the rounding of f32; what is further apart than this is not one model.
const LARGEST_RESIDUAL: f64 = 1e-3;

/// The keys E_a and E_b of an encrypted Vision Transformer, as whoever saw weights both plain and encrypted computes them.
///
/// Each row w of the patch embedding W `[D, L]` was sent as E_a w, so W_enc = W E_a^T and E_a^T = pinv(W) W_enc where
/// D >= L. E_b reorders the patch rows of the position embedding, so each encrypted row is one of the plain rows.
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

    /// From the same weights in both forms, each holding [`RecoveredKey::WEIGHTS`].
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

    /// An encrypted gradient or update in the plain: G = G_enc E_a^-T for the patch embedding's, and the position
    /// embedding's patch rows in their own order. Clients encrypt updates as they do weights. All other tensors travel
    /// plain and stay as they are; what is not there is not asked for.
    ///
    /// # Errors
    /// The gradients are of another model than the key, or a mask hides some of the patch embedding's, which the key
    /// mixes with what it left.
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

    /// E_b^-1 E for `rows` = E, `[1 + S, D]`; the class row stays.
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
    /// Computed by the first attack that asks.
    key: OnceLock<Result<RecoveredKey, AttackError>>,
}

impl KnownStart {
    /// From both forms, each holding [`RecoveredKey::WEIGHTS`].
    pub fn new(plain: Tensors, encrypted: Tensors) -> Self {
        Self { plain, encrypted, key: OnceLock::new() }
    }

    /// [`RecoveredKey::decrypt`] by the key that both forms give away.
    ///
    /// # Errors
    /// As [`RecoveredKey::from_known_start`] and [`RecoveredKey::decrypt`].
    pub fn decrypt(&self, gradients: &Tensors) -> Result<Tensors, AttackError> {
        let recover = || RecoveredKey::from_known_start(&self.plain, &self.encrypted);
        self.key.get_or_init(recover).as_ref().map_err(Clone::clone)?.decrypt(gradients)
    }
}

/// Shows none of the weights: they give the key away.
impl fmt::Debug for KnownStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownStart").finish_non_exhaustive()
    }
}

/// Shows the sizes alone: it is a key.
impl fmt::Debug for RecoveredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveredKey")
            .field("patches", &self.source.len())
            .field("patch_len", &self.inverse.nrows())
            .finish_non_exhaustive()
    }
}

/// The plain patch row that each encrypted one is, of position embeddings `[1 + S, D]`.
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
            return Err(different(format!("encrypted row {row} of the position embedding is none of the plain rows")));
        };
        if std::mem::replace(&mut is_taken[nearest - 1], true) {
            return Err(different(format!(
                "plain row {nearest} of the position embedding comes twice among the encrypted rows"
            )));
        }
        source.push(nearest - 1);
    }
    Ok(source)
}
