//! Splits a page's source at the links that the build replaces: `<link data-trunk rel="css" href="base.css" />`.

use anyhow::{Context, Result};

#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Text(&'a str),
    Link(Attributes<'a>),
}

/// The attributes of a tag, in order; a missing value is empty.
#[derive(Debug, PartialEq, Eq)]
pub struct Attributes<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Attributes<'a> {
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    pub fn required(&self, name: &str) -> Result<&'a str> {
        self.get(name).with_context(|| format!("a link has no {name}: {self:?}"))
    }

    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Parses the text between `<link` and `>`.
    fn read(mut text: &'a str) -> Self {
        let mut all = Vec::new();
        loop {
            text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            if text.is_empty() {
                return Self(all);
            }
            let end = text.find(|c: char| c.is_ascii_whitespace() || c == '=' || c == '/').unwrap_or(text.len());
            let (name, rest) = text.split_at(end);
            let quoted = rest.strip_prefix("=\"").and_then(|rest| rest.split_once('"'));
            let (value, rest) = quoted.unwrap_or(("", rest.strip_prefix('=').unwrap_or(rest)));
            all.push((name, value));
            text = rest;
        }
    }
}

/// Splits `html` at its links with `data-trunk`. Links in comments are ignored.
///
/// # Errors
/// A comment or a tag has no end.
pub fn cut(html: &str) -> Result<Vec<Piece<'_>>> {
    const LINK: &str = "<link";
    const COMMENT: &str = "<!--";
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(found) = html[at..].find('<').map(|found| at + found) {
        let rest = &html[found..];
        if rest.starts_with(COMMENT) {
            at = found + rest.find("-->").context("a comment has no end")?;
            continue;
        }
        at = found + 1;
        let Some(tag) = rest.strip_prefix(LINK) else { continue };
        let length = end_of_tag(tag).context("a link has no end")?;
        let attributes = Attributes::read(&tag[..length]);
        at = found + LINK.len() + length + 1;
        if attributes.get("data-trunk").is_some() {
            pieces.push(Piece::Text(&html[start..found]));
            pieces.push(Piece::Link(attributes));
            start = at;
        }
    }
    pieces.push(Piece::Text(&html[start..]));
    Ok(pieces)
}

/// The position of the tag's `>`, ignoring those between quotation marks.
fn end_of_tag(tag: &str) -> Option<usize> {
    let mut is_quoted = false;
    tag.find(|c| {
        is_quoted ^= c == '"';
        c == '>' && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_at_its_links() {
        let html = "<head>\n<link rel=\"x\" href=\"kept\">\n<link data-trunk rel=\"css\" href=\"a > b.css\"/>\n</head>";
        let link = Attributes(vec![("data-trunk", ""), ("rel", "css"), ("href", "a > b.css")]);
        let expected =
            [Piece::Text("<head>\n<link rel=\"x\" href=\"kept\">\n"), Piece::Link(link), Piece::Text("\n</head>")];
        assert_eq!(cut(html).unwrap(), expected);
    }

    #[test]
    fn attributes_are_read_with_and_without_value() {
        let attributes = Attributes::read(" data-trunk rel=\"rust\"  data-loader-shim data-wasm-opt=\"0\" /");
        assert_eq!(attributes.names().collect::<Vec<_>>(), ["data-trunk", "rel", "data-loader-shim", "data-wasm-opt"]);
        assert_eq!(attributes.get("data-loader-shim"), Some(""));
        assert_eq!(attributes.required("data-wasm-opt").unwrap(), "0");
        assert!(attributes.required("href").unwrap_err().to_string().contains("no href"));
    }

    #[test]
    fn comments_are_kept_and_hold_no_link() {
        let html = "<!-- <link data-trunk rel=\"css\" href=\"a.css\" /> --><p>";
        assert_eq!(cut(html).unwrap(), [Piece::Text(html)]);
        assert!(cut("<!-- <p>").is_err());
        assert!(cut("<link data-trunk href=\"a>").is_err());
    }
}
