//! The rows as JSON and CSV.

use serde::Serialize;

use super::{
    MatrixError, Row,
    plan::{Plan, Run},
    store::Store,
};

/// `matrix.json`.
#[derive(Serialize)]
struct Table<'a> {
    run: &'a Run,
    rows: &'a [Row],
}

pub(super) fn write(store: &Store, plan: &Plan, rows: &[Row]) -> Result<(), MatrixError> {
    let table = serde_json::to_vec_pretty(&Table { run: &plan.run, rows });
    let encode =
        |error: serde_json::Error| MatrixError::Encode { what: "matrix.json".to_owned(), reason: error.to_string() };
    store.write("matrix.json", &table.map_err(encode)?)?;
    store.write("matrix.csv", csv(rows).as_bytes())
}

fn csv(rows: &[Row]) -> String {
    let mut text = "attack,defence,image,verdict,psnr,ssim,seconds,iterations,reason\r\n".to_owned();
    for row in rows {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let fields = [
            row.attack.to_string(),
            field(&row.defence.to_string()),
            field(&row.image),
            row.verdict.name().to_owned(),
            number(row.psnr),
            number(row.ssim),
            row.seconds.to_string(),
            row.iterations.map_or(String::new(), |iterations| iterations.to_string()),
            field(row.reason.as_deref().unwrap_or_default()),
        ];
        text += &fields.join(",");
        text += "\r\n";
    }
    text
}

/// As RFC 4180 has it. A field that a spreadsheet would take for a formula is kept from it by an apostrophe.
fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::Verdict;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("cat"), "cat");
        assert_eq!(field("a, \"b\"\nc"), "\"a, \"\"b\"\"\nc\"");
        assert_eq!(field("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
    }

    #[test]
    fn every_row_has_every_column() {
        let row = Row {
            attack: "rounds".parse().unwrap(),
            defence: "gaussian:eps=4,delta=1e-5,clip=0.5".parse().unwrap(),
            image: "my, cat".to_owned(),
            verdict: Verdict::Cannot,
            reason: Some("no".to_owned()),
            psnr: None,
            ssim: Some(0.25),
            seconds: 1.5,
            iterations: Some(3),
            pictures: Vec::new(),
        };
        let text = csv(&[row]);
        let line = "rounds,\"gaussian:eps=4,delta=1e-5,clip=0.5\",\"my, cat\",cannot,,0.25,1.5,3,no";
        assert_eq!(text.lines().nth(1), Some(line));
    }
}
