//! The assignment problem.
//!
//! The page's worker needs this solver. A library for it would change the features of crates that Burn depends on.

/// Assigns each row its own column so that the sum of the `costs` `[n][n]` is smallest. Returns the column of each row.
///
/// Shortest augmenting paths (Jonker, Volgenant, 1987), O(n^3). Costs must be finite.
pub(super) fn cheapest(costs: &[Vec<f64>]) -> Vec<usize> {
    let n = costs.len();
    // Column n holds the row that still needs a column.
    let mut row_of: Vec<Option<usize>> = vec![None; n + 1];
    let (mut row_price, mut column_price) = (vec![0.0; n], vec![0.0; n + 1]);
    for row in 0..n {
        row_of[n] = Some(row);
        let mut column = n;
        let mut distance = vec![f64::INFINITY; n];
        let mut before = vec![n; n];
        let mut is_reached = vec![false; n + 1];
        while let Some(at) = row_of[column] {
            is_reached[column] = true;
            let (mut least, mut nearest) = (f64::INFINITY, column);
            for other in (0..n).filter(|&other| !is_reached[other]) {
                let length = costs[at][other] - row_price[at] - column_price[other];
                if length < distance[other] {
                    (distance[other], before[other]) = (length, column);
                }
                if distance[other] < least {
                    (least, nearest) = (distance[other], other);
                }
            }
            for other in 0..=n {
                match (is_reached[other], row_of[other]) {
                    (true, Some(row)) => {
                        row_price[row] += least;
                        column_price[other] -= least;
                    }
                    _ if other < n => distance[other] -= least,
                    _ => {}
                }
            }
            column = nearest;
        }
        while column != n {
            row_of[column] = row_of[before[column]];
            column = before[column];
        }
    }
    let mut columns = vec![0; n];
    for (column, row) in row_of.iter().take(n).enumerate() {
        if let Some(row) = row {
            columns[*row] = column;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use pathfinding::{kuhn_munkres::kuhn_munkres_min, matrix::Matrix};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The sum equals that of an independent library.
        #[test]
        fn nothing_is_cheaper(rows in (1usize..24).prop_flat_map(|n| prop::collection::vec(prop::collection::vec(-1000i64..1000, n), n))) {
            let costs: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|&cost| cost as f64).collect()).collect();
            let columns = cheapest(&costs);
            let mut sorted = columns.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..rows.len()).collect::<Vec<_>>());
            let sum: i64 = columns.iter().enumerate().map(|(row, &column)| rows[row][column]).sum();
            let (least, _) = kuhn_munkres_min(&Matrix::from_rows(rows).unwrap());
            prop_assert_eq!(sum, least);
        }
    }
}
