//! A lesson's results for the class to keep: one self-contained page, and the same as JSON.

use base64::{Engine, engine::general_purpose::STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use unmask_core::{Defence, TradeOffPoint};
use unmask_data::metrics::Level;
use unmask_lesson::Answers;
use unmask_recording::{Finding, Summary};
use unmask_room::LessonFiles;
use unmask_wire::view::{AccuracyPoint, AttackView, PollView};
use unmask_words::{Language, take_home};

use super::download::line;

const STYLE: &str = include_str!("results.css");
/// Width and height of a curve in SVG units.
const CURVE: (f64, f64) = (640.0, 180.0);

/// The page's content for JSON. Pictures are separate files.
#[derive(Debug, Serialize)]
struct Results<'a> {
    /// When the lesson began, in seconds since 1970.
    began: u64,
    debrief: [&'static str; 3],
    polls: &'a [PollView],
    findings: Vec<Score<'a>>,
    trade_off: &'a [TradeOffPoint],
    losses: Vec<Loss>,
    accuracies: &'a [AccuracyPoint],
}

#[derive(Debug, Serialize)]
struct Score<'a> {
    attack: &'static str,
    defence: Defence,
    nickname: &'a str,
    round: u32,
    ssim: Option<f32>,
    psnr: Option<f32>,
    /// SSIM in the last rounds.
    recent: &'a [f32],
    level: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Loss {
    /// Number of the lesson's model, from 1.
    model: u32,
    round: u32,
    loss: f32,
}

pub(super) fn json(files: &LessonFiles, summary: &Summary) -> serde_json::Result<Vec<u8>> {
    Language::English.speaking(|| serde_json::to_vec_pretty(&results(files, summary)))
}

fn results<'a>(files: &'a LessonFiles, summary: &'a Summary) -> Results<'a> {
    let score = |Finding { result, .. }: &'a Finding| Score {
        attack: result.attack.name(),
        defence: result.defence,
        nickname: &result.nickname,
        round: result.round,
        ssim: result.ssim,
        psnr: result.psnr,
        recent: &result.recent,
        level: Level::of(&scores(result)).map(Level::name),
    };
    let losses = files.rounds.iter();
    Results {
        began: files.head.began,
        debrief: take_home(),
        polls: &summary.polls,
        findings: summary.findings.iter().map(score).collect(),
        trade_off: &files.view.trade_off,
        losses: losses
            .filter_map(|round| Some(Loss { model: round.model, round: round.round, loss: round.loss? }))
            .collect(),
        accuracies: &files.view.accuracies,
    }
}

/// How the class answered each closed question, as CSV: totals without names, a line for each answer. Pictures to choose from
/// have their letters.
pub(super) fn answers(summary: &Summary) -> String {
    let mut csv = "number,question,answer,people,robots,is_right\n".to_owned();
    Language::English.speaking(|| {
        for PollView { number, poll, votes, robots, .. } in summary.polls.iter().filter(|poll| !poll.is_open) {
            let answers = poll.answers();
            let counts = answers.counts(votes).into_iter().zip(answers.counts(robots));
            for ((first, last), (people, robots)) in answers.bins().into_iter().zip(counts) {
                let name = match poll.suspects.is_empty() {
                    true => unmask_words::answers(poll, first, last),
                    false => format!("picture {}", char::from(b'A' + (first % 26) as u8)),
                };
                let is_right = poll.correct.map(|correct| (first..=last).contains(&correct).to_string());
                csv += &line([
                    number.to_string(),
                    unmask_words::question(poll.question).to_owned(),
                    name,
                    people.to_string(),
                    robots.to_string(),
                    is_right.unwrap_or_default(),
                ]);
            }
        }
    });
    csv
}

/// Returns the scores for a verdict: those of the last rounds, or only the last one if no others are known.
fn scores(result: &AttackView) -> Vec<f32> {
    if result.recent.is_empty() { result.ssim.into_iter().collect() } else { result.recent.clone() }
}

pub(super) fn page(files: &LessonFiles, summary: &Summary) -> String {
    Language::English.speaking(|| document(files, summary))
}

fn document(files: &LessonFiles, summary: &Summary) -> String {
    let results = results(files, summary);
    let rounds = files.rounds.len();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                // The page shows text that students typed.
                (unmask_html::policy(unmask_html::POLICY))
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "unmask: what our class found out" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "What our class found out" }
                    p.sub { (rounds) @if rounds == 1 { " round" } @else { " rounds" } " of federated learning, made with unmask." }
                    ol.debrief { @for sentence in take_home() { li { (sentence) } } }
                    (findings(&summary.findings))
                    (polls(&summary.polls))
                    (trade_off(&files.view.trade_off))
                    (learning(&results))
                }
            }
        }
    };
    page.into_string()
}

fn findings(findings: &[Finding]) -> Markup {
    html! {
        h2 { "What leaked" }
        @if findings.is_empty() { p { "No picture was reconstructed in this lesson." } }
        div.cards {
            @for Finding { result, png } in findings {
                article.card {
                    @if let Some(png) = png {
                        img src=(format!("data:image/png;base64,{}", STANDARD.encode(png))) alt=(format!("What {} reconstructed", result.title));
                    }
                    h3 { (result.title) }
                    p { (result.defence.phrase()) }
                    @if let Some(level) = Level::of(&scores(result)) {
                        p class=(format!("verdict {}", level.name())) { (verdict(level)) }
                    }
                    p.sub {
                        (result.nickname) ", round " (result.round)
                        @if let Some(ssim) = result.ssim { ", SSIM " (format!("{ssim:.2}")) }
                    }
                }
            }
        }
    }
}

