//! The report as one page, for the screen and for paper.

use maud::{Markup, html};
use serde_json::Value;
use unmask_core::Outlook;
use unmask_html::{picture, table};
use unmask_inversion::InferenceAttack;

use crate::{Audit, Control, Deployment, Finding, PrivacyClaim, RecordedAttack, RecordedUpdate, Tried, View, Viewer};

const STYLE: &str = include_str!("page.css");

/// The whole page. `made` says with which program and command.
pub fn page(audit: &Audit, made: &str) -> String {
    let leaks = audit.views.iter().any(View::gives_pictures)
        || audit.updates.iter().flat_map(|update| &update.attacks).any(|attack| attack.is_recognisable);
    let body = html! {
        h1 { "What this federation gives away" }
        p.conclusion.leaks[leaks] { (audit.conclusion) }
        @if let Some(deployment) = &audit.deployment { (plan(deployment)) }
        @if !audit.notes.is_empty() {
            ul.quiet { @for note in &audit.notes { li { (note) } } }
        }
        @if !audit.views.is_empty() {
            h2 { "Who sees what" }
            (parties(&audit.views))
        }
        @if !audit.updates.is_empty() {
            h2 { "The recorded updates" }
            (updates(&audit.updates))
        }
        @if !audit.controls.is_empty() {
            h2 { "Controls, and what each would change" }
            p.quiet { "By counting only: no control was tried. What an attack found above, it may still find." }
            (controls(&audit.controls))
        }
        @if let Some(privacy) = &audit.privacy { (claim(privacy)) }
        h2 { "What was not tried" }
        ul { @for line in &audit.not_tried { li { (line) } } }
        @if !audit.views.is_empty() {
            h2.attacks { "Each attack" }
            p.quiet {
                b { "Exact: " } "the attack's equations have one solution, and rounding does not destroy it. "
                b { "Counting forbids: " } "these equations have many solutions; another attack may have more equations. "
                b { "Unknown: " } "counting decides nothing."
            }
            @for view in audit.views.iter().filter(|view| view.viewer != Viewer::Outsider) { (findings(view)) }
        }
        p.quiet { (made) }
    };
    unmask_html::page("What this federation gives away", STYLE, &body)
}

fn plan(deployment: &Deployment) -> Markup {
    let Deployment { model, rule, batch, cohort, defence, secure_sum, .. } = *deployment;
    let block = if model.april_block() { ", with the April block" } else { "" };
    let facts = [
        ("Model", format!("{model}{block}")),
        (
            "Clients send",
            match rule.is_fedavg() {
                true => format!("weights after local training ({rule})"),
                false => "a gradient (fedsgd)".to_owned(),
            },
        ),
        ("Pictures in an update", batch.to_string()),
        ("Clients in a round", cohort.to_string()),
        ("Defence", defence.phrase()),
        (
            "Secure aggregation",
            if secure_sum { "yes: the server sees only sums" } else { "no: the server sees each update" }.to_owned(),
        ),
    ];
    html! { dl { @for (name, value) in facts { dt { (name) } dd { (value) } } } }
}

fn parties(views: &[View]) -> Markup {
    let columns = ["Party", "What it receives", "What it can compute"].map(str::to_owned);
    table(
        &columns,
        &html! {
            @for view in views {
                tr {
                    th scope="row" { (view.viewer.title()) }
                    td { (view.receives) }
                    td { (ability(view)) }
                }
            }
        },
    )
}

/// What attacks give, each thing once.
fn gives(attacks: impl IntoIterator<Item = InferenceAttack>) -> Vec<&'static str> {
    let gift = |attack| match attack {
        InferenceAttack::Reconstruction(_) => "the pictures",
        InferenceAttack::Labels => "the class",
        InferenceAttack::Membership => "whether a photograph was used",
    };
    let mut all: Vec<&str> = attacks.into_iter().map(gift).collect();
    all.dedup();
    all
}

/// What the attacks of a party give.
fn ability(view: &View) -> Markup {
    let able = gives(view.findings.iter().filter(|finding| finding.succeeds()).map(|finding| finding.attack));
    html! {
        @if view.viewer == Viewer::Outsider {
            "Without TLS, as the server. With the model of each round, as a curious client. Otherwise nothing."
        } @else if view.viewer == Viewer::DishonestServer && view.pictures.is_none() {
            "What the server can."
        } @else if view.pictures.is_none() {
            "Nothing."
        } @else if able.is_empty() {
            "Nothing for certain; see each attack."
        } @else {
            span.exact { (able.join(", ")) }
        }
    }
}

