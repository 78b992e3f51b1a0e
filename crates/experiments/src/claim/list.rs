//! Reads the list of claims, and checks it against the studies.

use std::collections::HashSet;

use serde::Deserialize;

use super::{Condition, Source};
use crate::catalogue::Experiment;

const FILES: [(&str, &str); 4] = [
    ("rbw.toml", include_str!("../../claims/rbw.toml")),
    ("flrsp.toml", include_str!("../../claims/flrsp.toml")),
    ("encrypted-vit.toml", include_str!("../../claims/encrypted-vit.toml")),
    ("ours.toml", include_str!("../../claims/ours.toml")),
];

/// A claim before it is judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListedClaim {
    pub(crate) id: String,
    /// The id of an earlier claim in the list that says the same in another paper.
    pub(crate) like: Option<String>,
    pub(crate) source: Source,
    /// Section or figure.
    pub(crate) place: String,
    pub(crate) sentence: String,
    /// The formulas. All must hold.
    pub(crate) holds: Vec<Condition>,
    pub(crate) decided: Decided,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decided {
    By(Experiment),
    /// No study does, with the reason.
    Not(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimFile {
    source: Source,
    claim: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    like: Option<String>,
    place: String,
    sentence: String,
    holds: Vec<Condition>,
    study: Option<Experiment>,
    undecided: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimListError {
    #[error("{file}: {problem}")]
    Unreadable { file: String, problem: String },
    #[error("the claim {id} is there twice; give one of them another id")]
    Twice { id: String },
    #[error("the claim {id} is of {from}; begin its id with \"{from}-\"")]
    OtherName { id: String, from: &'static str },
    #[error("the claim {id} has no {what}")]
    Empty { id: String, what: &'static str },
    #[error("the claim {id} is like {like}, which is not above it with the same formulas and study")]
    Like { id: String, like: String },
    #[error("the claim {id} needs either a study that decides it or, as \"undecided\", why there is none")]
    Decider { id: String },
    #[error("the claim {id} asks {study} for {metric}, which it does not measure")]
    Metric { id: String, study: &'static str, metric: String },
    #[error("the claim {id} asks {study} for the case {case}; its cases are {cases}")]
    Case { id: String, study: &'static str, case: String, cases: String },
}

impl ListedClaim {
    pub(crate) fn criterion(&self) -> String {
        self.holds.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[cfg(test)]
    pub(super) fn of(holds: Vec<Condition>) -> Self {
        Self {
            id: "ours-test".to_owned(),
            like: None,
            source: Source::Ours,
            place: "nowhere".to_owned(),
            sentence: "It holds.".to_owned(),
            holds,
            decided: Decided::Not("it is a test".to_owned()),
        }
    }
}

/// Checks that studies have the cases that the formulas name; `cases` lists the cases of a study.
///
/// # Errors
/// The first case that its study does not have.
pub(crate) fn check_cases(cases: &dyn Fn(Experiment) -> Vec<String>) -> Result<(), ClaimListError> {
    check_cases_of(&listed()?, cases)
}

fn check_cases_of(claims: &[ListedClaim], cases: &dyn Fn(Experiment) -> Vec<String>) -> Result<(), ClaimListError> {
    for ListedClaim { id, holds, decided, .. } in claims {
        let Decided::By(study) = decided else { continue };
        let cases = cases(*study);
        if let Some(term) = holds.iter().flat_map(Condition::terms).find(|term| !cases.contains(&term.case)) {
            let (id, case) = (id.clone(), term.case.clone());
            return Err(ClaimListError::Case { id, study: study.name(), case, cases: cases.join(", ") });
        }
    }
    Ok(())
}

pub(crate) fn listed() -> Result<Vec<ListedClaim>, ClaimListError> {
    read(&FILES)
}

pub(crate) fn conditions(experiment: Experiment) -> Result<Vec<Condition>, ClaimListError> {
    Ok(of(experiment)?.into_iter().flat_map(|claim| claim.holds).collect())
}

/// The claims that a study decides.
pub(super) fn of(experiment: Experiment) -> Result<Vec<ListedClaim>, ClaimListError> {
    let mut claims = listed()?;
    claims.retain(|claim| claim.decided == Decided::By(experiment));
    Ok(claims)
}

fn read(files: &[(&str, &str)]) -> Result<Vec<ListedClaim>, ClaimListError> {
    let (mut claims, mut ids) = (Vec::<ListedClaim>::new(), HashSet::new());
    for (file, text) in files {
        let unreadable = |error: toml::de::Error| ClaimListError::Unreadable {
            file: (*file).to_owned(),
            problem: error.to_string().trim_end().to_owned(),
        };
        let ClaimFile { source, claim } = toml::from_str(text).map_err(unreadable)?;
        for entry in claim {
            let claim = entry.check(source)?;
            let is_like = |other: &ListedClaim| {
                (&other.holds, &other.decided) == (&claim.holds, &claim.decided) && other.like.is_none()
            };
            let known = |like: &str| claims.iter().any(|other| other.id == like && is_like(other));
            if let Some(like) = claim.like.as_ref().filter(|like| !known(like)) {
                return Err(ClaimListError::Like { id: claim.id, like: like.clone() });
            }
            if !ids.insert(claim.id.clone()) {
                return Err(ClaimListError::Twice { id: claim.id });
            }
            claims.push(claim);
        }
    }
    Ok(claims)
}

impl Entry {
    fn check(self, source: Source) -> Result<ListedClaim, ClaimListError> {
        let Self { id, like, place, sentence, holds, study, undecided } = self;
        if !id.strip_prefix(source.name()).is_some_and(|rest| rest.len() > 1 && rest.starts_with('-')) {
            return Err(ClaimListError::OtherName { id, from: source.name() });
        }
        let missing = [("place", place.is_empty()), ("sentence", sentence.is_empty()), ("formula", holds.is_empty())];
        if let Some((what, _)) = missing.into_iter().find(|(_, is_missing)| *is_missing) {
            return Err(ClaimListError::Empty { id, what });
        }
        let decided = match (study, undecided) {
            (Some(study), None) => {
                let mut terms = holds.iter().flat_map(Condition::terms);
                if let Some(term) = terms.find(|term| !study.measures(&term.metric)) {
                    let metric = term.metric.name().to_owned();
                    return Err(ClaimListError::Metric { id, study: study.name(), metric });
                }
                Decided::By(study)
            }
            (None, Some(why)) if !why.is_empty() => Decided::Not(why),
            _ => return Err(ClaimListError::Decider { id }),
        };
        Ok(ListedClaim { id, like, source, place, sentence, holds, decided })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole() {
        let claims = listed().unwrap();
        for source in Source::ALL {
            assert!(claims.iter().any(|claim| claim.source == source), "{source:?}");
        }
        for experiment in Experiment::all() {
            assert!(!of(experiment).unwrap().is_empty(), "{experiment} decides nothing");
        }
    }

    const HEAD: &str = "source = \"ours\"\n[[claim]]\nid = \"ours-a\"\nplace = \"here\"\nsentence = \"It is.\"\n";

    fn problem(text: &str) -> String {
        read(&[("a.toml", text)]).unwrap_err().to_string()
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let formula = "holds = [\"accuracy(r0.2) = accuracy(none) within 2\"]\n";
        let study = "study = \"vit-fine-tuned\"\n";
        let whole = format!("{HEAD}{formula}{study}");
        assert_eq!(read(&[("a.toml", &whole)]).unwrap().len(), 1);
        let twice = read(&[("a.toml", &whole), ("b.toml", &whole)]).unwrap_err().to_string();
        assert!(twice.contains("ours-a is there twice"), "{twice}");
        for (text, part) in [
            (whole.replace("ours-a", "rbw-a"), "begin its id with \"ours-\""),
            (whole.replace("ours-a", "ours-"), "begin its id with \"ours-\""),
            (whole.replace("It is.", ""), "has no sentence"),
            (whole.replace("place", "like = \"rbw-b\"\nplace"), "ours-a is like rbw-b, which is not above it"),
            (whole.replace("here", ""), "has no place"),
            (format!("{HEAD}holds = []\n{study}"), "has no formula"),
            (format!("{HEAD}{formula}"), "needs either a study"),
            (format!("{whole}undecided = \"because\"\n"), "needs either a study"),
            (format!("{HEAD}{formula}undecided = \"\"\n"), "needs either a study"),
            (whole.replace("vit-fine-tuned", "vit-finetuned"), "a.toml: TOML parse error"),
            (whole.replace("accuracy(r0.2) =", "accuracy(r0.2)"), "compares nothing"),
            (whole.replace("sentence", "sentense"), "unknown field `sentense`"),
            (
                whole.replace("accuracy(r0.2)", "misfit(r0.2)"),
                "asks vit-fine-tuned for misfit, which it does not measure",
            ),
            (whole.replace("accuracy(r0.2)", "told(r0.2)"), "asks vit-fine-tuned for told"),
        ] {
            let problem = problem(&text);
            assert!(problem.contains(part), "{part}: {problem}");
        }
        let claims = read(&[("a.toml", &whole)]).unwrap();
        let cases = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(check_cases_of(&claims, &|_| cases(&["none", "r0.2"])), Ok(()));
        let problem = check_cases_of(&claims, &|_| cases(&["none", "r0.3"])).unwrap_err().to_string();
        assert!(problem.ends_with("asks vit-fine-tuned for the case r0.2; its cases are none, r0.3"), "{problem}");
    }
}
