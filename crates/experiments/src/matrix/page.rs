//! `matrix.html`: one page with embedded pictures.

use maud::{Markup, html};
use unmask_core::{AttackMethod, Defence, ThreatModel, Verdict};
use unmask_data::metrics::RECOGNISABLE_FROM;
use unmask_html::{page, picture};
use unmask_inversion::InferenceAttack;

use super::{
    ExperimentError, Interval, MatrixMean, MatrixRow, MatrixSettings, PAGE,
    means::means,
    plan::{MatrixPlan, truth_file},
    rows::Rows,
};

const STYLE: &str = include_str!("page.css");

pub(super) fn write(files: &Rows, plan: &MatrixPlan, rows: &[MatrixRow]) -> Result<(), ExperimentError> {
    files.write(PAGE, html(plan, rows, &|name| files.picture(name))?.as_bytes())
}

/// Returns a picture file's contents, by name.
type Pictures<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, ExperimentError>;

fn html(plan: &MatrixPlan, rows: &[MatrixRow], pictures: Pictures<'_>) -> Result<String, ExperimentError> {
    let settings = plan.settings();
    let (planned, count) = (plan.cells().count(), plan.batches.len());
    let means = means(settings, rows);
    let means = |threat| {
        table(settings, |attack, defence| {
            let sought = (threat, attack, defence);
            let mean = means.iter().find(|mean| (mean.threat, mean.attack, mean.defence) == sought);
            let why = rows.iter().filter(|row| (row.threat, row.attack, row.defence) == sought);
            let why = why.filter_map(|row| row.verdict.because()).next();
            Ok(mean.map_or_else(missing, |mean| summary(mean, why)))
        })
    };
    let body = html! {
        h1 { "What each attack sees under each defence" }
        p.sub { (conditions(plan)) }
        @if rows.len() < planned {
            p.warning { (rows.len()) " of " (planned) " rows are there; the same command computes the others." }
        }
        p.key {
            span.recognisable { "SSIM of " (RECOGNISABLE_FROM) " or more: recognisable" } " "
            span.not-recognisable { "below: not recognisable by this attack; another may see more" } " "
            span.cannot-tell { "cannot tell: the attack has nothing to work on, or did not come to its end" }
        }
        h2 {
            "Mean SSIM over " (count) " " (what(settings)) @if count != 1 { "s" }
            @if settings.seeds > 1 { " and " (settings.seeds) " seeds" }
        }
        @if settings.seeds > 1 {
            p.sub {
                "± is the 95 % interval of the mean by Student's t over the seeds, for these pictures. Below, each picture shows \
                 the row of seed " (settings.seed) "."
            }
        }
        @for &threat in &settings.threats {
            (heading(settings, threat))
            (means(threat)?)
        }
        @for (number, batch) in plan.batches.iter().enumerate() {
            h2 { (batch.name) }
            p.truth {
                @for index in 0..settings.pictures() {
                    (picture(&format!("{} as the model sees it", batch.name), &pictures(&truth_file(number, index))?))
                }
                span { "What must not be seen." }
            }
            @for &threat in &settings.threats {
                (heading(settings, threat))
                (table(settings, |attack, defence| {
                    let sought = (threat, attack, defence, settings.seed);
                    let is_here = |row: &&MatrixRow| {
                        (row.threat, row.attack, row.defence, row.seed) == sought && row.image == batch.name
                    };
                    rows.iter().find(is_here).map_or_else(|| Ok(missing()), |row| cell(row, pictures))
                })?)
            }
        }
    };
    Ok(page(&format!("Attacks and defences on {}", settings.model), STYLE, &body))
}

/// The heading of a threat model's table, unless the relay is only honest.
fn heading(settings: &MatrixSettings, threat: ThreatModel) -> Markup {
    let is_alone = settings.threats == [ThreatModel::Honest];
    html! { @if !is_alone { h3 { (threat.title()) ": " (threat.sends().name()) } } }
}

/// What a row is about: a picture, or what arrives of several.
fn what(settings: &MatrixSettings) -> &'static str {
    match (settings.batch, settings.sum) {
        (1, 1) => "picture",
        (_, 1) => "update",
        _ => "sum",
    }
}

