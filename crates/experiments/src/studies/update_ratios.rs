//! How often each parameter is updated, compared with G(f).

mod distribution;

use serde::{Deserialize, Serialize};
use serde_json::json;
use unmask_core::ParamGroup;
use unmask_data::datasets::DataSet;
use unmask_simulation::{Config, ConfigError, Simulation};

use self::distribution::{UpdateHistogram, chi_squared_test, printed_sum};
use super::settings::TINY_VIT;
use crate::{
    catalogue::{About, Scale},
    claim::{Condition, Ground, Measured, Measurements, Term, judged},
    defences::{ComparedDefence, R08, UPDATED, as_written},
    error::ExperimentError,
    figure::{Bars, SeriesStyle, bars},
    metric::Metric,
    plan::Changes,
    report::{Figure, Findings, Table, csv},
    reported,
    request::ExperimentRequest,
    run::{ExperimentEvent, ExperimentRun},
    store,
    study::{Study, describe_training},
};

pub(super) static STUDY: UpdateRatios = UpdateRatios {
    about: About {
        name: "update-ratios",
        title: "How often each parameter is updated",
        repeats: "RBW Fig. 6, FLRSP Fig. 13",
        question: "Is every parameter updated as often as G(f) says?",
        takes_weights: false,
        adds_cifar10: false,
        metrics: &[
            Metric::Updates,
            Metric::Never,
            Metric::NeverPosition,
            Metric::Always,
            Metric::Misfit,
            Metric::PrintedSum,
        ],
    },
};

const CHANGES: Changes = Changes { tiny: TINY_VIT, quick: &[], paper: &[] };

pub(super) struct UpdateRatios {
    about: About,
}

impl Study for UpdateRatios {
    fn about(&self) -> &About {
        &self.about
    }

    fn cases(&self) -> Vec<String> {
        all_cases().iter().map(|case| case.key.to_owned()).collect()
    }

    fn describe(&self, request: &ExperimentRequest<'_>) -> Result<Option<String>, ConfigError> {
        let config = config(request.scale, request.seed, "none", &[])?;
        Ok(Some(format!("trainings of {}", describe_training(&config, request.scale))))
    }

    fn run(&self, run: &mut ExperimentRun<'_, '_>) -> Result<Option<Findings>, ExperimentError> {
        let cases = all_cases();
        run.plan(cases.iter().map(|case| store::file(&run.file(case.key, run.request.seed))))?;
        let taken: Vec<CountedCase> =
            cases.into_iter().enumerate().filter(|(position, _)| run.takes(*position)).map(|(_, case)| case).collect();
        run.notify(ExperimentEvent::Started { cases: taken.len(), left: taken.len() })?;
        let mut all = Vec::new();
        let mut data = None;
        for case in &taken {
            all.push(count(run, case, &mut data)?);
        }
        if run.is_part() { Ok(None) } else { findings(run, &all).map(Some) }
    }
}

/// The config under `defence` and with these changes.
fn config(scale: Scale, seed: u64, defence: &str, also: &[&str]) -> Result<Config, ConfigError> {
    let own = vec![format!("defence={defence}"), format!("seed={seed}")];
    let also = also.iter().map(|&set| set.to_owned()).collect();
    Config::read(include_str!("../../configs/update-ratios.toml"), &[CHANGES.at(scale), own, also].concat())
}

#[derive(Debug, Clone, Copy)]
struct CountedCase {
    /// Name in formulas.
    key: &'static str,
    /// Name in captions.
    name: &'static str,
    defence: ComparedDefence,
    /// `KEY=VALUE` overrides in addition to the defence.
    set: &'static [&'static str],
}

impl CountedCase {
    const fn under(defence: ComparedDefence) -> Self {
        Self { key: defence.key, name: defence.name, defence, set: &[] }
    }
}

