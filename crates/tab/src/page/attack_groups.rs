//! Which attacks stand on one card.

use unmask_core::{AttackFamily, AttackMethod};
use unmask_wire::view::AttackView;

/// The attacks that solve the same problem, on one card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttackGroup {
    pub family: AttackFamily,
    /// Its attacks, in the room's order.
    pub attacks: Vec<AttackMethod>,
}

/// The groups of `attacks`: families in the order in which each appears first.
pub fn by_family(attacks: &[AttackView]) -> Vec<AttackGroup> {
    let mut groups: Vec<AttackGroup> = Vec::new();
    for &AttackView { attack, family, .. } in attacks {
        match groups.iter_mut().find(|group| group.family == family) {
            Some(group) => group.attacks.push(attack),
            None => groups.push(AttackGroup { family, attacks: vec![attack] }),
        }
    }
    groups
}

/// The group on whose card the search is started and stopped: the first that searches, if any does.
pub fn first_search(groups: &[AttackGroup]) -> Option<AttackFamily> {
    groups.iter().find(|group| group.attacks.iter().any(|attack| attack.is_search())).map(|group| group.family)
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
        let groups = by_family(&views(&[Embedding, April, EmbeddingAware, Rounds]));
        let families: Vec<AttackFamily> = groups.iter().map(|group| group.family).collect();
        assert_eq!(families, [AttackFamily::Embedding, AttackFamily::April, AttackFamily::Rounds]);
        assert_eq!(groups[0].attacks, [Embedding, EmbeddingAware]);
        assert!(by_family(&[]).is_empty());
    }

    #[test]
    fn the_search_is_driven_from_one_card() {
        use AttackMethod::{Embedding, Gradients, KnownStart, Matching};
        assert_eq!(first_search(&by_family(&views(&[Embedding, KnownStart]))), None);
        assert_eq!(first_search(&by_family(&views(&[Embedding, Matching, Gradients]))), Some(AttackFamily::Matching));
    }
}
