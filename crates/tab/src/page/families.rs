//! Which attacks stand on one card.

use unmask_core::{AttackFamily, AttackMethod};
use unmask_wire::view::AttackView;

/// One card: the attacks that solve the same problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Which problem.
    pub family: AttackFamily,
    /// Its attacks, in the room's order.
    pub attacks: Vec<AttackMethod>,
}

/// The cards of `attacks`: families in the order in which each appears first.
pub fn cards(attacks: &[AttackView]) -> Vec<Card> {
    let mut cards: Vec<Card> = Vec::new();
    for &AttackView { attack, family, .. } in attacks {
        match cards.iter_mut().find(|card| card.family == family) {
            Some(card) => card.attacks.push(attack),
            None => cards.push(Card { family, attacks: vec![attack] }),
        }
    }
    cards
}

/// The card on which the search is started and stopped: the first that searches, if any does.
pub fn searched(cards: &[Card]) -> Option<AttackFamily> {
    cards.iter().find(|card| card.attacks.iter().any(|attack| attack.is_search())).map(|card| card.family)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(attacks: &[AttackMethod]) -> Vec<AttackView> {
        let view =
            |attack: &AttackMethod| AttackView { attack: *attack, family: attack.family(), ..AttackView::default() };
        attacks.iter().map(view).collect()
    }

    #[test]
    fn twins_share_a_card_wherever_they_stand() {
        use AttackMethod::{April, Embedding, EmbeddingAware, Rounds};
        let cards = cards(&views(&[Embedding, April, EmbeddingAware, Rounds]));
        let families: Vec<AttackFamily> = cards.iter().map(|card| card.family).collect();
        assert_eq!(families, [AttackFamily::Embedding, AttackFamily::April, AttackFamily::Rounds]);
        assert_eq!(cards[0].attacks, [Embedding, EmbeddingAware]);
        assert!(super::cards(&[]).is_empty());
    }

    #[test]
    fn one_card_has_the_hand_on_the_search() {
        use AttackMethod::{Embedding, Gradients, KnownStart, Matching};
        assert_eq!(searched(&cards(&views(&[Embedding, KnownStart]))), None);
        assert_eq!(searched(&cards(&views(&[Embedding, Matching, Gradients]))), Some(AttackFamily::Matching));
    }
}
