//! What a model takes for what: a confusion matrix as cells, and in a sentence.

/// One square of the matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The class that the pictures show.
    pub row: usize,
    /// The class that the model says.
    pub column: usize,
    /// Number of pictures.
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

    /// Names of the classes.
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

    /// Number of pictures.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// Number of pictures of which the model says what they show.
    pub fn right(&self) -> u64 {
        self.counts.iter().step_by(self.classes.len() + 1).map(|&count| u64::from(count)).sum()
    }

    /// The mistake made most often, the first of equals; `None` where there is none.
    pub fn worst(&self) -> Option<Cell> {
        let wrong = self.cells().into_iter().filter(|cell| !cell.is_right() && cell.count > 0);
        wrong.reduce(|worst, cell| if cell.count > worst.count { cell } else { worst })
    }

    /// The mistake made most often in words, or that there is none.
    pub fn sentence(&self) -> String {
        if self.total() == 0 {
            return "No picture was tried.".to_owned();
        }
        // A model that has learnt nothing says the same of everything, and a pair of classes would hide that.
        if let Some(said) = self.only_answer()
            && self.classes.len() > 1
        {
            return format!("It says “{said}” of every picture.");
        }
        match self.worst() {
            Some(cell) => format!(
                "Most often wrong: {} taken for {}, {} of {}.",
                self.name(cell.row),
                self.name(cell.column),
                cell.count,
                self.row_total(cell.row)
            ),
            None => "No mistake on these pictures.".to_owned(),
        }
    }

    /// A cell in words.
    pub fn describe(&self, cell: Cell) -> String {
        let (shown, said) = (self.name(cell.row), self.name(cell.column));
        let of = self.row_total(cell.row);
        if cell.is_right() {
            format!("{shown}: {} of {of} recognised", cell.count)
        } else {
            format!("{shown} taken for {said}: {} of {of}", cell.count)
        }
    }

    fn name(&self, class: usize) -> &str {
        self.classes.get(class).map_or("", String::as_str)
    }

    fn row_total(&self, row: usize) -> u64 {
        let classes = self.classes.len();
        self.counts.iter().skip(row * classes).take(classes).map(|&count| u64::from(count)).sum()
    }

    fn only_answer(&self) -> Option<&str> {
        let mut said = self.cells().into_iter().filter(|cell| cell.count > 0).map(|cell| cell.column);
        let first = said.next()?;
        said.all(|column| column == first).then(|| self.name(first))
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
        assert_eq!((confusion.total(), confusion.right()), (20, 14));
        let cells = confusion.cells();
        assert_eq!(cells[1], Cell { row: 0, column: 1, count: 3, share: 0.3 });
        // No dog was tried.
        assert!(cells[3..6].iter().all(|cell| cell.share == 0.0));
        assert_eq!(confusion.sentence(), "Most often wrong: cat taken for dog, 3 of 10.");
        assert_eq!(confusion.describe(cells[8]), "ship: 8 of 10 recognised");
        assert_eq!(confusion.describe(cells[6]), "ship taken for cat: 2 of 10");
    }

    #[test]
    fn the_ends_have_sentences_of_their_own() {
        assert_eq!(confusion(&[0; 9]).sentence(), "No picture was tried.");
        assert_eq!(confusion(&[4, 0, 0, 0, 4, 0, 0, 0, 4]).sentence(), "No mistake on these pictures.");
        assert_eq!(confusion(&[0, 4, 0, 0, 4, 0, 0, 4, 0]).sentence(), "It says “dog” of every picture.");
    }
}