fn findings(view: &View) -> Markup {
    let (applies, other): (Vec<&Finding>, Vec<&Finding>) =
        view.findings.iter().partition(|finding| finding.outlook != Outlook::DoesNotApply);
    if view.pictures.is_none() {
        return html! {};
    }
    let columns = ["Attack", "Counting says", "Why", "Tried on synthetic pictures"].map(str::to_owned);
    html! {
        h3 { (view.viewer.title()) }
        @if let Some(why) = &view.not_tried { p.quiet { "Nothing was tried here, because " (why) "." } }
        div.findings {
            (table(&columns, &html! {
                @for finding in applies {
                    tr {
                        th scope="row" { (finding.title) small { (finding.attack) } }
                        td { span class=(finding.outlook) { (finding.outlook.title()) } }
                        td { (finding.because) }
                        td { (tried(finding)) }
                    }
                }
            }))
        }
        @if !other.is_empty() {
            details.quiet {
                summary { "Attacks that do not apply" }
                ul { @for finding in &other { li { (finding.title) ": " (finding.because) } } }
            }
        }
    }
}

fn tried(finding: &Finding) -> Markup {
    let Some(result) = &finding.tried else { return html! { span.quiet { "not tried" } } };
    let Tried { updates, recognisable, cannot_tell, psnr, because, example, .. } = result;
    let is_picture = finding.attack.method().is_some();
    html! {
        @if *recognisable > 0 {
            span.recognisable { (recognisable) " of " (updates) @if is_picture { " found" } @else { " right" } }
        } @else if cannot_tell == updates {
            span.cannot-tell { "cannot tell" }
        } @else {
            span.not-recognisable { "none of " (updates) @if is_picture { " found" } @else { " right" } }
        }
        @if let Some(psnr) = psnr { small { "median PSNR " (format_args!("{psnr:.0}")) " dB" } }
        @if let Some(because) = because.as_ref().filter(|_| *cannot_tell > 0) { small { (because) } }
        @if result.contradicts(finding.outlook) {
            p.wrong { "This is not what counting says. Trust what was tried, and report it." }
        }
        @if let Some([truth, found]) = example {
            figure { (picture("a synthetic picture", truth)) figcaption { "picture" } }
            figure { (picture(&format!("found by {}", finding.attack), found)) figcaption { "found" } }
        }
    }
}

fn controls(controls: &[Control]) -> Markup {
    let columns =
        ["Control", "For the server", "For a curious client", "The server still computes, by counting", "Costs"];
    table(
        &columns.map(str::to_owned),
        &html! {
            @for control in controls {
                tr {
                    th scope="row" { (control.name) }
                    td { (effect(control, Viewer::Server)) }
                    td { (effect(control, Viewer::Client)) }
                    td {
                        @if control.exact(Viewer::Server).next().is_none() {
                            "nothing for certain"
                        } @else {
                            span.exact { (gives(control.exact(Viewer::Server)).join(", ")) }
                        }
                        @if let Some(caution) = control.caution { small { (caution) } }
                    }
                    td { (control.cost) }
                }
            }
        },
    )
}

/// What a control rules out for this party, and what it only makes uncertain. What one attack no longer computes, another
/// may still.
fn effect(control: &Control, viewer: Viewer) -> Markup {
    let still = gives(control.exact(viewer));
    let changed = |is: &dyn Fn(Outlook) -> bool| {
        let lost = control
            .changes
            .iter()
            .filter(|change| change.viewer == viewer && change.from == Outlook::Exact && is(change.to));
        let mut lost = gives(lost.map(|change| change.attack));
        lost.retain(|gift| !still.contains(gift));
        lost
    };
    let mut unknown = changed(&|to| to == Outlook::Unknown);
    let mut ruled_out = changed(&|to| matches!(to, Outlook::CountingForbids | Outlook::DoesNotApply));
    // A control may open the way for another attack, such as the jigsaw.
    let opened =
        control.changes.iter().filter(|change| change.viewer == viewer && change.from == Outlook::DoesNotApply);
    let opened = gives(opened.filter(|change| change.to == Outlook::Unknown).map(|change| change.attack));
    unknown.extend(ruled_out.iter().filter(|gift| opened.contains(gift)));
    unknown.dedup();
    ruled_out.retain(|gift| !unknown.contains(gift));
    html! {
        @if !ruled_out.is_empty() { "these attacks no longer give: " (ruled_out.join(", ")) }
        @if !ruled_out.is_empty() && !unknown.is_empty() { br; }
        @if !unknown.is_empty() { "makes uncertain: " (unknown.join(", ")) }
        @if ruled_out.is_empty() && unknown.is_empty() { "no prediction changes" }
    }
}