/// The papers' cases, and R = 0.8 with more rounds or clients.
fn all_cases() -> Vec<CountedCase> {
    let more = [
        CountedCase {
            key: "r0.8-20-rounds",
            name: "random binary, R = 0.8, 20 rounds",
            set: &["rounds=20"],
            ..CountedCase::under(R08)
        },
        CountedCase {
            key: "r0.8-10-clients",
            name: "random binary, R = 0.8, 10 clients",
            set: &["clients=10"],
            ..CountedCase::under(R08)
        },
    ];
    UPDATED.into_iter().map(CountedCase::under).chain(more).collect()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct CountedRun {
    case: String,
    /// Form on the command line.
    defence: String,
    /// R of a mask.
    rate: Option<f64>,
    clients: usize,
    counts: UpdateHistogram,
    /// Share of the position embedding's parameters that were never updated.
    never_position: Option<f64>,
    seconds: f64,
}

/// Loads `data` on first use and shares it between the cases, because drawing the shapes takes longer than a short
/// training.
fn count(
    run: &mut ExperimentRun<'_, '_>,
    case: &CountedCase,
    data: &mut Option<DataSet>,
) -> Result<CountedRun, ExperimentError> {
    let seed = run.request.seed;
    let CountedCase { key, name, defence, set } = *case;
    let config = config(run.request.scale, seed, defence.defence, set)?;
    let config = Config { threads: run.request.threads, ..config };
    let settings = Config { threads: None, ..config.clone() }.to_toml();
    let file = run.file(key, seed);
    run.notify(ExperimentEvent::CaseStarted { name })?;
    if let Some(counted) = run.store.get(&file, &settings)? {
        run.notify(ExperimentEvent::CaseFinished)?;
        return Ok(counted);
    }
    run.check_due(&file)?;
    let data = match &mut *data {
        Some(data) => data,
        None => data.insert(run.request.load(&config.data)?),
    };
    let mut simulation = Simulation::new(&config, data, run.request.device)?;
    let rounds = f64::from(simulation.rounds().max(1));
    let mut seconds = 0.0;
    while simulation.round() < simulation.rounds() {
        seconds = simulation.step()?.seconds;
        let share = f64::from(simulation.round()) / rounds;
        run.notify(ExperimentEvent::Progress { share, note: "" })?;
    }
    let groups = simulation.update_counts().groups();
    let position = groups.iter().find(|group| group.group == ParamGroup::Position && group.parameters > 0);
    let counted = CountedRun {
        case: key.to_owned(),
        defence: defence.defence.to_owned(),
        rate: defence.parsed()?.rates().and_then(|rates| rates.single()).map(as_written),
        clients: config.clients,
        counts: UpdateHistogram::of(&groups),
        never_position: position.map(|group| f64::from(group.histogram[0]) / group.parameters as f64),
        seconds,
    };
    run.store.put(&file, &settings, &counted)?;
    run.notify(ExperimentEvent::CaseFinished)?;
    Ok(counted)
}

fn findings(run: &ExperimentRun<'_, '_>, all: &[CountedRun]) -> Result<Findings, ExperimentError> {
    let mut figures = Vec::new();
    for (counted, case) in all.iter().zip(all_cases()) {
        let series = SeriesStyle::solid(case.defence.colour);
        let shares = Bars { series, found: counted.counts.shares(), expected: counted.counts.expected.clone() };
        figures.push(Figure {
            caption: format!(
                "{}: share of the parameters that were updated f times in {} rounds of {} clients. Bars show the counts, \
                 dots the expectation, which is G(f) under masks. Repeats {}.",
                case.name,
                counted.counts.rounds(),
                counted.clients,
                run.request.experiment.repeats()
            ),
            svg: bars("updates f", "share of the parameters in %", &shares)?,
            legend: vec![(series, "found".to_owned()), (SeriesStyle::INK, "expected".to_owned())],
        });
    }
    let (rounds, clients) = all.first().map_or((0, 0), |counted| (counted.counts.rounds(), counted.clients));
    Ok(Findings {
        seeds: 1,
        seconds: all.iter().map(|counted| counted.seconds).sum(),
        lead: format!(
            "Unless stated otherwise, {clients} clients train for {rounds} rounds under each defence. The server records for each parameter \
             whether any client sent it. G(f) = C(M,f) (1-R^N)^f (R^N)^(M-f) is the expected share of parameters with f updates in M \
             rounds with N clients. Under a frozen mask a parameter is updated always or never."
        ),
        claims: judged(run.request.experiment, &CountMeasurements(all))?,
        figures,
        tables: vec![table(all)],
        notes: vec![
            misprint(all),
            "The numbers of updates are tested statistically: the misfit is chi-squared divided by the limit that 99 of 100 samples of G(f) \
             do not exceed, so one true G(f) in a hundred would be rejected."
                .to_owned(),
        ],
        cost: (run.request.scale != Scale::Tiny)
            .then(|| "The counts depend only on R, N and M, not on the model; a larger model only has more of them.".to_owned()),
        commands: Vec::new(),
        records: records(all)?,
        results: json!({ "counts": all }),
        curve: None,
    })
}

/// The counts, for formulas. They cover all parameters, so only [`Metric::Misfit`] tests a hypothesis.
struct CountMeasurements<'a>(&'a [CountedRun]);