fn verdict(level: Level) -> &'static str {
    match level {
        Level::Hidden => "○ hidden from this attack",
        Level::Outlines => "◐ outlines show",
        Level::Recognisable => "● recognisable",
    }
}

fn polls(polls: &[PollView]) -> Markup {
    html! {
        @if !polls.is_empty() { h2 { "What we thought" } }
        @for asked @ PollView { poll, votes, robots, .. } in polls {
            section.poll {
                h3 { (unmask_words::question(poll.question)) }
                @let counted = asked.counted();
                p.sub {
                    (counted.len()) @if counted.len() == 1 { " vote" } @else { " votes" }
                    @if votes.is_empty() && !robots.is_empty() { ", all by robots, at random" }
                }
                @let answers = poll.answers();
                @let counts = answers.counts(counted);
                @let most = counts.iter().copied().max().unwrap_or(0).max(1);
                table {
                    @for (bin, count) in answers.bins().into_iter().zip(&counts) {
                        @if *count > 0 || matches!(answers, Answers::Choice { .. }) {
                            tr {
                                th scope="row" {
                                    (unmask_words::answers(poll, bin.0, bin.1))
                                    @if poll.correct.is_some_and(|correct| (bin.0..=bin.1).contains(&correct)) { " ✓" }
                                }
                                td {
                                    svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                                        rect width=(100 * count / most) height="10" {}
                                    }
                                }
                                td { (count) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn trade_off(points: &[TradeOffPoint]) -> Markup {
    html! {
        @if !points.is_empty() {
            h2 { "What a defence costs" }
            div.scroll {
                table {
                    thead { tr { th { "defence" } th { "rounds" } th { "accuracy" } th { "best attacker, SSIM" } } }
                    tbody {
                        @for point in points {
                            tr {
                                td { (point.defence.phrase()) }
                                td { (point.rounds) }
                                td { @if let Some(accuracy) = point.accuracy { (format!("{:.0} %", 100.0 * accuracy)) } }
                                td { @if let Some(ssim) = point.ssim { (format!("{ssim:.2}")) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn learning(results: &Results<'_>) -> Markup {
    let models = results.losses.chunk_by(|one, next| one.model == next.model);
    let losses: Vec<Vec<f64>> = models.map(|losses| losses.iter().map(|point| point.loss.into()).collect()).collect();
    let accuracies = vec![results.accuracies.iter().map(|point| 100.0 * point.accuracy).collect()];
    html! {
        h2 { "What the model learnt" }
        (curve("Loss, round by round", "", &losses))
        (curve("Held-out accuracy", " %", &accuracies))
    }
}

/// Plots one line per model, one after the other, on an axis from 0.
fn curve(title: &str, unit: &str, lines: &[Vec<f64>]) -> Markup {
    let finite = |value: &&f64| value.is_finite();
    let points = lines.iter().flatten().filter(finite).count();
    let most = lines.iter().flatten().filter(finite).copied().fold(0.0, f64::max);
    let (width, height) = CURVE;
    let mut place = 0.0;
    let mut paths = Vec::new();
    for line in lines {
        let step = width / (points.max(2) - 1) as f64;
        let mut path = String::new();
        for value in line.iter().filter(finite) {
            let y = height * (1.0 - value / most.max(f64::MIN_POSITIVE));
            path += &format!("{}{:.1},{y:.1}", if path.is_empty() { "M" } else { " L" }, place * step);
            place += 1.0;
        }
        paths.push(path);
    }
    html! {
        @if points > 1 {
            figure {
                figcaption { (title) ": from 0 to " (format!("{most:.2}")) (unit) ", " (points) " points" }
                svg.curve viewBox=(format!("-4 -4 {} {}", width + 8.0, height + 8.0)) role="img" aria-label=(title) {
                    path.axis d=(format!("M0,0 L0,{height} L{width},{height}")) {}
                    @for path in &paths { path.line d=(path) {} }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::ClientId;
    use unmask_lesson::{Poll, Question, Suspect};

    use super::*;

    fn view(poll: Poll, votes: Vec<u16>) -> PollView {
        let voters = votes.len() as u32;
        PollView { number: 1, poll, is_open: false, votes, robots: Vec::new(), voters }
    }

    #[test]
    fn votes_are_shown_and_typed_names_are_escaped() {
        let suspect = |id| Suspect { client: ClientId(id), nickname: "<b>Ada".to_owned() };
        let whose = Poll { question: Question::Whose, suspects: vec![suspect(1), suspect(2)], correct: Some(1) };
        let html = polls(&[view(whose, vec![0, 1, 1])]).into_string();
        assert!(html.contains("B · &lt;b&gt;Ada ✓") && html.contains("3 votes"), "{html}");
        assert!(html.contains("width=\"50\"") && html.contains("width=\"100\""), "{html}");
        let seconds = Poll { question: Question::Seconds, suspects: Vec::new(), correct: Some(20) };
        let html = polls(&[view(seconds, vec![3, 17, 20])]).into_string();
        assert!(html.contains("11 to 20 seconds ✓") && html.contains("1 to 10 seconds"), "{html}");
    }

    #[test]
    fn curves_have_a_line_for_each_model() {
        let html = curve("Loss", "", &[vec![2.0, 1.0], vec![f64::NAN, 0.5]]).into_string();
        assert_eq!(html.matches("class=\"line\"").count(), 2);
        assert!(html.contains("M0.0,0.0 L320.0,90.0") && html.contains("M640.0,135.0"), "{html}");
        assert_eq!(curve("Loss", "", &[vec![1.0]]).into_string(), "");
    }
}
