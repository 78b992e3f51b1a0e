//! What the worker tells the page about doctored plans and published lists.

use unmask_client::{Caution, Doubt, ListedRound, OwnUpdate};

use crate::protocol;

/// What a client does about plans that look doctored, as the student chose.
pub fn of_page(caution: protocol::Caution) -> Caution {
    match caution {
        protocol::Caution::Weights => Caution::Weights,
        protocol::Caution::Pictures => Caution::Pictures,
        protocol::Caution::Refuse => Caution::Refuse,
    }
}

/// The doubts about a round for the page, the first of each kind: a doctored model often has the same in many layers.
pub fn found(round: u32, doubts: &[Doubt], is_refused: bool) -> protocol::FoundDoubts {
    let mut found: Vec<protocol::Doubt> = Vec::new();
    for doubt in doubts.iter().map(doubt) {
        if found.iter().all(|known| std::mem::discriminant(known) != std::mem::discriminant(&doubt)) {
            found.push(doubt);
        }
    }
    protocol::FoundDoubts { round, doubts: found, is_refused }
}

fn doubt(doubt: &Doubt) -> protocol::Doubt {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    match doubt {
        Doubt::Length { .. } => protocol::Doubt::Length,
        Doubt::Jump { layer, .. } => protocol::Doubt::Jump { layer: layer.clone() },
        Doubt::Size { layer, .. } => protocol::Doubt::Size { layer: layer.clone() },
        Doubt::Biases { .. } => protocol::Doubt::Biases,
        Doubt::Rows { .. } => protocol::Doubt::Rows,
        Doubt::ZeroHead => protocol::Doubt::ZeroHead,
        Doubt::Flat { flat, pictures } => protocol::Doubt::Flat { flat: count(*flat), pictures: count(*pictures) },
    }
}

pub fn listed(listed: ListedRound) -> protocol::ListedRound {
    let ListedRound { round, words, root, updates, own } = listed;
    let root = root.iter().map(|byte| format!("{byte:02x}")).collect();
    let is_in = match own {
        OwnUpdate::Listed => Some(true),
        OwnUpdate::Missing => Some(false),
        OwnUpdate::None => None,
    };
    protocol::ListedRound { round, words, root, updates, is_in }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    #[wasm_bindgen_test]
    fn one_doubt_of_each_kind_is_told() {
        let jump = |layer: &str| Doubt::Jump { layer: layer.to_owned(), moved: 2.0, most: 1.0 };
        let doubts = [jump("pos_embed"), Doubt::ZeroHead, jump("cls_token"), Doubt::Flat { flat: 3, pictures: 4 }];
        let found = found(7, &doubts, true);
        let told = [
            protocol::Doubt::Jump { layer: "pos_embed".to_owned() },
            protocol::Doubt::ZeroHead,
            protocol::Doubt::Flat { flat: 3, pictures: 4 },
        ];
        assert_eq!((found.round, found.doubts.as_slice(), found.is_refused), (7, told.as_slice(), true));
    }
}
