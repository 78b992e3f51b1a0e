use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ParamGroup, ParamLayout, UnknownGroup};

/// Share of zeros R in a mask, in 65536ths: at least 0 and below 1.
///
/// FLRSP's Algorithm 1 prints B ~ Bernoulli(R), but R is the probability of a **zero**: B ~ Bernoulli(1 - R).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ZeroRate(u16);

/// A rate that is not in `[0, 1)`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given} is not a share of zeros; give a number of at least 0 and below 1, such as 0.5")]
pub struct RateError {
    given: String,
}

impl ZeroRate {
    /// The nearest representable rate.
    ///
    /// # Errors
    /// `rate` is not in `[0, 1)`.
    pub fn new(rate: f64) -> Result<Self, RateError> {
        if (0.0..1.0).contains(&rate) { Ok(Self::nearest(rate)) } else { Err(RateError { given: rate.to_string() }) }
    }

    /// The representable rate nearest to any number; NaN gives 0.
    pub fn nearest(rate: f64) -> Self {
        Self((rate * 65536.0).round().clamp(0.0, 65535.0) as u16)
    }

    /// A rate in 65536ths, as on the wire.
    pub fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The rate in 65536ths.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The rate as a number in `[0, 1)`.
    pub fn get(self) -> f64 {
        f64::from(self.0) / 65536.0
    }
}

impl fmt::Display for ZeroRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Prints the shortest decimal that parses as this rate; five digits distinguish all 65536.
        let shortest = (0..5).map(|places| format!("{:.places$}", self.get()));
        let is_this = |text: &String| text.parse().is_ok_and(|rate: f64| rate < 1.0 && Self::nearest(rate) == *self);
        f.write_str(&shortest.into_iter().find(is_this).unwrap_or_else(|| format!("{:.5}", self.get())))
    }
}

impl FromStr for ZeroRate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        text.trim().parse().map_err(|_| RateError { given: format!("\"{text}\"") }).and_then(Self::new)
    }
}

/// Share of zeros R of each parameter group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupRates([ZeroRate; ParamGroup::ALL.len()]);

/// Consecutive values that share one rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateRun {
    pub rate: ZeroRate,
    pub len: usize,
}

impl GroupRates {
    /// The same rate for all groups, as in the papers' main experiments.
    pub fn uniform(rate: ZeroRate) -> Self {
        Self([rate; ParamGroup::ALL.len()])
    }

    /// The papers' suggestion: a high rate for the embeddings, which reveal pictures, and a low rate elsewhere.
    pub fn papers_hint() -> Self {
        let (high, low) = (ZeroRate::nearest(0.95), ZeroRate::nearest(0.2));
        Self::uniform(low).with(ParamGroup::Patch, high).with(ParamGroup::Position, high)
    }

    #[must_use]
    pub fn with(mut self, group: ParamGroup, rate: ZeroRate) -> Self {
        self.0[group as usize] = rate;
        self
    }

    pub fn get(&self, group: ParamGroup) -> ZeroRate {
        self.0[group as usize]
    }

    /// The rate, if all groups share it.
    pub fn single(&self) -> Option<ZeroRate> {
        self.0.iter().all(|rate| *rate == self.0[0]).then_some(self.0[0])
    }

    /// The same rates in `groups`; every other group gets their most frequent rate, so that strings need not name it.
    /// For editors that show only the groups of one kind of model.
    #[must_use]
    pub fn within(mut self, groups: &[ParamGroup]) -> Self {
        let rates = || groups.iter().map(|group| self.get(*group));
        let Some(most) = rates().max_by_key(|rate| rates().filter(|other| other == rate).count()) else { return self };
        for group in ParamGroup::ALL.into_iter().filter(|group| !groups.contains(group)) {
            self.0[group as usize] = most;
        }
        self
    }

