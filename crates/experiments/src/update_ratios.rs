//! How often each parameter is updated, beside G(f).

mod distribution;

use serde::{Deserialize, Serialize};
use serde_json::json;
use unmask_simulation::{Config, Simulation};

use self::distribution::{UpdateHistogram, chi_squared_test, printed_sum};
use crate::{
    catalogue::{Experiment, Scale},
    claim::Claim,
    error::ExperimentError,
    figure::{Bars, SeriesStyle, bars},
    report::{Figure, Findings, Table, csv},
    reported,
    run::{ExperimentEvent, ExperimentRun},
    study,
};

/// Shares of zeros, as FLRSP has them, with the colours of their bars.
const RATES: [(&str, f64, usize); 3] = [("0.2", 0.2, 1), ("0.5", 0.5, 2), ("0.8", 0.8, 3)];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct CountedRun {
    defence: String,
    rate: f64,
    clients: usize,
    counts: UpdateHistogram,
    seconds: f64,
}

/// Trains with each rate and with a frozen mask, and counts.
pub(crate) fn run(run: &mut ExperimentRun<'_, '_>) -> Result<Findings, ExperimentError> {
    let seed = run.request.seed;
    let mut planned: Vec<(String, f64, usize)> =
        RATES.iter().map(|&(text, rate, colour)| (format!("random-binary:{text}"), rate, colour)).collect();
    planned.push(("frozen-binary:0.5".to_owned(), 0.5, 4));
    run.notify(ExperimentEvent::Started { parts: planned.len(), left: planned.len() })?;
    let mut all = Vec::new();
    for (defence, rate, _) in &planned {
        all.push(count(run, defence, *rate, seed)?);
    }
    findings(run, &planned, &all)
}

fn count(run: &mut ExperimentRun<'_, '_>, defence: &str, rate: f64, seed: u64) -> Result<CountedRun, ExperimentError> {
    let config = study::update_ratios(run.request.scale, seed, defence)?;
    let config = Config { threads: run.request.threads, ..config };
    let settings = Config { threads: None, ..config.clone() }.to_toml();
    let part = run.part(&defence.replace(':', "-"), seed);
    run.notify(ExperimentEvent::PartStarted { name: defence })?;
    if let Some(counted) = run.store.get(&part, &settings)? {
        run.notify(ExperimentEvent::PartFinished)?;
        return Ok(counted);
    }
    let data = run.request.load(&config.data)?;
    let mut simulation = Simulation::new(&config, &data, run.request.device)?;
    let rounds = f64::from(simulation.rounds().max(1));
    let mut seconds = 0.0;
    while simulation.round() < simulation.rounds() {
        seconds = simulation.step()?.seconds;
        let share = f64::from(simulation.round()) / rounds;
        run.notify(ExperimentEvent::Progress { share, note: "" })?;
    }
    let counts = UpdateHistogram::of(&simulation.update_counts().groups());
    let counted = CountedRun { defence: defence.to_owned(), rate, clients: config.clients, counts, seconds };
    run.store.put(&part, &settings, &counted)?;
    run.notify(ExperimentEvent::PartFinished)?;
    Ok(counted)
}

