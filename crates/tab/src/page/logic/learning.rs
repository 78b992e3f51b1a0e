//! Describes what the room learns from, how well, and what the model gets wrong.

use unmask_core::{InitialWeights, OptimiserKind, Partition, Rule, TrainOn};
use unmask_wire::view::{DataView, EvaluationView};

use unmask_words::say;

use super::{count, decimal, names::shown_class, number, optimiser, percent, rule};

/// How the room trains, in one line. FedAvg has no server optimiser, and a student has one private picture at any batch
/// size.
pub fn training(form: Rule, step: OptimiserKind, batch: u16, train_on: TrainOn) -> String {
    let step = if form.is_fedavg() { String::new() } else { format!(" · {}", optimiser(step)) };
    let batch = match batch {
        1 => "batch 1".to_owned(),
        batch if train_on == TrainOn::Private => format!("batch of up to {batch} (a tab has one picture)"),
        batch => format!("batch {batch}"),
    };
    format!("{}{step} · {} · {batch}", rule(form), trains_on(train_on))
}

pub fn trains_on(pictures: TrainOn) -> &'static str {
    match pictures {
        TrainOn::Private => "private pictures",
        TrainOn::Shared => "shared pictures",
    }
}

pub fn partition(partition: Partition) -> String {
    match partition {
        Partition::Dirichlet { alpha } => say::details::dirichlet(decimal(number(alpha))),
        Partition::Iid => say::details::evenly().to_owned(),
    }
}

/// The data set and how it is divided, for the teacher.
pub fn data_set(data: &DataView) -> String {
    if !data.is_ready {
        return format!("{}, loaded when a round first needs it.", data.name);
    }
    format!(
        "{}: {} classes, {} training pictures, {} held out. Divided {} among {} seats, at most {} each.",
        data.name,
        data.classes.len(),
        count(data.pictures as usize),
        count(data.held_out as usize),
        partition(data.partition),
        data.shard_count,
        data.shard_pictures
    )
}

/// Describes a shard: how many pictures, and of which classes. `counts` has one entry for each of `classes`.
pub fn shared_pictures(data: &str, classes: &[String], counts: &[u32]) -> String {
    let mut there: Vec<(u32, &str)> = counts
        .iter()
        .zip(classes)
        .filter(|(count, _)| **count > 0)
        .map(|(count, name)| (*count, name.as_str()))
        .collect();
    // A stable sort keeps classes with equal counts in order.
    there.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let total: u32 = counts.iter().sum();
    let named: Vec<String> = there.iter().take(3).map(|(_, name)| shown_class(name)).collect();
    let rest = if there.len() > named.len() { ", …" } else { "" };
    say::details::shared_pictures(total, data, named.join(", ") + rest)
}

/// A heading: whose pictures a client's loss is measured on.
pub fn loss_heading(is_shared: bool) -> &'static str {
    if is_shared { say::details::loss_shared() } else { say::details::loss_own() }
}

/// What an accuracy was measured on, when, and its confidence interval; `None` before the first result.
pub fn evaluated(evaluation: &EvaluationView) -> Option<String> {
    (evaluation.pictures > 0).then(|| {
        let when = match evaluation.round {
            0 => "before the first round".to_owned(),
            round => format!("after round {round}"),
        };
        let pictures = count(evaluation.pictures as usize);
        let [low, high] = evaluation.interval.map(|end| end * 100.0);
        format!("on {pictures} held-out pictures, {when} (95 % interval: {low:.0} to {high:.0} %)")
    })
}

/// Why the newest model has no accuracy, if so.
pub fn unmeasured(evaluation: &EvaluationView) -> Option<String> {
    evaluation.remark.as_deref().map(super::sentence)
}

pub fn initial_weights(weights: InitialWeights) -> &'static str {
    match weights {
        InitialWeights::Scratch => "from scratch",
        InitialWeights::Pretrained => weights.name(),
    }
}

/// The room's model's opinion of a picture, for its most probable class.
pub fn prediction(class: &str, probability: f32) -> String {
    let share = percent(probability);
    match probability {
        p if p >= 0.9 => say::details::sure(class, share),
        p if p >= 0.5 => say::details::thinks(class, share),
        _ => say::details::guesses(class, share),
    }
}

