//! Pages written by hand.

/// Text as HTML, in an attribute too.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(escape("<a b='c'>&\"d\""), "&lt;a b=&#39;c&#39;&gt;&amp;&quot;d&quot;");
        assert_eq!(escape("R = 0.5, ε"), "R = 0.5, ε");
    }
}