fn findings(
    run: &ExperimentRun<'_, '_>,
    planned: &[(String, f64, usize)],
    all: &[CountedRun],
) -> Result<Findings, ExperimentError> {
    let mut figures = Vec::new();
    for (counted, (defence, _, colour)) in all.iter().zip(planned) {
        let series = SeriesStyle::solid(*colour);
        let shares = Bars { series, found: counted.counts.shares(), expected: counted.counts.expected.clone() };
        figures.push(Figure {
            caption: format!(
                "{defence}: share of the parameters that were updated f times in {} rounds of {} clients. Bars are what happened, \
                 dots are G(f). Repeats {}.",
                counted.counts.rounds(),
                counted.clients,
                Experiment::UpdateRatios.repeats()
            ),
            svg: bars("updates f", "share of the parameters in %", &shares)?,
            legend: vec![(series, "found".to_owned()), (SeriesStyle::INK, "G(f)".to_owned())],
        });
    }
    let (rounds, clients) = all.first().map_or((0, 0), |counted| (counted.counts.rounds(), counted.clients));
    Ok(Findings {
        seeds: 1,
        seconds: all.iter().map(|counted| counted.seconds).sum(),
        lead: format!(
            "{clients} clients train for {rounds} rounds under masks of their own; the server notes of each parameter whether \
             anybody sent it. G(f) = C(M,f) (1-R^N)^f (R^N)^(M-f) is how often f updates in M rounds are to be expected with N \
             clients. Under a frozen mask a parameter is updated always or never."
        ),
        claims: all.iter().map(claim).collect(),
        figures,
        tables: vec![table(all)],
        notes: vec![
            misprint(all),
            "UpdateHistogram are tested, not looked at: a chi-squared test at the 1 % level, so that one true G(f) in a hundred would be \
             rejected."
                .to_owned(),
        ],
        cost: (run.request.scale == Scale::Small)
            .then(|| "The counts depend on R, N and M alone, not on the model; a larger one has only more of them.".to_owned()),
        commands: Vec::new(),
        records: records(all)?,
        results: json!({ "counts": all }),
        curve: None,
    })
}

/// A frozen mask has nothing random over the rounds left: each count must be 0 or M.
fn claim(counted: &CountedRun) -> Claim {
    let CountedRun { defence, counts, rate, .. } = counted;
    if defence.starts_with("frozen") {
        let rounds = counts.rounds();
        let between: u64 = counts.histogram.get(1..rounds).unwrap_or_default().iter().sum();
        let never = counts.shares()[0];
        return Claim::decided(
            format!("under {defence} each parameter is updated in every round or never, a share of R never"),
            format!("under {defence} {:.2} % are never updated, {between} parameters now and then", 100.0 * never),
            between == 0 && (never - rate).abs() < 0.01,
        );
    }
    let test = chi_squared_test(counts);
    Claim::decided(
        format!("under {defence} updates are distributed as G(f)"),
        format!(
            "under {defence} chi-squared is {:.1}, and 99 of 100 samples of G(f) stay below {:.1}",
            test.statistic, test.limit
        ),
        test.statistic <= test.limit,
    )
}

fn misprint(all: &[CountedRun]) -> String {
    let sums: Vec<String> = all
        .iter()
        .filter(|counted| counted.defence.starts_with("random"))
        .map(|counted| {
            format!(
                "{:.3e} at R = {}",
                printed_sum(counted.counts.rounds(), counted.clients, counted.rate),
                counted.rate
            )
        })
        .collect();
    format!(
        "RBW Eq. 13 and FLRSP Eq. 16 print the exponent of R as N(1-f) in place of N(M-f). Printed so, the G(f) of all f add up to \
         {}, and not to 1.",
        sums.join(", ")
    )
}

fn table(all: &[CountedRun]) -> Table {
    let columns = ["", "never updated, in %", "expected, in %", "mean number of updates", "expected", "reported"];
    let row = |counted: &CountedRun| {
        let counts = &counted.counts;
        let mean = |shares: &[f64]| shares.iter().enumerate().map(|(f, share)| f as f64 * share).sum::<f64>();
        vec![
            counted.defence.clone(),
            format!("{:.3}", 100.0 * counts.shares()[0]),
            format!("{:.3}", 100.0 * counts.expected[0]),
            format!("{:.3}", mean(&counts.shares())),
            format!("{:.3}", mean(&counts.expected)),
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
    let rows = all.iter().flat_map(|CountedRun { defence, counts, .. }| {
        let bins = counts.histogram.iter().zip(&counts.expected).enumerate();
        bins.map(move |(f, (found, expected))| (defence, f, found, expected))
    });
    csv(&["defence", "updates", "parameters", "expected_share"], rows)
}
