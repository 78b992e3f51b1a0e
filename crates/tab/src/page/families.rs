//! Which attacks stand on one card.

use unmask_wire::view::AttackView;

/// Families whose attacks search through the model, and so can be started and stopped.
const SEARCHED: [&str; 3] = ["matching", "jigsaw", "inverting-gradients"];

/// One card: the attacks that solve the same problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// Its name in the room's JSON.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Its attacks by name, in the room's order.
    pub attacks: Vec<String>,
}

/// The cards of `attacks`: families in the order in which each appears first.
pub fn families(attacks: &[AttackView]) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for attack in attacks {
        let name = attack.attack.clone();
        match families.iter_mut().find(|family| family.name == attack.family) {
            Some(family) => family.attacks.push(name),
            None => families.push(Family {
                name: attack.family.clone(),
                title: attack.family_title.clone(),
                attacks: vec![name],
            }),
        }
    }
    families
}

/// The card on which the search is started and stopped: the first that searches, if any does.
pub fn searched(families: &[Family]) -> Option<&str> {
    families.iter().map(|family| family.name.as_str()).find(|name| SEARCHED.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attack(name: &str, family: &str) -> AttackView {
        AttackView {
            attack: name.to_owned(),
            family: family.to_owned(),
            family_title: family.to_uppercase(),
            ..AttackView::default()
        }
    }

    #[test]
    fn twins_share_a_card_wherever_they_stand() {
        let cards = families(&[
            attack("embedding", "embedding"),
            attack("april", "april"),
            attack("embedding-aware", "embedding"),
            attack("rounds", "rounds"),
        ]);
        let names: Vec<&str> = cards.iter().map(|card| card.name.as_str()).collect();
        assert_eq!(names, ["embedding", "april", "rounds"]);
        assert_eq!(cards[0].attacks, ["embedding", "embedding-aware"]);
        assert_eq!(cards[2].title, "ROUNDS");
        assert!(families(&[]).is_empty());
    }

    #[test]
    fn one_card_has_the_hand_on_the_search() {
        let closed = [attack("embedding", "embedding"), attack("known-start", "key")];
        assert_eq!(searched(&families(&closed)), None);
        let searching = [
            attack("embedding", "embedding"),
            attack("matching", "matching"),
            attack("inverting-gradients", "inverting-gradients"),
        ];
        assert_eq!(searched(&families(&searching)), Some("matching"));
    }
}