impl CountedRun {
    fn value(&self, metric: &Metric) -> Option<f64> {
        let shares = self.counts.shares();
        match metric {
            Metric::Updates => Some(mean_updates(&shares)),
            Metric::Never => shares.first().map(|share| 100.0 * share),
            Metric::NeverPosition => self.never_position.map(|share| 100.0 * share),
            Metric::Always => shares.last().map(|share| 100.0 * share),
            Metric::Misfit => {
                let test = chi_squared_test(&self.counts);
                Some(test.statistic / test.limit)
            }
            Metric::PrintedSum => Some(printed_sum(self.counts.rounds(), self.clients, self.rate?)),
            _ => None,
        }
    }
}

impl Measurements for CountMeasurements<'_> {
    fn measure(&self, left: &Term, right: Option<&Term>) -> Result<Measured, String> {
        let value = |term: &Term| {
            let counted = self.0.iter().find(|counted| counted.case == term.case);
            counted.and_then(|counted| counted.value(&term.metric)).ok_or_else(|| format!("{term} was not counted"))
        };
        let right = right.map(value).transpose()?;
        let parameters: u64 = self.0.first().map_or(0, |counted| counted.counts.histogram.iter().sum());
        Ok(Measured::exact(value(left)? - right.unwrap_or(0.0), format!("{parameters} parameters")))
    }

    fn ground(&self, _: &Condition) -> Ground {
        Ground::Given
    }
}

/// The mean of f, where `shares[f]` parameters were updated f times.
fn mean_updates(shares: &[f64]) -> f64 {
    shares.iter().enumerate().map(|(f, share)| f as f64 * share).sum()
}

fn misprint(all: &[CountedRun]) -> String {
    let sums: Vec<String> = all
        .iter()
        .filter(|counted| ["r0.2", "r0.5", "r0.8"].contains(&counted.case.as_str()))
        .filter_map(|counted| Some((counted, counted.rate?)))
        .map(|(counted, rate)| {
            format!("{:.3e} at R = {rate}", printed_sum(counted.counts.rounds(), counted.clients, rate))
        })
        .collect();
    format!(
        "RBW Eq. 13 and FLRSP Eq. 16 print the exponent of R as N(1-f) in place of N(M-f). In this form the sum of G(f) over all f is \
         {}, not 1.",
        sums.join(", ")
    )
}

fn table(all: &[CountedRun]) -> Table {
    let columns = ["", "never updated, in %", "expected, in %", "mean number of updates", "expected", "reported"];
    let row = |counted: &CountedRun| {
        let counts = &counted.counts;
        vec![
            counted.case.clone(),
            format!("{:.3}", 100.0 * counts.shares()[0]),
            format!("{:.3}", 100.0 * counts.expected[0]),
            format!("{:.3}", mean_updates(&counts.shares())),
            format!("{:.3}", mean_updates(&counts.expected)),
            reported::UNKNOWN.to_owned(),
        ]
    };
    Table {
        caption: "How often a parameter is updated".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: all.iter().map(row).collect(),
    }
}

