//! What the room learns from, and how well, in words.

use unmask_core::{InitialWeights, OptimiserKind, Partition, Rule, TrainOn};
use unmask_wire::view::{DataView, EvaluationView};

use super::{count, counted, number, optimiser, percent, rule};

/// How the room trains, in one line. FedAvg has no step of the server, and a student has one private picture, whatever the
/// batch is.
pub fn training(form: Rule, step: OptimiserKind, batch: u16, train_on: TrainOn) -> String {
    let step = if form.is_fedavg() { String::new() } else { format!(" · {}", optimiser(step)) };
    let batch = match batch {
        1 => "batch 1".to_owned(),
        batch if train_on == TrainOn::Private => format!("batch of up to {batch} (a tab has one picture)"),
        batch => format!("batch {batch}"),
    };
    format!("{}{step} · {} · {batch}", rule(form), trains_on(train_on))
}

/// What a round trains on.
pub fn trains_on(pictures: TrainOn) -> &'static str {
    match pictures {
        TrainOn::Private => "private pictures",
        TrainOn::Shared => "shared pictures",
    }
}

/// A division in words.
pub fn partition(partition: Partition) -> String {
    match partition {
        Partition::Dirichlet { alpha } => format!("by Dirichlet(α = {})", number(alpha)),
        Partition::Iid => "evenly (IID)".to_owned(),
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

/// A shard in a sentence: how many pictures of what. `counts` are those of each of `classes`.
pub fn shared_pictures(data: &str, classes: &[String], counts: &[u32]) -> String {
    let mut there: Vec<(u32, &str)> = counts
        .iter()
        .zip(classes)
        .filter(|(count, _)| **count > 0)
        .map(|(count, name)| (*count, name.as_str()))
        .collect();
    // A stable sort: classes of which there are as many stay in their order.
    there.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let total: u32 = counts.iter().sum();
    let named: Vec<&str> = there.iter().take(3).map(|(_, name)| *name).collect();
    let rest = if there.len() > named.len() { ", …" } else { "" };
    format!("{} of {data}: {}{rest}", counted(total, "shared picture"), named.join(", "))
}

/// Whose pictures a client's loss is measured on, as a heading.
pub fn loss_heading(is_shared: bool) -> &'static str {
    if is_shared { "Loss on your shared pictures" } else { "Loss on your picture" }
}

/// What an accuracy was measured on and when, with its confidence interval; none before the first result.
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

/// Why there is no accuracy of the newest model, if so.
pub fn unmeasured(evaluation: &EvaluationView) -> Option<String> {
    evaluation.remark.as_deref().map(super::sentence)
}

/// What the model in force started from.
pub fn initial_weights(weights: InitialWeights) -> &'static str {
    match weights {
        InitialWeights::Scratch => "from scratch",
        InitialWeights::Pretrained => weights.name(),
    }
}

/// What the room's model says of a picture, for the class it finds most probable.
pub fn prediction(class: &str, probability: f32) -> String {
    let sure = match probability {
        p if p >= 0.9 => "It is sure",
        p if p >= 0.5 => "It thinks",
        _ => "It guesses",
    };
    format!("{sure}: {class}, {}", percent(probability))
}

/// Which model was asked, and what its answer is worth.
pub fn model_asked(after: u32, classes: usize) -> String {
    let model = match after {
        0 => "The room’s model before its first round".to_owned(),
        round => format!("The room’s model after round {round}"),
    };
    let chance = percent(1.0 / classes.max(1) as f32);
    format!(
        "{model}. It knows {classes} classes and assigns every picture to one of them; by chance, each gets {chance}."
    )
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
        assert_eq!(update_content(fedavg(3, 0.1), 6), "the weights after 3 local epochs over 6 pictures");
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
}
