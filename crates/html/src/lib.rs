//! The frame of every report: a self-contained HTML file, so that it can be mailed and printed.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use base64::{Engine, engine::general_purpose::STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");

/// A complete page; `style` is added to the common style sheet.
pub fn page(title: &str, style: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
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