/// Says which model was asked and how good its answer can be.
pub fn model_asked(after: u32, classes: usize) -> String {
    let chance = percent(1.0 / classes.max(1) as f32);
    match after {
        0 => say::details::asked_before(classes, chance),
        round => say::details::asked_after(round, classes, chance),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The class in the pictures.
    pub row: usize,
    /// The class that the model predicts.
    pub column: usize,
    pub count: u32,
    /// Share of its row, 0 to 1; 0 in an empty row.
    pub share: f32,
}

impl Cell {
    /// Whether this cell counts correct predictions.
    pub fn is_right(self) -> bool {
        self.row == self.column
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Confusion {
    classes: Vec<String>,
    /// `[classes, classes]`, row-major.
    counts: Vec<u32>,
}

impl Confusion {
    /// Takes `counts` as `[classes, classes]`: a row for each class shown, a column for each class predicted. `None` if
    /// the size does not match or there are no classes.
    pub fn new(classes: Vec<String>, counts: Vec<u32>) -> Option<Self> {
        (!classes.is_empty() && counts.len() == classes.len() * classes.len()).then_some(Self { classes, counts })
    }

    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    pub fn cells(&self) -> Vec<Cell> {
        let classes = self.classes.len();
        let cell = |(place, &count): (usize, &u32)| {
            let row = place / classes;
            let whole = self.row_total(row).max(1);
            Cell { row, column: place % classes, count, share: (f64::from(count) / whole as f64) as f32 }
        };
        self.counts.iter().enumerate().map(cell).collect()
    }

    /// The most common mistake in words, or a note that there is none.
    pub fn sentence(&self) -> String {
        let cells: Vec<Cell> = self.cells().into_iter().filter(|cell| cell.count > 0).collect();
        let Some(first) = cells.first() else { return "No pictures tested.".to_owned() };
        // An untrained model predicts one class for everything; naming one pair of classes would hide that.
        if self.classes.len() > 1 && cells.iter().all(|cell| cell.column == first.column) {
            return format!("It calls every picture “{}”.", self.classes[first.column]);
        }
        let mistakes = cells.into_iter().filter(|cell| !cell.is_right());
        // The first among equals.
        match mistakes.reduce(|worst, cell| if cell.count > worst.count { cell } else { worst }) {
            Some(worst) => format!("Most common mistake: {}.", self.describe(worst)),
            None => "No mistakes on these pictures.".to_owned(),
        }
    }

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
    use super::{super::update_content, *};

    #[test]
    fn training_is_put_in_words() {
        let (adam, sgd) = (OptimiserKind::ADAM, OptimiserKind::SGD);
        let fedavg = |epochs, rate| Rule::FedAvg { epochs, rate };
        assert_eq!(
            training(Rule::FedSgd, adam, 1, TrainOn::Private),
            "FedSGD · Adam, rate 0.001 · private pictures · batch 1"
        );
        assert_eq!(
            training(fedavg(2, 0.05), adam, 16, TrainOn::Shared),
            "FedAvg, 2 local epochs at rate 0.05 · shared pictures · batch 16"
        );
        assert!(training(Rule::FedSgd, sgd, 4, TrainOn::Private).ends_with("batch of up to 4 (a tab has one picture)"));
        assert_eq!(rule(Rule::FED_AVG), "FedAvg, 1 local epoch at rate 0.1");
        assert_eq!(update_content(Rule::FedSgd, 1), "the gradient of 1 picture");
        assert_eq!(update_content(fedavg(3, 0.1), 6), "the weights after 3 local epochs; pictures: 6");
    }

    #[test]
    fn divisions_are_put_in_words() {
        assert_eq!(partition(Partition::Iid), "evenly (IID)");
        assert_eq!(partition(Partition::Dirichlet { alpha: 0.3 }), "by Dirichlet(α = 0.3)");
    }

    #[test]
    fn a_shard_names_what_it_has_most_of() {
        let classes = ["cat", "dog", "ship", "horse"].map(str::to_owned);
        assert_eq!(
            shared_pictures("CIFAR-10", &classes, &[2, 0, 150, 48]),
            "200 shared pictures of CIFAR-10: ship, horse, cat"
        );
        assert_eq!(
            shared_pictures("CIFAR-10", &classes, &[5, 5, 5, 5]),
            "20 shared pictures of CIFAR-10: cat, dog, ship, …"
        );
        assert_eq!(shared_pictures("CIFAR-10", &classes, &[0, 1, 0, 0]), "1 shared picture of CIFAR-10: dog");
    }

    #[test]
    fn an_accuracy_says_of_how_many_pictures_and_when() {
        let evaluation = EvaluationView {
            round: 12,
            accuracy: 0.62,
            interval: [0.578, 0.661],
            pictures: 500,
            remark: Some("the model is encrypted".to_owned()),
            ..EvaluationView::default()
        };
        let text = "on 500 held-out pictures, after round 12 (95 % interval: 58 to 66 %)";
        assert_eq!(evaluated(&evaluation).as_deref(), Some(text));
        assert_eq!(unmeasured(&evaluation).as_deref(), Some("The model is encrypted."));
        let start = EvaluationView { round: 0, remark: None, ..evaluation };
        assert!(evaluated(&start).is_some_and(|text| text.contains("before the first round")));
        let none = EvaluationView::default();
        assert_eq!((evaluated(&none), unmeasured(&none)), (None, None));
    }

    #[test]
    fn a_prediction_says_which_model_made_it() {
        assert!(model_asked(0, 10).starts_with("The room’s model before its first round. It knows 10 classes"));
        assert!(model_asked(7, 10).contains("after round 7") && model_asked(7, 10).ends_with("10.0 %."));
    }

    #[test]
    fn certainty_has_three_words() {
        assert_eq!(prediction("cat", 0.97), "It is sure: cat, 97.0 %");
        assert!(prediction("cat", 0.6).starts_with("It thinks"));
        assert!(prediction("cat", 0.2).starts_with("It guesses"));
    }

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
        // No dog was tested.
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
