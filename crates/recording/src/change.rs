//! Differences between JSON values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// The change from one JSON value to another. Parts that are not named stay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    To(Value),
    /// In an object: the fields that are gone, and those that are new or changed.
    Fields {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        gone: Vec<String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        set: BTreeMap<String, Change>,
    },
    /// In a list: `drop` entries go from its start, then some of the others change, and more follow at its end.
    List {
        #[serde(default, skip_serializing_if = "is_zero")]
        drop: usize,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        at: BTreeMap<usize, Change>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        add: Vec<Value>,
    },
}

/// Why a change does not apply to a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChangeError {
    #[error("it changes fields of a value that is not an object")]
    NoObject,
    #[error("it changes entries of a value that is not a list")]
    NoList,
    #[error("it changes a missing field {0:?}")]
    NoField(String),
    #[error("it changes entry {index} of a list of {len}")]
    NoEntry { index: usize, len: usize },
    #[error("it moves more entries than a recording may")]
    TooMuchWork,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Change {
    /// The change from `before` to `after`; `None` if they are equal.
    pub fn between(before: &Value, after: &Value) -> Option<Self> {
        match (before, after) {
            _ if before == after => None,
            (Value::Object(before), Value::Object(after)) => Some(Self::of_fields(before, after)),
            (Value::Array(before), Value::Array(after)) => Some(Self::of_list(before, after)),
            _ => Some(Self::To(after.clone())),
        }
    }

    fn of_fields(before: &Map<String, Value>, after: &Map<String, Value>) -> Self {
        let gone = before.keys().filter(|key| !after.contains_key(*key)).cloned().collect();
        let changed = |(key, value): (&String, &Value)| {
            let change = match before.get(key) {
                Some(before) => Self::between(before, value)?,
                None => Self::To(value.clone()),
            };
            Some((key.clone(), change))
        };
        Self::Fields { gone, set: after.iter().filter_map(changed).collect() }
    }

    /// Fits curves and logs, which lose entries at the start and gain some at the end.
    fn of_list(before: &[Value], after: &[Value]) -> Self {
        let drop = after.first().and_then(|first| before.iter().position(|value| value == first)).unwrap_or(0);
        let kept = &before[drop..];
        if kept.len() > after.len() {
            return Self::To(Value::Array(after.to_vec()));
        }
        let at: BTreeMap<usize, Self> = kept
            .iter()
            .zip(after)
            .enumerate()
            .filter_map(|(index, (before, after))| Some((index, Self::between(before, after)?)))
            .collect();
        let scalars = at.values().filter(|change| matches!(change, Self::To(_))).count();
        // Naming each of them would be longer.
        if 2 * scalars > after.len() {
            return Self::To(Value::Array(after.to_vec()));
        }
        Self::List { drop, at, add: after[kept.len()..].to_vec() }
    }

    /// Applies the change. `work` is the number of entries that may still be moved.
    ///
    /// # Errors
    /// `value` lacks the changed part, or too much would be moved. It is then partly changed.
    pub fn make(self, value: &mut Value, work: &mut u64) -> Result<(), ChangeError> {
        match self {
            Self::To(other) => *value = other,
            Self::Fields { gone, set } => {
                let fields = value.as_object_mut().ok_or(ChangeError::NoObject)?;
                for key in &gone {
                    fields.remove(key).ok_or_else(|| ChangeError::NoField(key.clone()))?;
                }
                for (key, change) in set {
                    match (fields.get_mut(&key), change) {
                        (Some(field), change) => change.make(field, work)?,
                        (None, Self::To(value)) => drop(fields.insert(key, value)),
                        (None, _) => return Err(ChangeError::NoField(key)),
                    }
                }
            }
            Self::List { drop, at, add } => {
                let list = value.as_array_mut().ok_or(ChangeError::NoList)?;
                if drop > list.len() {
                    return Err(ChangeError::NoEntry { index: drop, len: list.len() });
                }
                if drop > 0 {
                    *work = work.checked_sub(list.len() as u64).ok_or(ChangeError::TooMuchWork)?;
                    list.drain(..drop);
                }
                for (index, change) in at {
                    let len = list.len();
                    change.make(list.get_mut(index).ok_or(ChangeError::NoEntry { index, len })?, work)?;
                }
                list.extend(add);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const WORK: u64 = 1 << 20;

    /// JSON values from few words, so that two of them have parts in common.
    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-8..8i64).prop_map(Value::from),
            (-64..64i32).prop_map(|eighths| json!(f64::from(eighths) / 8.0 + 0.0625)),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// A change leads from any value to any other, even after writing and reading it.
        #[test]
        fn changes_lead_from_one_value_to_another(before in values(), after in values()) {
            let mut value = before.clone();
            match Change::between(&before, &after) {
                None => prop_assert_eq!(&before, &after),
                Some(change) => {
                    prop_assert_ne!(&before, &after);
                    let written = serde_json::to_string(&change).unwrap();
                    serde_json::from_str::<Change>(&written).unwrap().make(&mut value, &mut WORK.clone()).unwrap();
                }
            }
            prop_assert_eq!(value, after);
        }

        /// A change for another value is refused or applied, and never panics.
        #[test]
        fn changes_of_other_values_do_no_harm(before in values(), after in values(), other in values()) {
            let mut value = other;
            if let Some(change) = Change::between(&before, &after) {
                let _ = change.make(&mut value, &mut WORK.clone());
            }
        }
    }

    #[test]
    fn a_curve_grows_by_its_last_point() {
        let before = json!({ "losses": [1, 2, 3], "round": 3 });
        let after = json!({ "losses": [2, 3, 4], "round": 4 });
        let change = Change::between(&before, &after).unwrap();
        let written = serde_json::to_string(&change).unwrap();
        assert_eq!(written, r#"{"fields":{"set":{"losses":{"list":{"drop":1,"add":[4]}},"round":{"to":4}}}}"#);
    }

    #[test]
    fn what_is_not_there_cannot_be_changed() {
        let make = |change: Value, mut value: Value, mut work: u64| {
            serde_json::from_value::<Change>(change).unwrap().make(&mut value, &mut work).unwrap_err()
        };
        assert_eq!(make(json!({ "fields": {} }), json!([]), 0), ChangeError::NoObject);
        assert_eq!(make(json!({ "list": {} }), json!({}), 0), ChangeError::NoList);
        assert_eq!(make(json!({ "fields": { "gone": ["a"] } }), json!({}), 0), ChangeError::NoField("a".into()));
        let deep = json!({ "fields": { "set": { "a": { "list": {} } } } });
        assert_eq!(make(deep, json!({}), 0), ChangeError::NoField("a".into()));
        let far = json!({ "list": { "at": { "3": { "to": 1 } } } });
        assert_eq!(make(far, json!([1]), 0), ChangeError::NoEntry { index: 3, len: 1 });
        assert_eq!(make(json!({ "list": { "drop": 2 } }), json!([1]), 9), ChangeError::NoEntry { index: 2, len: 1 });
        assert_eq!(make(json!({ "list": { "drop": 1 } }), json!([1, 2, 3]), 2), ChangeError::TooMuchWork);
    }
}