fn claim(claim: &PrivacyClaim) -> Markup {
    html! {
        h2 { "Differential privacy: what is claimed" }
        p {
            b { "ε = " (claim.epsilon) ", δ = " (claim.delta) } " for one round, with "
            @if claim.is_clipped { "everything clipped to " } @else { "unclipped updates and noise for " }
            "S_f = " (claim.sensitivity) "."
        }
        ul { @for remark in &claim.remarks { li { (remark) } } }
        @if claim.holds.is_empty() {
            p { "What holds was not computed here; " code { "unmask audit" } " computes it." }
        } @else {
            p { "What holds for one client against the server, by OpenDP's accountant:" }
            (table(&["Rounds of this client", "ε that holds", "δ"].map(str::to_owned), &html! {
                @for guarantee in &claim.holds {
                    tr {
                        td { (guarantee.rounds) }
                        td { @match guarantee.epsilon { Some(epsilon) => (epsilon), None => "none" } }
                        td { (guarantee.delta) }
                    }
                }
            }))
        }
        @if let Some(tried) = &claim.tried {
            p {
                b { "By trying, ε is at least " (format!("{:.2}", tried.epsilon)) } " for one round, at δ = " (tried.delta) " with "
                (100.0 * tried.confidence) " % confidence: somebody who knows everything but one picture told which of two it was in "
                (tried.right) " of " (tried.trials) " trials. Other pictures may show more."
            }
            @if claim.is_contradicted() {
                p.wrong { "With that confidence this contradicts what is said to hold. Repeat it with more trials, and report it." }
            }
        }
    }
}

fn updates(updates: &[RecordedUpdate]) -> Markup {
    let columns = ["Update", "Attack", "Result", "How far to trust it"].map(str::to_owned);
    html! {
        p {
            b { "Recognisable: " } "the picture's own gradient explains the update, and the equations of the embedding allow no other. "
            "An attack that sees nothing does not prove that there is nothing to see."
        }
        div.findings {
            (table(&columns, &html! {
                @for update in updates {
                    @for attack in &update.attacks { (recorded(update, attack)) }
                }
            }))
        }
    }
}

fn recorded(update: &RecordedUpdate, attack: &RecordedAttack) -> Markup {
    let text = |name: &str| match update.metrics.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())),
        other => Some(other.to_string()),
    };
    let mut remarks = vec![if update.is_masked { "masked" } else { "no mask" }.to_owned()];
    let pictures =
        |examples: String| format!("trained on {examples} picture{}", if examples == "1" { "" } else { "s" });
    remarks.extend(text("num-examples").map(pictures));
    remarks.extend(text("defence").map(|defence| format!("defence {defence}")));
    html! {
        tr {
            th scope="row" {
                @if let Some(round) = update.round { "Round " (round) ", " }
                (update.name)
                small { (remarks.join(", ")) }
            }
            td { (attack.title) small { (attack.attack) } }
            td {
                @if attack.is_recognisable {
                    span.recognisable { "recognisable" } br;
                } @else if attack.is_unconfirmed() {
                    span.cannot-tell { "cannot tell: look" } br;
                }
                @for png in &attack.pictures {
                    (picture(&format!("result of {} on the update {}", attack.attack, update.name), png))
                }
            }
            td {
                @if let Some(refusal) = &attack.refusal { "Cannot tell, because " (refusal) }
                @for line in &attack.summary { (line) br; }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::Rule;

    use super::*;

    fn deployment(defence: &str) -> Deployment {
        Deployment {
            model: "vit_lab_patch8_32".parse().unwrap(),
            april_block: false,
            rule: Rule::FedSgd,
            batch: 1,
            cohort: 10,
            defence: defence.parse().unwrap(),
            secure_sum: false,
        }
    }

    #[test]
    fn a_page_says_who_sees_what_and_loads_nothing() {
        let mut audit = Audit::of_deployment(deployment("none")).unwrap();
        let embedding: InferenceAttack = "embedding".parse().unwrap();
        let example = Some([b"truth".to_vec(), b"found".to_vec()]);
        audit.tried(
            Viewer::Server,
            embedding,
            Tried { updates: 4, recognisable: 4, psnr: Some(99.0), example, ..Tried::default() },
        );
        let page = page(&audit, "made by a test");
        for part in [
            "The server can compute the picture of every client.",
            "4 of 4 found",
            "Secure aggregation: the server sees only the sum",
            "With TLS, the size and time of each message",
            "made by a test",
            "A server that chooses the weights",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(page.contains(unmask_html::POLICY), "{page}");
        let without = page.replace("src=\"data:", "");
        assert!(!without.contains("src=") && !page.contains("href=") && !page.contains("<script"), "{page}");
        assert!(!page.contains("not what counting says"));
    }

    #[test]
    fn a_failed_prediction_is_shown() {
        let mut audit = Audit::of_deployment(deployment("none")).unwrap();
        let embedding: InferenceAttack = "embedding".parse().unwrap();
        let missed = Tried { updates: 4, not_recognisable_by_this_attack: 4, ..Tried::default() };
        audit.tried(Viewer::Server, embedding, missed);
        assert!(page(&audit, "").contains("not what counting says"));
    }

    #[test]
    fn a_claim_is_printed_as_it_is() {
        let audit = Audit::of_deployment(deployment("gaussian:eps=1.23456789,delta=0.5,unclipped=0.5")).unwrap();
        let page = page(&audit, "");
        assert!(page.contains("ε = 1.23456789, δ = 0.5") && page.contains("guarantees nothing"), "{page}");
        assert!(audit.conclusion.contains("cannot be told"), "{}", audit.conclusion);
    }
}
