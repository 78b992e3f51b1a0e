//! A confusion matrix as cells, and in a sentence.

/// One square of the matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The class that the pictures show.
    pub row: usize,
    /// The class that the model says.
    pub column: usize,
    /// In pictures.
    pub count: u32,
    /// Their share of the row, 0 to 1; 0 in an empty row.
    pub share: f32,
}

impl Cell {
    /// Whether the model is right here.
    pub fn is_right(self) -> bool {
        self.row == self.column
    }
}

/// A confusion matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Confusion {
    classes: Vec<String>,
    /// `[classes, classes]`, by row.
    counts: Vec<u32>,
}

impl Confusion {
    /// Of `counts` `[classes, classes]`, the class shown by row and the class said by column. `None` where they are not as
    /// many as that, or there is no class.
    pub fn new(classes: Vec<String>, counts: Vec<u32>) -> Option<Self> {
        (!classes.is_empty() && counts.len() == classes.len() * classes.len()).then_some(Self { classes, counts })
    }

    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// All cells, row by row.
    pub fn cells(&self) -> Vec<Cell> {
        let classes = self.classes.len();
        let cell = |(place, &count): (usize, &u32)| {
            let row = place / classes;
            let whole = self.row_total(row).max(1);
            Cell { row, column: place % classes, count, share: (f64::from(count) / whole as f64) as f32 }
        };
        self.counts.iter().enumerate().map(cell).collect()
    }

    /// The mistake made most often in words, or that there is none.
    pub fn sentence(&self) -> String {
        let cells: Vec<Cell> = self.cells().into_iter().filter(|cell| cell.count > 0).collect();
        let Some(first) = cells.first() else { return "No pictures tested.".to_owned() };
        // A model that has learnt nothing says the same of everything, and a pair of classes would hide that.
        if self.classes.len() > 1 && cells.iter().all(|cell| cell.column == first.column) {
            return format!("It calls every picture “{}”.", self.classes[first.column]);
        }
        let mistakes = cells.into_iter().filter(|cell| !cell.is_right());
        // Of equals the first.
        match mistakes.reduce(|worst, cell| if cell.count > worst.count { cell } else { worst }) {
            Some(worst) => format!("Most common mistake: {}.", self.describe(worst)),
            None => "No mistakes on these pictures.".to_owned(),
        }
    }

    /// A cell in words.
    pub fn describe(&self, cell: Cell) -> String {
        let (shown, said) = (&self.classes[cell.row], &self.classes[cell.column]);
        let (count, of) = (cell.count, self.row_total(cell.row));
        if cell.is_right() {
            format!("{shown} recognised, {count} of {of}")
        } else {
            format!("{shown} taken for {said}, {count} of {of}")
        }
    }

    fn row_total(&self, row: usize) -> u64 {
        let classes = self.classes.len();
        self.counts.iter().skip(row * classes).take(classes).map(|&count| u64::from(count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confusion(counts: &[u32]) -> Confusion {
        let classes = ["cat", "dog", "ship"].map(str::to_owned).to_vec();
        Confusion::new(classes, counts.to_vec()).expect("nine counts")
    }

    #[test]
    fn sizes_that_do_not_fit_are_no_matrix() {
        assert_eq!(Confusion::new(vec!["cat".to_owned()], vec![1, 2]), None);
        assert_eq!(Confusion::new(Vec::new(), Vec::new()), None);
    }

    #[test]
    fn shares_are_of_what_is_shown() {
        let confusion = confusion(&[6, 3, 1, 0, 0, 0, 2, 0, 8]);
        let cells = confusion.cells();
        assert_eq!(cells[1], Cell { row: 0, column: 1, count: 3, share: 0.3 });
        // No dog was tried.
        assert!(cells[3..6].iter().all(|cell| cell.share == 0.0));
        assert_eq!(confusion.sentence(), "Most common mistake: cat taken for dog, 3 of 10.");
        assert_eq!(confusion.describe(cells[8]), "ship recognised, 8 of 10");
        assert_eq!(confusion.describe(cells[6]), "ship taken for cat, 2 of 10");
    }

    #[test]
    fn the_ends_have_sentences_of_their_own() {
        assert_eq!(confusion(&[0; 9]).sentence(), "No pictures tested.");
        assert_eq!(confusion(&[4, 0, 0, 0, 4, 0, 0, 0, 4]).sentence(), "No mistakes on these pictures.");
        assert_eq!(confusion(&[0, 4, 0, 0, 4, 0, 0, 4, 0]).sentence(), "It calls every picture “dog”.");
    }
}