    /// The rates as a phrase: `R = 0.5`, or `R = 0.2 but 0.95 for patch embedding and position embedding`.
    pub fn phrase(&self) -> String {
        let default = self.commonest();
        let mut others: Vec<(ZeroRate, Vec<&str>)> = Vec::new();
        for group in ParamGroup::ALL.into_iter().filter(|group| self.get(*group) != default) {
            let rate = self.get(group);
            match others.iter_mut().find(|(known, _)| *known == rate) {
                Some((_, titles)) => titles.push(group.title()),
                None => others.push((rate, vec![group.title()])),
            }
        }
        let others: Vec<String> =
            others.into_iter().map(|(rate, titles)| format!("{rate} for {}", titles.join(" and "))).collect();
        if others.is_empty() { format!("R = {default}") } else { format!("R = {default} but {}", others.join(", ")) }
    }

    /// The rate of most groups; in a tie, the rate of the last group.
    fn commonest(&self) -> ZeroRate {
        let frequency = |rate: &ZeroRate| self.0.iter().filter(|other| *other == rate).count();
        self.0.into_iter().max_by_key(frequency).unwrap_or(self.0[0])
    }

    /// Rates in 65536ths, in the order of [`ParamGroup::ALL`].
    pub fn bits(&self) -> [u16; ParamGroup::ALL.len()] {
        self.0.map(ZeroRate::bits)
    }

    /// Rates in 65536ths, as on the wire.
    pub fn from_bits(bits: [u16; ParamGroup::ALL.len()]) -> Self {
        Self(bits.map(ZeroRate::from_bits))
    }

    /// The layout's values in order, as runs of one rate each.
    pub fn runs(&self, layout: &ParamLayout) -> Vec<RateRun> {
        let mut runs: Vec<RateRun> = Vec::new();
        for param in layout {
            let (rate, len) = (self.get(param.group), param.range.len());
            match runs.last_mut() {
                Some(run) if run.rate == rate => run.len += len,
                _ => runs.push(RateRun { rate, len }),
            }
        }
        runs
    }
}

