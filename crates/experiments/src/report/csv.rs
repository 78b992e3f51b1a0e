//! A table as comma-separated values.

use super::Table;

pub(super) fn csv(table: &Table) -> String {
    let line = |cells: &[String]| cells.iter().map(|cell| field(cell)).collect::<Vec<_>>().join(",") + "\r\n";
    std::iter::once(&table.head).chain(&table.rows).map(|cells| line(cells)).collect()
}

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let text = |text: &str| text.to_owned();
        let table = Table {
            caption: String::new(),
            head: vec![text("defence"), text("accuracy")],
            rows: vec![vec![text("gaussian:eps=4,delta=0.5"), text("0.4")], vec![text("a \"b\""), text("")]],
        };
        let lines = "defence,accuracy\r\n\"gaussian:eps=4,delta=0.5\",0.4\r\n\"a \"\"b\"\"\",\r\n";
        assert_eq!(table.csv(), lines);
    }
}
