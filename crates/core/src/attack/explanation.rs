//! Explanations of the attacks, shown in the drawer of an attack's card.

use serde::{Deserialize, Serialize};

use crate::{AttackMethod, VitConfig};

/// An attack's equation, explained for a lesson.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// The idea, for the audience.
    pub sentence: String,
    /// The problem that the attack solves.
    pub equation: String,
    /// Requirements and limits.
    pub limits: String,
    /// Each symbol of the equation, its meaning, and its shape in this model, such as `64 × 48`.
    pub symbols: Vec<[String; 3]>,
}

impl AttackMethod {
    /// The explanation with the shapes of a ViT; other models have no patches or embeddings.
    pub fn explanation(self, config: Option<&VitConfig>) -> Explanation {
        let (d, s, l) = config.map_or((0, 0, 0), |config| (config.dim, config.patches(), config.patch_len()));
        let symbol = |name: &str, meaning: &str, size: String| [name.to_owned(), meaning.to_owned(), size];
        let by = |rows: usize, columns: usize| match config {
            Some(_) => format!("{rows} × {columns}"),
            None => "none in this model".to_owned(),
        };
        let position = || symbol("G_pos", "gradient of the position embedding, a row for each patch", by(s, d));
        let patch = || symbol("G_E", "gradient of the patch embedding", by(d, l));
        let picture = || symbol("X", "the private picture, a row of pixels for each patch", by(s, l));
        let mask = || symbol("M", "1 where an entry arrived, 0 where the mask dropped it", "as the update".to_owned());
        let whole = |name: &str, meaning: &str| symbol(name, meaning, "as the update".to_owned());
        let (sentence, equation, limits, symbols) = match self {
            Self::Embedding => (
                "The first layer only mixes pixels linearly, so the gradients of the patch and position embeddings \
                 form \
                 linear equations with the private picture as the only unknown, and the relay solves them.",
                "G_E = G_posᵀ X  ⇒  X = pinv(G_posᵀ) G_E",
                "Needs one picture in the update and D ≥ S. A zero from a mask is taken for a value, and the \
                 pseudo-inverse spreads it over the whole picture.",
                vec![position(), patch(), picture()],
            ),
            Self::EmbeddingAware => (
                "The relay knows which entries were dropped, so it solves the same equations with the dropped entries \
                 as \
                 further unknowns. It alternates between them and the picture, and prefers a smooth picture among all \
                 that fit.",
                "min ‖M ∘ (G_posᵀ X − G_E)‖² + λ TV(X),  in turns over X and the hidden entries of G_pos",
                "Exact if all of G_pos arrived. If much of it is hidden, one update does not determine the picture.",
                vec![position(), patch(), picture(), mask()],
            ),
            Self::April => (
                "If the first attention block has no normalisation and no shortcut, its gradients and the gradient of \
                 the position embedding form linear equations for its input, and one more step leads from there \
                 back to the pixels.",
                "Aᵀ z = W_qᵀ dW_q + W_kᵀ dW_k + W_vᵀ dW_v,  X = pinv(E) (z − E_pos − b)",
                "Needs the April block, one picture in the update and D ≥ S + 1.",
                vec![
                    symbol("A", "gradient of the position embedding with the class row", by(s + 1, d)),
                    symbol("z", "input of the first block", by(s + 1, d)),
                    symbol("W_q, W_k, W_v", "attention weights and their gradients dW", by(d, d)),
                    picture(),
                ],
            ),
            Self::AprilAware => (
                "The rows of the position embedding's gradient are mixtures of the rows of a matrix that the attention \
                 weights' gradient reveals, so dropped entries can be filled in before APRIL's equations are \
                 solved.",
                "rows of A ∈ row space of [dW_q; dW_k; dW_v] W,  then as APRIL",
                "Needs the April block, and all of A or of the attention weights' gradient: it fails if both are \
                 masked.",
                vec![
                    symbol("A", "gradient of the position embedding with the class row", by(s + 1, d)),
                    symbol("W_q, W_k, W_v", "attention weights and their gradients dW", by(d, d)),
                    picture(),
                ],
            ),
            Self::Completion => (
                "Every row of the embeddings' gradients is a mixture of S rows, one for each patch. An attacker who \
                 knows \
                 enough entries of such rows can compute the dropped ones, and then the picture.",
                "Z = [G_Eᵀ; G_pos; b_E] = A Vᵀ of rank S:  min ‖M ∘ (Z − A Vᵀ)‖²,  then X = pinv(G_posᵀ) G_E",
                "Exact from one update of one picture if it sent clearly more entries than the S (L + D + 1) unknowns \
                 of A \
                 and V: wide models with few patches.",
                vec![
                    position(),
                    patch(),
                    symbol("b_E", "gradient of the patch embedding's bias: the sum of G_pos's rows", by(1, d)),
                    symbol("A", "mixing weights of each row of Z", by(l + s + 1, s)),
                    symbol("V", "the rows that are mixed", by(d, s)),
                    mask(),
                    picture(),
                ],
            ),
            Self::Rounds => (
                "Every round draws another mask over the same picture. The relay averages what each round kept, and \
                 after K rounds an entry is still hidden with a probability of only Rᴷ.",
                "mean of each entry over the rounds that kept it, then min ‖G_posᵀ X − G_E‖² + λ TV(X)",
                "Works while the model hardly moves between rounds. If it moves, the averages blur; the attack stops \
                 adding rounds once another would spoil more than it shows.",
                vec![
                    position(),
                    patch(),
                    picture(),
                    symbol("K", "rounds gathered from this client", "a number".to_owned()),
                    symbol("R", "share of entries that a mask drops", "0 to 1".to_owned()),
                ],
            ),
            Self::Batch => (
                "Every patch of every picture leaves a token in the first block, and its MLP bends each token in its own \
                 way. The relay looks for vectors that lie in the span of the MLP's input gradient and, once bent, in the \
                 span of its output gradient: only true tokens lie in both. From the tokens it computes the pictures.",
                "[h, 1] ∈ row space of [dW₁ | db₁]  and  GELU(W₁h + b₁) ∈ row space of dW₂",
                "Needs B (S + 1) < D and B S < L for B pictures, a standard block, and an update without noise; a mask may hide \
                 a fifth. The sum of several clients' updates is a batch too.",
                vec![
                    symbol("h", "input of the first block's MLP for one token", by(1, d)),
                    symbol("dW₁", "gradient of the MLP's first layer", by(config.map_or(0, VitConfig::mlp_dim), d)),
                    symbol("dW₂", "gradient of the MLP's second layer", by(d, config.map_or(0, VitConfig::mlp_dim))),
                    symbol("B", "pictures in the update", "read off its rank".to_owned()),
                    picture(),
                ],
            ),
            Self::Matching => (
                "The relay searches for a picture whose own gradient, computed through the model, equals the update. \
                 This version takes dropped entries for zeros.",
                "min  mean(1 − cos(G_posᵢ, g_posᵢ)) + ‖G_E − g_E‖²/‖G_E‖² + (1 − cos(rest)) + 0.003 TV(x)",
                "Thousands of passes through the model. One picture, or two that it separates.",
                vec![position(), patch(), whole("g", "gradient of the candidate picture x"), picture()],
            ),
            Self::MatchingAware => (
                "The relay searches for a picture whose own gradient, computed through the model, matches the entries \
                 that arrived, and ignores the dropped ones.",
                "min  mean(1 − cos(M∘G_posᵢ, M∘g_posᵢ)) + ‖M∘(G_E − g_E)‖²/‖G_E‖² + (1 − cos(M∘rest)) + 0.003 TV(x)",
                "Thousands of passes through the model. One update is enough up to R = 0.8; at R = 0.95 the attack \
                 fails.",
                vec![position(), patch(), whole("g", "gradient of the candidate picture x"), mask(), picture()],
            ),
            Self::Gradients => (
                "Inverting Gradients searches for a picture whose gradient has the update's direction. This version \
                 takes \
                 dropped entries for zeros.",
                "min  1 − cos(θ, ∇l(x)) + λ TV(x)",
                "Works on convolutional networks. On a Vision Transformer it fails even if nothing is masked.",
                vec![whole("θ", "the update"), whole("∇l(x)", "gradient of the candidate picture x"), picture()],
            ),
            Self::GradientsAware => (
                "Inverting Gradients searches for a picture whose gradient has the update's direction, compared only \
                 on the entries that arrived.",
                "min  1 − cos(M∘θ, M∘∇l(x)) + λ TV(x)",
                "Works on convolutional networks. On a Vision Transformer it fails even if nothing is masked.",
                vec![
                    whole("θ", "the update"),
                    whole("∇l(x)", "gradient of the candidate picture x"),
                    mask(),
                    picture(),
                ],
            ),
            Self::Jigsaw => (
                "Without the position embedding's gradient nobody can tell where a patch belongs, but the patches are \
                 still there: the relay finds the pieces of the jigsaw.",
                "min  ‖G_E − g_E‖²/‖G_E‖² + (1 − cos(rest)) + 0.003 TV(x)",
                "The score is for the best order of the pieces, which only the attacked tab knows.",
                vec![patch(), whole("g", "gradient of the candidate picture x"), picture()],
            ),
            Self::KnownStart => (
                "The relay made the model and sent it out unencrypted; a client sent it back encrypted. The two forms \
                 together reveal the key.",
                "E_aᵀ = pinv(W) W_enc,  E_b from matching rows,  then G_E = G_E,enc E_a⁻ᵀ and X = pinv(G_posᵀ) G_E",
                "Needs the plain start and D ≥ L. Under the keyed start the relay never had the plain model.",
                vec![
                    symbol("W", "patch embedding, plain and encrypted", by(d, l)),
                    symbol("E_a", "key of the patch embedding", by(l, l)),
                    symbol("E_b", "order of the position rows", by(s, s)),
                    picture(),
                ],
            ),
            Self::Colluder => (
                "Every client has the key. If one gives it to the relay, all updates are exposed.",
                "G_E = G_E,enc E_a⁻ᵀ,  G_pos = E_b⁻¹ G_pos,enc,  then X = pinv(G_posᵀ) G_E",
                "Needs the passphrase, which everybody in the room knows.",
                vec![
                    symbol("E_a", "key of the patch embedding", by(l, l)),
                    symbol("E_b", "order of the position rows", by(s, s)),
                    picture(),
                ],
            ),
        };
        let [sentence, equation, limits] = [sentence, equation, limits].map(str::to_owned);
        Explanation { sentence, equation, limits, symbols }
    }
}