/// Writes the most frequent rate last and without a group, as the default.
impl fmt::Display for GroupRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = self.commonest();
        for group in ParamGroup::ALL {
            if self.get(group) != default {
                write!(f, "{}={},", group.key(), self.get(group))?;
            }
        }
        write!(f, "{default}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseRatesError {
    #[error(transparent)]
    Rate(#[from] RateError),
    #[error(transparent)]
    Group(#[from] UnknownGroup),
    #[error("\"{0}\" sets a rate that is already set")]
    Twice(String),
    #[error("no rate is given for {0}; add one for all others at the end, such as 0.2")]
    Missing(&'static str),
}

impl FromStr for GroupRates {
    type Err = ParseRatesError;

    fn from_str(text: &str) -> Result<Self, ParseRatesError> {
        let mut named = [None; ParamGroup::ALL.len()];
        let mut default = None;
        for part in text.split(',') {
            let (place, rate) = match part.split_once('=') {
                Some((group, rate)) => (&mut named[group.trim().parse::<ParamGroup>()? as usize], rate),
                None => (&mut default, part),
            };
            if place.replace(rate.parse()?).is_some() {
                return Err(ParseRatesError::Twice(part.trim().to_owned()));
            }
        }
        let rates = Self(named.map(|rate| rate.or(default).unwrap_or_default()));
        let missing = |groups: &[ParamGroup]| groups.iter().find(|group| named[**group as usize].is_none()).copied();
        // Rates for every group of one kind of model are complete; other kinds need not be named.
        match (default, missing(&ParamGroup::VIT), missing(&ParamGroup::RESNET)) {
            (Some(_), _, _) | (None, None, None) => Ok(rates),
            (None, None, Some(_)) => Ok(rates.within(&ParamGroup::VIT)),
            (None, Some(_), None) => Ok(rates.within(&ParamGroup::RESNET)),
            (None, Some(group), Some(_)) => Err(ParseRatesError::Missing(group.title())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, VitPreset};
    use proptest::prelude::*;

    #[test]
    fn default_stands_for_the_groups_not_named() {
        let rates: GroupRates = "pos=0.95, patch=0.9, 0.2".parse().unwrap();
        assert_eq!(rates.get(ParamGroup::Position), ZeroRate::new(0.95).unwrap());
        assert_eq!(rates.get(ParamGroup::Patch), ZeroRate::new(0.9).unwrap());
        assert_eq!(rates.get(ParamGroup::Head), ZeroRate::new(0.2).unwrap());
        assert_eq!(rates.to_string(), "patch=0.9,pos=0.95,0.2");
        assert_eq!(GroupRates::papers_hint().to_string(), "patch=0.95,pos=0.95,0.2");
        assert_eq!("0.5".parse::<GroupRates>().unwrap().single(), Some(ZeroRate::new(0.5).unwrap()));
        assert_eq!(rates.single(), None);
    }

    #[test]
    fn groups_out_of_sight_go_unnamed() {
        let half = GroupRates::uniform(ZeroRate::nearest(0.5));
        let low = ZeroRate::nearest(0.2);
        let edited = ParamGroup::VIT[2..].iter().fold(half, |rates, group| rates.with(*group, low));
        assert_eq!(edited.to_string(), "patch=0.5,pos=0.5,conv=0.5,0.2");
        assert_eq!(edited.within(&ParamGroup::VIT).to_string(), "patch=0.5,pos=0.5,0.2");
        assert_eq!(edited.within(&[]), edited);
        let named = |text: &str| text.parse::<GroupRates>().unwrap();
        assert_eq!(named("patch=0.9,pos=0.9,attn=0.2,mlp=0.2,norm=0.2,head=0.2").to_string(), "patch=0.9,pos=0.9,0.2");
        assert_eq!(named("conv=0.9,norm=0.2,head=0.2").to_string(), "conv=0.9,0.2");
    }

    #[test]
    fn bad_strings_name_the_part_that_is_wrong() {
        for (text, part) in [
            ("", "\"\" is not a share of zeros"),
            ("pos=2,0.2", "2 is not a share of zeros"),
            ("bias=0.1,0.2", "no parameter group \"bias\""),
            ("0.1,0.2", "\"0.2\" sets a rate that is already set"),
            ("pos=0.1,pos=0.2,0.3", "\"pos=0.2\""),
            ("pos=0.1,patch=0.2", "no rate is given for attention"),
        ] {
            let error = text.parse::<GroupRates>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn runs_tile_the_layout() {
        let layout = Architecture::from(VitPreset::Pico).layout();
        assert_eq!(GroupRates::uniform(ZeroRate::nearest(0.5)).runs(&layout).len(), 1);
        let runs = "pos=0.95,0.2".parse::<GroupRates>().unwrap().runs(&layout);
        assert_eq!(runs.len(), 3);
        assert_eq!(runs[1].len, layout.get("pos_embed").unwrap().range.len());
        assert_eq!(runs.iter().map(|run| run.len).sum::<usize>(), layout.len());
    }

    #[test]
    fn bad_rates_are_named() {
        assert_eq!(
            "1".parse::<ZeroRate>().unwrap_err().to_string(),
            "1 is not a share of zeros; give a number of at least 0 and below 1, such as 0.5"
        );
        assert!("half".parse::<ZeroRate>().unwrap_err().to_string().starts_with("\"half\""));
        assert!(ZeroRate::new(f64::NAN).is_err());
    }

    #[test]
    fn rates_are_written_as_people_gave_them() {
        for text in ["0", "0.01", "0.05", "0.2", "0.5", "0.95", "0.125", "0.99998"] {
            assert_eq!(text.parse::<ZeroRate>().unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn rates_round_trip_as_text(bits in any::<u16>()) {
            let rate = ZeroRate::from_bits(bits);
            prop_assert_eq!(rate.to_string().parse::<ZeroRate>().unwrap(), rate);
        }

        #[test]
        fn string_form_and_bits_round_trip(bits in any::<[u16; 7]>(), few in any::<[bool; 7]>()) {
            for bits in [bits, few.map(|b| if b { 13107 } else { 62259 })] {
                let rates = GroupRates::from_bits(bits);
                prop_assert_eq!(rates.to_string().parse::<GroupRates>().unwrap(), rates);
                prop_assert_eq!(GroupRates::from_bits(rates.bits()), rates);
            }
        }
    }
}
