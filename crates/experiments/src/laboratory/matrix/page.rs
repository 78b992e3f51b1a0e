//! `matrix.html`: one page that holds its pictures, so that it can be mailed.

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use unmask_data::metrics::PROTECTED_BELOW;
use unmask_defence::Defence;

use super::{
    MatrixError, Row, Settings,
    plan::{Group, Plan, truth_file},
    store::Store,
};
use crate::laboratory::{Trial, Verdict, html::escape};

const STYLE: &str = include_str!("page.css");

pub(super) fn write(store: &Store, plan: &Plan, rows: &[Row]) -> Result<(), MatrixError> {
    let picture = |name: &str| Ok(STANDARD.encode(store.picture(name)?));
    store.write("matrix.html", html(plan, rows, &picture)?.as_bytes())
}

/// Base64 of a picture's file by its name.
type Pictures<'a> = &'a dyn Fn(&str) -> Result<String, MatrixError>;

fn html(plan: &Plan, rows: &[Row], pictures: Pictures<'_>) -> Result<String, MatrixError> {
    let settings = plan.settings();
    let planned = plan.cells().count();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Attacks and defences on {model}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>What each attack sees under each defence</h1>\n<p class=\"sub\">{}</p>\n",
        escape(&conditions(settings)),
        model = settings.model,
    );
    if rows.len() < planned {
        let _ = writeln!(
            page,
            "<p class=\"warning\">{} of {planned} rows are there; the same command computes the others.</p>",
            rows.len()
        );
    }
    let _ = writeln!(
        page,
        "<p class=\"key\"><span class=\"recognisable\">SSIM of {PROTECTED_BELOW} or more: recognisable</span> \
         <span class=\"protected\">below: not recognisable for this attacker</span> \
         <span class=\"cannot\">the attack has nothing to work on</span></p>"
    );
    let count = plan.groups.len();
    let _ = writeln!(page, "<h2>Mean SSIM over {count} picture{}</h2>", if count == 1 { "" } else { "s" });
    table(&mut page, settings, |page, attack, defence| {
        let found: Vec<&Row> = rows.iter().filter(|row| row.attack == attack && row.defence == defence).collect();
        summary(page, &found);
        Ok(())
    })?;
    for (number, group) in plan.groups.iter().enumerate() {
        truths(&mut page, number, group, pictures)?;
        table(&mut page, settings, |page, attack, defence| {
            let is_here = |row: &&Row| row.attack == attack && row.defence == defence && row.image == group.name;
            match rows.iter().find(is_here) {
                Some(row) => cell(page, row, pictures),
                None => {
                    page.push_str("<td class=\"missing\">not yet computed</td>");
                    Ok(())
                }
            }
        })?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

/// Under what the rows were computed, in a sentence.
fn conditions(settings: &Settings) -> String {
    let Settings { model, april_block, seed, rule, rounds, rate, batch, iterations, .. } = settings;
    let block = if *april_block { " with the April block" } else { "" };
    let steps = iterations.map_or(String::new(), |iterations| format!(", {iterations} steps of each search"));
    let round =
        if *rounds == 1 { "one round".to_owned() } else { format!("{rounds} rounds at a server's rate of {rate}") };
    let pictures = if *batch == 1 { "one picture".to_owned() } else { format!("{batch} pictures") };
    format!("{model}{block} at its initial weights, {rule}, {pictures} in an update, {round}, seed {seed}{steps}.")
}

/// A table of attacks (rows) by defences (columns).
fn table(
    page: &mut String,
    settings: &Settings,
    mut cell: impl FnMut(&mut String, Trial, Defence) -> Result<(), MatrixError>,
) -> Result<(), MatrixError> {
    page.push_str("<div class=\"scroll\"><table>\n<thead><tr><td></td>");
    for defence in &settings.defences {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escape(&defence.to_string()));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for &attack in &settings.attacks {
        let _ = write!(page, "<tr><th scope=\"row\">{}<small>{attack}</small></th>", escape(attack.title()));
        for &defence in &settings.defences {
            cell(page, attack, defence)?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
    Ok(())
}

fn truths(page: &mut String, number: usize, group: &Group, pictures: Pictures<'_>) -> Result<(), MatrixError> {
    let name = escape(&group.name);
    let _ = write!(page, "<h2>{name}</h2>\n<p class=\"truth\">");
    for index in 0..group.truths.len() {
        let data = pictures(&truth_file(number, index))?;
        let _ = write!(page, "<img alt=\"{name} as the model sees it\" src=\"data:image/png;base64,{data}\">");
    }
    page.push_str("<span>What must not be seen.</span></p>\n");
    Ok(())
}

/// The mean of an attack under a defence, over the pictures.
fn summary(page: &mut String, rows: &[&Row]) {
    let scores: Vec<f64> = rows.iter().filter_map(|row| row.ssim).collect();
    let seen = rows.iter().filter(|row| row.verdict == Verdict::Recognisable).count();
    if rows.is_empty() {
        page.push_str("<td class=\"missing\">not yet computed</td>");
    } else if rows.iter().all(|row| row.verdict == Verdict::Cannot) {
        let reason = rows[0].reason.as_deref().unwrap_or_default();
        let _ = write!(page, "<td class=\"cannot\" title=\"{}\">cannot</td>", escape(reason));
    } else if scores.is_empty() {
        let class = if 2 * seen >= rows.len() { "recognisable" } else { "protected" };
        let _ = write!(page, "<td class=\"{class}\"><b>{seen} of {} right</b></td>", rows.len());
    } else {
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        let _ = write!(page, "<td class=\"{}\">", Verdict::of(mean).name());
        gauge(page, mean);
        let _ = write!(page, "<small>{seen} of {} recognisable</small></td>", rows.len());
    }
}

fn cell(page: &mut String, row: &Row, pictures: Pictures<'_>) -> Result<(), MatrixError> {
    let _ = write!(page, "<td class=\"{}\">", row.verdict.name());
    for name in &row.pictures {
        let alt = format!("what {} made of {} under {}", row.attack, row.image, row.defence);
        let data = pictures(name)?;
        let _ = write!(page, "<img alt=\"{}\" src=\"data:image/png;base64,{data}\">", escape(&alt));
    }
    if let Some(ssim) = row.ssim {
        gauge(page, ssim);
    }
    let word = match row.verdict {
        Verdict::Recognisable => "recognisable",
        Verdict::Protected => "not recognisable",
        Verdict::Cannot => "cannot",
    };
    let _ = write!(page, "<small>{word}");
    if let Some(psnr) = row.psnr {
        let _ = write!(page, ", {psnr:.1} dB");
    }
    if row.seconds > 0.0 {
        let _ = write!(page, ", {:.1} s", row.seconds);
    }
    page.push_str("</small>");
    if let Some(reason) = &row.reason {
        let _ = write!(page, "<small class=\"reason\">{}</small>", escape(reason));
    }
    page.push_str("</td>");
    Ok(())
}

/// A number, and a bar with a line where pictures begin to be recognisable.
fn gauge(page: &mut String, ssim: f64) {
    let width = 100.0 * ssim.clamp(0.0, 1.0);
    let _ = write!(
        page,
        "<b>{ssim:.2}</b><span class=\"gauge\"><i style=\"width:{width:.0}%\"></i><s style=\"left:{:.0}%\"></s></span>",
        100.0 * PROTECTED_BELOW
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::matrix::plan::tests::{pictures, settings};

    fn page(name: &str, rows: &[Row]) -> String {
        let plan = Plan::new(&settings("embedding,label", "none;fixed-position"), &pictures(&[name])).unwrap();
        html(&plan, rows, &|file| Ok(STANDARD.encode(file))).unwrap()
    }

    fn row(name: &str) -> Row {
        Row {
            attack: "embedding".parse().unwrap(),
            defence: Defence::None,
            image: name.to_owned(),
            verdict: Verdict::Recognisable,
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
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{page}");
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
