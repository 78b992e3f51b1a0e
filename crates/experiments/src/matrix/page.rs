//! `matrix.html`: one page that holds its pictures.

use base64::{Engine, engine::general_purpose::STANDARD};
use maud::{Markup, html};
use unmask_core::Defence;
use unmask_data::metrics::PROTECTED_BELOW;

use super::{
    ExperimentError, MatrixRow, MatrixSettings,
    plan::{MatrixPlan, truth_file},
    rows::Rows,
};
use crate::{
    page, {AttackVerdict, InferenceAttack},
};

const STYLE: &str = include_str!("page.css");

pub(super) fn write(files: &Rows, plan: &MatrixPlan, rows: &[MatrixRow]) -> Result<(), ExperimentError> {
    let picture = |name: &str| Ok(STANDARD.encode(files.picture(name)?));
    files.write("matrix.html", html(plan, rows, &picture)?.as_bytes())
}

/// Base64 of a picture's file by its name.
type Pictures<'a> = &'a dyn Fn(&str) -> Result<String, ExperimentError>;

fn html(plan: &MatrixPlan, rows: &[MatrixRow], pictures: Pictures<'_>) -> Result<String, ExperimentError> {
    let settings = plan.settings();
    let (planned, count) = (plan.cells().count(), plan.batches.len());
    let means = table(settings, |attack, defence| {
        let found: Vec<&MatrixRow> = rows.iter().filter(|row| row.attack == attack && row.defence == defence).collect();
        Ok(summary(&found))
    })?;
    let body = html! {
        h1 { "What each attack sees under each defence" }
        p.sub { (conditions(settings)) }
        @if rows.len() < planned {
            p.warning { (rows.len()) " of " (planned) " rows are there; the same command computes the others." }
        }
        p.key {
            span.recognisable { "SSIM of " (PROTECTED_BELOW) " or more: recognisable" } " "
            span.protected { "below: not recognisable for this attacker" } " "
            span.cannot { "the attack has nothing to work on" }
        }
        h2 { "Mean SSIM over " (count) " picture" @if count != 1 { "s" } }
        (means)
        @for (number, batch) in plan.batches.iter().enumerate() {
            h2 { (batch.name) }
            p.truth {
                @for index in 0..batch.truths.len() {
                    (image(&format!("{} as the model sees it", batch.name), &pictures(&truth_file(number, index))?))
                }
                span { "What must not be seen." }
            }
            (table(settings, |attack, defence| {
                let is_here = |row: &&MatrixRow| row.attack == attack && row.defence == defence && row.image == batch.name;
                rows.iter().find(is_here).map_or_else(|| Ok(missing()), |row| cell(row, pictures))
            })?)
        }
    };
    Ok(page::page(&format!("Attacks and defences on {}", settings.model), STYLE, &body))
}

/// Under what the rows were computed, in a sentence.
fn conditions(settings: &MatrixSettings) -> String {
    let MatrixSettings { model, seed, rule, rounds, rate, batch, iterations, .. } = settings;
    let block = if model.april_block() { " with the April block" } else { "" };
    let steps = iterations.map_or(String::new(), |iterations| format!(", {iterations} steps of each search"));
    let round =
        if *rounds == 1 { "one round".to_owned() } else { format!("{rounds} rounds at a server's rate of {rate}") };
    let pictures = if *batch == 1 { "one picture".to_owned() } else { format!("{batch} pictures") };
    format!("{model}{block} at its initial weights, {rule}, {pictures} in an update, {round}, seed {seed}{steps}.")
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
    Ok(page::table(&columns, &rows))
}

fn missing() -> Markup {
    html! { td.missing { "not yet computed" } }
}

/// `data` is a PNG file in base64.
fn image(alt: &str, data: &str) -> Markup {
    html! { img alt=(alt) src={ "data:image/png;base64," (data) }; }
}

/// The mean of an attack under a defence, over the pictures.
fn summary(rows: &[&MatrixRow]) -> Markup {
    let scores: Vec<f64> = rows.iter().filter_map(|row| row.ssim).collect();
    let seen = rows.iter().filter(|row| row.verdict == AttackVerdict::Recognisable).count();
    let all = rows.len();
    if rows.is_empty() {
        missing()
    } else if rows.iter().all(|row| row.verdict == AttackVerdict::Cannot) {
        html! { td.cannot title=[rows[0].reason.as_deref()] { "cannot" } }
    } else if scores.is_empty() {
        let class = if 2 * seen >= all { "recognisable" } else { "protected" };
        html! { td class=(class) { b { (seen) " of " (all) " right" } } }
    } else {
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        html! { td class=(AttackVerdict::of(mean).name()) { (gauge(mean)) small { (seen) " of " (all) " recognisable" } } }
    }
}

fn cell(row: &MatrixRow, pictures: Pictures<'_>) -> Result<Markup, ExperimentError> {
    let word = match row.verdict {
        AttackVerdict::Recognisable => "recognisable",
        AttackVerdict::Protected => "not recognisable",
        AttackVerdict::Cannot => "cannot",
    };
    Ok(html! {
        td class=(row.verdict.name()) {
            @for name in &row.pictures {
                (image(&format!("{} reconstructed by {} under {}", row.image, row.attack, row.defence), &pictures(name)?))
            }
            @if let Some(ssim) = row.ssim { (gauge(ssim)) }
            small {
                (word)
                @if let Some(psnr) = row.psnr { ", " (format_args!("{psnr:.1}")) " dB" }
                @if row.seconds > 0.0 { ", " (format_args!("{:.1}", row.seconds)) " s" }
            }
            @if let Some(reason) = &row.reason { small.reason { (reason) } }
        }
    })
}

/// A number, and a bar with a line where pictures begin to be recognisable.
fn gauge(ssim: f64) -> Markup {
    let percent = |share: f64| format!("{:.0}%", 100.0 * share);
    html! {
        b { (format_args!("{ssim:.2}")) }
        span.gauge {
            i style={ "width:" (percent(ssim.clamp(0.0, 1.0))) } {}
            s style={ "left:" (percent(PROTECTED_BELOW)) } {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::plan::tests::{pictures, settings};

    fn page(name: &str, rows: &[MatrixRow]) -> String {
        let plan = MatrixPlan::new(&settings("embedding,label", "none;fixed-position"), &pictures(&[name])).unwrap();
        html(&plan, rows, &|file| Ok(STANDARD.encode(file))).unwrap()
    }

    fn row(name: &str) -> MatrixRow {
        MatrixRow {
            attack: "embedding".parse().unwrap(),
            defence: Defence::None,
            image: name.to_owned(),
            verdict: AttackVerdict::Recognisable,
            reason: Some("a <b> & \"c\"".to_owned()),
            psnr: Some(31.25),
            ssim: Some(0.75),
            seconds: 0.1,
            iterations: None,
            pictures: vec!["x.png".to_owned()],
        }
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
        assert!(!page.contains("src=\"http") && !page.contains("href="), "nothing is loaded from elsewhere");
        assert!(page.contains("1 of 4 rows are there") && page.contains("not yet computed"));
        assert!(page.contains("<b>0.75</b>") && page.contains("31.2 dB"));
        assert_eq!(page.matches("<tr>").count(), 2 * 3, "a head and two attacks, in the summary and for the picture");
    }
}