fn records(all: &[CountedRun]) -> Result<Vec<u8>, ExperimentError> {
    let rows = all.iter().flat_map(|CountedRun { case, counts, .. }| {
        let bins = counts.histogram.iter().zip(&counts.expected).enumerate();
        bins.map(move |(f, (found, expected))| (case, f, found, expected))
    });
    csv(&["case", "updates", "parameters", "expected_share"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Claim, Finding};

    /// Ten rounds of five clients with the counts in `histogram`.
    fn counted(case: &CountedCase, histogram: [u64; 11], never_position: f64) -> CountedRun {
        let rate = case.defence.parsed().unwrap().rates().and_then(|rates| rates.single()).map(as_written);
        let missed = rate.unwrap_or(0.0).powi(5);
        let mut choose = 1.0;
        let expected = (0..=10).map(|f| {
            let term = choose * (1.0 - missed).powi(f) * missed.powi(10 - f);
            choose *= f64::from(10 - f) / f64::from(f + 1);
            term
        });
        CountedRun {
            case: case.key.to_owned(),
            defence: case.defence.defence.to_owned(),
            rate,
            clients: 5,
            counts: UpdateHistogram { histogram: histogram.to_vec(), expected: expected.collect() },
            never_position: Some(never_position),
            seconds: 0.0,
        }
    }

    fn judge(counts: &[CountedRun], id: &str) -> Claim {
        let claims = judged("update-ratios".parse().unwrap(), &CountMeasurements(counts)).unwrap();
        claims.into_iter().find(|claim| claim.id == id).unwrap()
    }

    /// 100000 parameters. Without a mask, every round updates all of them, except the hundred of a fixed position
    /// embedding. Masks follow G(f), rounded. Frozen masks never update a share of R.
    fn as_the_papers_say() -> Vec<CountedRun> {
        let all = |never: u64| {
            std::array::from_fn(|f| {
                if f == 0 {
                    never
                } else if f == 10 {
                    100_000 - never
                } else {
                    0
                }
            })
        };
        let masked = |case: &CountedCase| {
            let expected = counted(case, [0; 11], 0.0).counts.expected;
            let histogram = std::array::from_fn(|f| (1e5 * expected[f]).round() as u64);
            counted(case, histogram, 0.0)
        };
        let count = |case: &CountedCase| match case.key {
            "none" => counted(case, all(0), 0.0),
            "fixed" => counted(case, all(100), 1.0),
            "f0.2" => counted(case, all(20_100), 0.2),
            "f0.5" => counted(case, all(50_100), 0.5),
            "f0.8" => counted(case, all(79_900), 0.8),
            // More updates than "r0.8": here every round updates all parameters.
            "r0.8-20-rounds" | "r0.8-10-clients" => counted(case, all(0), 0.0),
            _ => masked(case),
        };
        all_cases().iter().map(count).collect()
    }

    #[test]
    fn counts_as_the_papers_have_them_confirm_all_but_the_misprints() {
        let claims = judged("update-ratios".parse().unwrap(), &CountMeasurements(&as_the_papers_say())).unwrap();
        for claim in claims {
            let expected = if claim.id.ends_with("printed-formula") { Finding::Differs } else { Finding::Agrees };
            assert_eq!(claim.finding, expected, "{claim:?}");
        }
    }

    #[test]
    fn counts_that_do_not_fit_refute() {
        let mut counts = as_the_papers_say();
        for counted in &mut counts {
            if counted.case == "r0.8" {
                (counted.counts.histogram[10], counted.counts.histogram[0]) = (0, 50_000);
            }
        }
        assert_eq!(judge(&counts, "flrsp-update-counts-are-binomial").finding, Finding::Differs);
        assert_eq!(judge(&counts[..2], "flrsp-update-counts-are-binomial").finding, Finding::Open);
    }
}