fn conditions(plan: &MatrixPlan) -> String {
    let MatrixSettings { model, attacks, seed, seeds, rule, rounds, rate, batch, sum, iterations, .. } =
        plan.settings();
    let weights = if plan.run.start.is_some() { "weights of its own" } else { "its initial weights" };
    let block = if model.april_block() { " with the April block" } else { "" };
    let steps = iterations.map_or(String::new(), |iterations| format!(", {iterations} steps of each search"));
    let collects = attacks.contains(&InferenceAttack::Reconstruction(AttackMethod::Rounds));
    let round = if *rounds == 1 || !collects {
        "one round".to_owned()
    } else {
        format!("{rounds} rounds at a server's rate of {rate}")
    };
    let pictures = if *batch == 1 { "one picture".to_owned() } else { format!("{batch} pictures") };
    let update = if *sum == 1 { "an update".to_owned() } else { format!("each of {sum} updates, which are averaged") };
    let seeds = if *seeds == 1 { format!("seed {seed}") } else { format!("{seeds} seeds from {seed} on") };
    format!("{model}{block} at {weights}, {rule}, {pictures} in {update}, {round}, {seeds}{steps}.")
}

/// A table of attacks (rows) by defences (columns).
fn table(
    settings: &MatrixSettings,
    mut cell: impl FnMut(InferenceAttack, Defence) -> Result<Markup, ExperimentError>,
) -> Result<Markup, ExperimentError> {
    let columns: Vec<String> =
        std::iter::once(String::new()).chain(settings.defences.iter().map(Defence::to_string)).collect();
    let rows = html! {
        @for &attack in &settings.attacks {
            tr {
                th scope="row" { (attack.title()) small { (attack) } }
                @for &defence in &settings.defences { (cell(attack, defence)?) }
            }
        }
    };
    Ok(unmask_html::table(&columns, &rows))
}

fn missing() -> Markup {
    html! { td.missing { "not yet computed" } }
}

/// The mean of an attack under a defence, over pictures and seeds. `why` is the reason of a verdict that cannot be
/// told.
fn summary(mean: &MatrixMean, why: Option<&str>) -> Markup {
    let &MatrixMean { recognisable, not_recognisable_by_this_attack, cannot_tell, .. } = mean;
    let all = recognisable + not_recognisable_by_this_attack + cannot_tell;
    if all == 0 {
        return missing();
    }
    let class = if 2 * recognisable >= all {
        class(&Verdict::Recognisable)
    } else if 2 * cannot_tell >= all {
        class(&Verdict::CannotTell(String::new()))
    } else {
        class(&Verdict::NotRecognisableByThisAttack)
    };
    html! {
        td class=(class) title=[why] {
            @if let Some(Interval { mean, half_width, .. }) = mean.ssim {
                (gauge(mean))
                @if let Some(half) = half_width { small { "± " (format_args!("{half:.2}")) } }
            }
            @if cannot_tell == all && mean.ssim.is_none() {
                "cannot tell"
            } @else {
                small { (recognisable) " of " (all) @if mean.ssim.is_some() { " recognisable" } @else { " right" } }
                @if cannot_tell > 0 { small { (cannot_tell) " cannot be told" } }
            }
        }
    }
}

fn class(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Recognisable => "recognisable",
        Verdict::NotRecognisableByThisAttack => "not-recognisable",
        Verdict::CannotTell(_) => "cannot-tell",
    }
}

fn cell(row: &MatrixRow, pictures: Pictures<'_>) -> Result<Markup, ExperimentError> {
    Ok(html! {
        td class=(class(&row.verdict)) {
            @for name in &row.pictures {
                (picture(&format!("{} reconstructed by {} under {}", row.image, row.attack, row.defence), &pictures(name)?))
            }
            @if let Some(ssim) = row.ssim { (gauge(ssim)) }
            small {
                (row.verdict)
                @if let Some(psnr) = row.psnr { ", " (format_args!("{psnr:.1}")) " dB" }
                @if let Some(misfit) = row.misfit { ", leaves " (format_args!("{:.1}", 100.0 * misfit)) " % unexplained" }
                @if row.seconds > 0.0 { ", " (format_args!("{:.1}", row.seconds)) " s" }
            }
            @if let Some(reason) = &row.reason { small.reason { (reason) } }
        }
    })
}

