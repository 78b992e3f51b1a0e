//! The assignment problem.

use faer::MatRef;

/// Assigns each row its own column so that the sum of the `costs` `[r, c]`, r <= c, is smallest. Returns the column of
/// each row. Costs must be finite.
///
/// Shortest augmenting paths (Jonker, Volgenant, 1987), O(r c^2).
pub(super) fn cheapest(costs: MatRef<'_, f64>) -> Vec<usize> {
    let (rows, columns) = (costs.nrows(), costs.ncols());
    // Column `columns` holds the row that still needs a column.
    let mut row_of: Vec<Option<usize>> = vec![None; columns + 1];
    let (mut row_price, mut column_price) = (vec![0.0; rows], vec![0.0; columns + 1]);
    for row in 0..rows {
        row_of[columns] = Some(row);
        let mut column = columns;
        let mut distance = vec![f64::INFINITY; columns];
        let mut before = vec![columns; columns];
        let mut is_reached = vec![false; columns + 1];
        while let Some(at) = row_of[column] {
            is_reached[column] = true;
            let (mut least, mut nearest) = (f64::INFINITY, None);
            for other in (0..columns).filter(|&other| !is_reached[other]) {
                let length = costs[(at, other)] - row_price[at] - column_price[other];
                if length < distance[other] {
                    (distance[other], before[other]) = (length, column);
                }
                if distance[other] < least {
                    (least, nearest) = (distance[other], Some(other));
                }
            }
            let Some(nearest) = nearest else { break };
            for other in 0..=columns {
                match row_of[other].filter(|_| is_reached[other]) {
                    Some(row) => {
                        row_price[row] += least;
                        column_price[other] -= least;
                    }
                    None if other < columns => distance[other] -= least,
                    None => {}
                }
            }
            column = nearest;
        }
        while column != columns {
            row_of[column] = row_of[before[column]];
            column = before[column];
        }
    }
    let mut column_of = vec![0; rows];
    for (column, row) in row_of.iter().take(columns).enumerate() {
        if let &Some(row) = row {
            column_of[row] = column;
        }
    }
    column_of
}

#[cfg(test)]
mod tests {
    use faer::Mat;
    use proptest::prelude::*;

    use super::*;

    /// The smallest sum over all choices.
    fn least(costs: &Mat<f64>, row: usize, taken: &mut Vec<bool>) -> f64 {
        if row == costs.nrows() {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..costs.ncols() {
            if !taken[column] {
                taken[column] = true;
                best = best.min(costs[(row, column)] + least(costs, row + 1, taken));
                taken[column] = false;
            }
        }
        best
    }

    proptest! {
        #[test]
        fn nothing_is_cheaper(rows in 1usize..6, more in 0usize..3, values in prop::collection::vec(-1000i32..1000, 40)) {
            let costs = Mat::from_fn(rows, rows + more, |r, c| f64::from(values[r * (rows + more) + c]));
            let found = cheapest(costs.as_ref());
            let mut columns = found.clone();
            columns.sort_unstable();
            columns.dedup();
            prop_assert_eq!(columns.len(), rows);
            let sum: f64 = found.iter().enumerate().map(|(row, &column)| costs[(row, column)]).sum();
            prop_assert_eq!(sum, least(&costs, 0, &mut vec![false; rows + more]));
        }
    }
}
