//! The frame of every report: a self-contained HTML file, so that it can be mailed and printed.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use base64::{Engine, engine::general_purpose::STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");

/// The Content-Security-Policy of a page that contains everything it shows and runs no script: it loads nothing, not
/// even from beside it, whatever text of others it contains.
pub const POLICY: &str =
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The element of a page's head that sets this Content-Security-Policy. It must come before all that loads something.
pub fn policy(policy: &str) -> Markup {
    html! { meta http-equiv="Content-Security-Policy" content=(policy); }
}

/// A complete page; `style` is added to the common style sheet.
pub fn page(title: &str, style: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                (policy(POLICY))
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// A table that scrolls horizontally on narrow screens; `rows` are its `tr` elements.
pub fn table(columns: &[String], rows: &Markup) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// The contents of a PNG file as an image of the page.
pub fn picture(alt: &str, png: &[u8]) -> Markup {
    html! { img alt=(alt) src={ "data:image/png;base64," (STANDARD.encode(png)) }; }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_policy_before_anything_else_and_loads_nothing() {
        let page = page("A & B", "p { margin: 0 }", &html! { p { "text" } });
        let head = page.split_once("<head>").unwrap().1;
        let policy =
            format!("<meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">");
        assert!(head.starts_with(&policy), "{head}");
        let sources: Vec<&str> = POLICY.split("; ").collect();
        assert!(sources.contains(&"default-src 'none'") && sources.contains(&"img-src data:"), "{POLICY}");
        assert!(
            !["http", "*", "script", "connect", "'self'"].iter().any(|allowed| POLICY.contains(allowed)),
            "{POLICY}"
        );
    }
}