/// A number, and a bar with a mark where pictures become recognisable.
fn gauge(ssim: f64) -> Markup {
    let percent = |share: f64| format!("{:.0}%", 100.0 * share);
    html! {
        b { (format_args!("{ssim:.2}")) }
        span.gauge {
            i style={ "width:" (percent(ssim.clamp(0.0, 1.0))) } {}
            s style={ "left:" (percent(RECOGNISABLE_FROM)) } {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::plan::tests::{plan, settings};
    use base64::{Engine, engine::general_purpose::STANDARD};

    fn page(name: &str, rows: &[MatrixRow]) -> String {
        let plan = plan(&settings("embedding,label", "none;fixed-position"), &[name]).unwrap();
        html(&plan, rows, &|file| Ok(file.as_bytes().to_vec())).unwrap()
    }

    fn row(name: &str) -> MatrixRow {
        MatrixRow {
            attack: "embedding".parse().unwrap(),
            defence: Defence::None,
            threat: ThreatModel::Honest,
            image: name.to_owned(),
            seed: 1,
            verdict: Verdict::Recognisable,
            has_nothing_to_solve: false,
            reason: Some("a <b> & \"c\"".to_owned()),
            psnr: Some(31.25),
            ssim: Some(0.75),
            misfit: Some(0.001),
            seconds: 0.1,
            iterations: None,
            pictures: vec!["x.png".to_owned()],
        }
    }

    #[test]
    fn the_page_says_what_arrives_of_how_many() {
        let shown = |attacks: &str, batch: usize, sum: usize| {
            let settings = MatrixSettings { batch, sum, rounds: 5, ..settings(attacks, "none") };
            let names: Vec<String> = (0..batch * sum).map(|number| number.to_string()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let plan = plan(&settings, &names).unwrap();
            html(&plan, &[], &|file| Ok(file.as_bytes().to_vec())).unwrap()
        };
        let single = shown("embedding", 1, 1);
        assert!(
            single.contains("one picture in an update, one round") && single.contains("over 1 picture"),
            "{single}"
        );
        let batch = shown("rounds", 2, 1);
        assert!(batch.contains("2 pictures in an update, 5 rounds") && batch.contains("over 1 update"), "{batch}");
        let sum = shown("embedding", 1, 3);
        assert!(sum.contains("one picture in each of 3 updates, which are averaged"), "{sum}");
        assert!(sum.contains("over 1 sum"), "{sum}");
    }

    #[test]
    fn strange_names_stay_text() {
        let name = "<script>alert('x')</script>\"&";
        let page = page(name, &[row(name)]);
        assert!(
            !page.contains("<script") && page.contains("&lt;script&gt;alert('x')&lt;/script&gt;&quot;&amp;"),
            "{page}"
        );
        assert!(page.contains("a &lt;b&gt; &amp; &quot;c&quot;"), "{page}");
    }

    #[test]
    fn the_page_holds_its_pictures_and_says_what_is_missing() {
        let page = page("cat", &[row("cat")]);
        assert!(page.contains(&format!("data:image/png;base64,{}", STANDARD.encode("x.png"))));
        assert!(page.contains(&STANDARD.encode(truth_file(0, 0))));
        assert!(page.contains(unmask_html::POLICY), "{page}");
        assert!(!page.contains("src=\"http") && !page.contains("href="), "nothing is loaded from elsewhere");
        assert!(page.contains("1 of 4 rows are there") && page.contains("not yet computed"));
        assert!(page.contains("<b>0.75</b>") && page.contains("31.2 dB, leaves 0.1 % unexplained"));
        assert!(!page.contains("protected"), "one attacker cannot tell");
        assert_eq!(page.matches("<tr>").count(), 2 * 3, "a head and two attacks, in the summary and for the picture");
    }
}
