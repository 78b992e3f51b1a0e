//! How each attack works, for those who open the drawer of its card.

use serde::{Deserialize, Serialize};

use crate::{AttackMethod, VitConfig};

/// What an attack solves, in the words of a lesson.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// For the audience.
    pub sentence: String,
    /// What is solved.
    pub equation: String,
    /// What it needs, and where it ends.
    pub limits: String,
    /// Each symbol of the equation, its meaning, and its shape in the model at hand, such as `64 × 48`.
    pub symbols: Vec<[String; 3]>,
}

impl AttackMethod {
    /// How it works, with the shapes of a ViT; without one, patches and embeddings have none.
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
                "The first layer only mixes pixels linearly, so the gradients of the patch and position embeddings form \
                 linear equations with the private picture as the only unknown, and the relay solves them.",
                "G_E = G_posᵀ X  ⇒  X = pinv(G_posᵀ) G_E",
                "Needs one picture in the update and D ≥ S. A zero that a mask put in is taken for a value, and the \
                 pseudo-inverse spreads it over the whole picture.",
                vec![position(), patch(), picture()],
            ),
            Self::EmbeddingAware => (
                "The relay knows which entries were dropped, so it solves the same equations with the dropped entries as \
                 further unknowns: in turns for them and for the picture, of all pictures that fit a smooth one.",
                "min ‖M ∘ (G_posᵀ X − G_E)‖² + λ TV(X),  in turns over X and the hidden entries of G_pos",
                "Exact where G_pos arrived whole. Where much of it is hidden, one update does not determine the picture.",
                vec![position(), patch(), picture(), mask()],
            ),
            Self::April => (
                "If the first attention block has no normalisation and no shortcut, its gradients and the gradient of \
                 the position embedding form linear equations for what entered it, and from there the way back to the \
                 pixels is one more step.",
                "Aᵀ z = W_qᵀ dW_q + W_kᵀ dW_k + W_vᵀ dW_v,  X = pinv(E) (z − E_pos − b)",
                "Needs the April block, one picture in the update and D ≥ S + 1.",
                vec![
                    symbol("A", "gradient of the position embedding with the class row", by(s + 1, d)),
                    symbol("z", "what entered the first block", by(s + 1, d)),
                    symbol("W_q, W_k, W_v", "attention weights and their gradients dW", by(d, d)),
                    picture(),
                ],
            ),
            Self::AprilAware => (
                "The rows of the position embedding's gradient are mixtures of the rows of a matrix that the attention \
                 weights' gradient gives away, so that dropped entries can be filled in before APRIL's equations are \
                 solved.",
                "rows of A ∈ row space of [dW_q; dW_k; dW_v] W,  then as APRIL",
                "Needs the April block, and either A or the attention weights' gradient whole: with both masked it cannot.",
                vec![
                    symbol("A", "gradient of the position embedding with the class row", by(s + 1, d)),
                    symbol("W_q, W_k, W_v", "attention weights and their gradients dW", by(d, d)),
                    picture(),
                ],
            ),
            Self::Completion => (
                "Every row of the embeddings' gradients is a mixture of S rows, one for each patch. Whoever knows enough \
                 entries of such rows can compute the others, whichever a mask dropped, and then the picture.",
                "Z = [G_Eᵀ; G_pos; b_E] = A Vᵀ of rank S:  min ‖M ∘ (Z − A Vᵀ)‖²,  then X = pinv(G_posᵀ) G_E",
                "Exact, from one update of one picture, where it sent more entries than the S (L + D + 1) unknowns of A and \
                 V, with something to spare: wide models of few patches.",
                vec![
                    position(),
                    patch(),
                    symbol("b_E", "gradient of the patch embedding's bias: the sum of G_pos's rows", by(1, d)),
                    symbol("A", "how each row of Z is mixed", by(l + s + 1, s)),
                    symbol("V", "the rows that are mixed", by(d, s)),
                    mask(),
                    picture(),
                ],
            ),
            Self::Rounds => (
                "Every round draws another mask over the same picture. The relay averages what each round kept, and \
                 after K rounds an entry is still hidden with probability Rᴷ only.",
                "mean of each entry over the rounds that kept it, then min ‖G_posᵀ X − G_E‖² + λ TV(X)",
                "Works while the model hardly moves between rounds. Where it moves, the averages blur; adding stops once \
                 another round would spoil more than it shows.",
                vec![
                    position(),
                    patch(),
                    picture(),
                    symbol("K", "rounds gathered from this client", "a number".to_owned()),
                    symbol("R", "share of entries that a mask drops", "0 to 1".to_owned()),
                ],
            ),
            Self::Matching => (
                "The relay searches for a picture whose own gradient, computed through the model, is the update that came. \
                 This one takes dropped entries for zeros.",
                "min  mean(1 − cos(G_posᵢ, g_posᵢ)) + ‖G_E − g_E‖²/‖G_E‖² + (1 − cos(rest)) + 0.003 TV(x)",
                "Thousands of passes through the model. One picture, or two that it takes apart.",
                vec![position(), patch(), whole("g", "gradient of the picture x that is searched for"), picture()],
            ),
            Self::MatchingAware => (
                "The relay searches for a picture whose own gradient, computed through the model, agrees with the entries \
                 that came, and lets the dropped ones be what they like.",
                "min  mean(1 − cos(M∘G_posᵢ, M∘g_posᵢ)) + ‖M∘(G_E − g_E)‖²/‖G_E‖² + (1 − cos(M∘rest)) + 0.003 TV(x)",
                "Thousands of passes through the model. One update is enough up to R = 0.8; at R = 0.95 it ends.",
                vec![
                    position(),
                    patch(),
                    whole("g", "gradient of the picture x that is searched for"),
                    mask(),
                    picture(),
                ],
            ),
            Self::Gradients => (
                "Inverting Gradients searches for a picture whose gradient points the way the update does. This one takes \
                 dropped entries for zeros.",
                "min  1 − cos(θ, ∇l(x)) + λ TV(x)",
                "Works on convolutional networks. On a Vision Transformer it fails even where nothing is masked.",
                vec![
                    whole("θ", "the update"),
                    whole("∇l(x)", "gradient of the picture x that is searched for"),
                    picture(),
                ],
            ),
            Self::GradientsAware => (
                "Inverting Gradients searches for a picture whose gradient points the way the update does, where the \
                 update says anything.",
                "min  1 − cos(M∘θ, M∘∇l(x)) + λ TV(x)",
                "Works on convolutional networks. On a Vision Transformer it fails even where nothing is masked.",
                vec![
                    whole("θ", "the update"),
                    whole("∇l(x)", "gradient of the picture x that is searched for"),
                    mask(),
                    picture(),
                ],
            ),
            Self::Jigsaw => (
                "Without the position embedding's gradient nobody can tell where a patch belongs, but the patches are \
                 still there: the relay finds the pieces of the jigsaw.",
                "min  ‖G_E − g_E‖²/‖G_E‖² + (1 − cos(rest)) + 0.003 TV(x)",
                "The score is that of the best order of the pieces, which only the attacked tab knows.",
                vec![patch(), whole("g", "gradient of the picture x that is searched for"), picture()],
            ),
            Self::KnownStart => (
                "The relay made the model and sent it out in the plain; a client sent it back encrypted. Whoever holds both \
                 forms has the key.",
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
                "Every client has the key. It takes one that gives it to the relay, and the encryption is gone for all.",
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
