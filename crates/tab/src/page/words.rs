//! Numbers and states in words for people.

mod attacks;
mod learning;
mod room;
mod units;

use serde::Serialize;
use unmask_core::{Architecture, Defence, EncryptionStart, GaussianNoise, OptimiserKind, Rule};
use unmask_data::metrics::RECOGNISABLE_FROM;
use unmask_wire::view::{ClientState, EncryptionView, NextView, Phase};

pub use self::attacks::{
    attack_time_spent, attacks_skipped, comparison_note, equations, hidden_entries, labels, membership,
    not_recognisable, search_state, share,
};
pub use self::learning::{
    data_set, evaluated, initial_weights, loss_heading, model_asked, partition, prediction, shared_pictures, training,
    trains_on, unmeasured,
};
pub use self::room::journal;
pub use self::units::{bytes, count, counted, duration, number, percent};

/// What an SSIM means in one word, as the data attributes say it.
pub fn verdict(ssim: f32) -> &'static str {
    if f64::from(ssim) < RECOGNISABLE_FROM { "not-recognisable" } else { "recognisable" }
}

/// The word by which the room's JSON calls something, for data attributes.
pub fn key(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// A rule in words.
pub fn rule(rule: Rule) -> String {
    match rule {
        Rule::FedSgd => rule.title().to_owned(),
        Rule::FedAvg { epochs, rate } => {
            format!("{}, {} at rate {}", rule.title(), counted(epochs.into(), "local epoch"), number(rate.into()))
        }
    }
}

/// A server's optimiser in words.
pub fn optimiser(optimiser: OptimiserKind) -> String {
    format!("{}, rate {}", optimiser.title(), number(optimiser.rate().into()))
}

/// What changes with the next round, in words. `architecture` is the one in force.
pub fn next(next: &NextView, architecture: Architecture) -> String {
    let model = next.architecture.filter(|next| next.name() != architecture.name());
    let block = next.architecture.map(Architecture::april_block).filter(|on| *on != architecture.april_block());
    let parts = [
        model.map(|model| model.to_string()),
        block.map(|on| if on { "April block" } else { "standard block" }.to_owned()),
        next.architecture.map(|_| "new weights".to_owned()),
        next.defence.as_ref().map(Defence::phrase),
        next.rule.map(rule),
        next.optimiser.map(optimiser),
        next.batch.map(|batch| format!("batch {batch}")),
        next.train_on.map(|pictures| trains_on(pictures).to_owned()),
        next.partition.map(|form| format!("shared pictures divided {}", partition(form))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// What an update made from `samples` pictures is under this rule.
pub fn update_content(rule: Rule, samples: u32) -> String {
    let pictures = counted(samples, "picture");
    match rule {
        Rule::FedAvg { epochs, .. } => {
            format!("the weights after {} over {pictures}", counted(epochs.into(), "local epoch"))
        }
        Rule::FedSgd => format!("the gradient of {pictures}"),
    }
}

/// What the drawings of an update show, where that needs saying.
pub fn drawing_note(rule: Rule) -> &'static str {
    if rule.is_fedavg() { " The pictures show how far the weights moved from those received." } else { "" }
}

/// A noise-to-signal ratio: `3.4 : 1`, or `none` without noise.
pub fn ratio(noise: f32) -> String {
    match noise {
        noise if noise <= 0.0 => "none".to_owned(),
        noise if noise.is_finite() => format!("{} : 1", number(noise.into())),
        _ => "nothing but noise".to_owned(),
    }
}

/// The standard deviation that follows from the noise's parameters.
pub fn deviation(noise: &GaussianNoise) -> String {
    format!(
        "σ = √(2 ln(1.25/δ)) / ε = {}: noise of standard deviation S_f σ = {} on every value of an update whose norm is at most {}.",
        number(noise.sigma()),
        number(noise.deviation()),
        number(noise.clip())
    )
}

/// Who encrypted a room's model, and what the relay knows of it.
pub fn encryption(encryption: &EncryptionView) -> String {
    let is_keyed = encryption.start == EncryptionStart::Keyed;
    let knows = if is_keyed {
        "the relay has never seen this model unencrypted. A weak passphrase can still be guessed offline from the key check."
    } else {
        "the relay knows the model it sent out, and anyone who has it both plain and encrypted can compute the key. \
         A keyed start avoids that."
    };
    let start = if is_keyed { "Keyed start" } else { "Plain start" };
    match &encryption.sealed_by {
        Some(nickname) if is_keyed => format!("{start}: {nickname} drew and encrypted the weights; {knows}"),
        Some(nickname) => format!("{start}: {nickname} encrypted the weights; {knows}"),
        None => {
            format!(
                "{start}: not encrypted yet. The first tab with the passphrase encrypts the model before the next round."
            )
        }
    }
}

/// A reason as a sentence: with a capital, and a full stop if it has none.
pub fn sentence(reason: &str) -> String {
    let mut characters = reason.trim().chars();
    let first = characters.next().map(char::to_uppercase).into_iter().flatten();
    let mut text: String = first.chain(characters).collect();
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

/// The phase as a headline.
pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Paused => "Paused",
        Phase::Waiting => "Waiting for someone to join",
        Phase::Locked => "Waiting for the passphrase",
        Phase::Sealing => "Encrypting the model",
        Phase::Training => "Training",
        Phase::Between => "Between rounds",
    }
}

/// A client's state, with a sign that differs in shape, not only in colour.
pub fn client_state(state: ClientState) -> &'static str {
    match state {
        ClientState::Joined => "○ joined",
        ClientState::Training => "◐ training",
        ClientState::Sent => "● sent",
        ClientState::Late => "▲ late",
        ClientState::Away => "☾ away",
        ClientState::SittingOut => "‖ sitting out",
        ClientState::Excluded => "⊘ left out",
        ClientState::Gone => "✕ left",
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;

    #[test]
    fn states_are_called_as_in_the_rooms_json() {
        assert_eq!((key(Phase::Between).as_str(), key(ClientState::Gone).as_str()), ("between", "gone"));
    }

    #[test]
    fn reasons_become_sentences() {
        assert_eq!(sentence("this room's model is encrypted; type it"), "This room's model is encrypted; type it.");
        assert_eq!(sentence("Done."), "Done.");
    }

    #[test]
    fn noise_is_set_against_the_signal() {
        assert_eq!(ratio(0.0), "none");
        assert_eq!(ratio(340.2), "340 : 1");
        assert_eq!(ratio(0.25), "0.25 : 1");
        assert_eq!(ratio(f32::INFINITY), "nothing but noise");
    }

    #[test]
    fn only_what_changes_is_announced() {
        let pico = Architecture::from(VitPreset::Pico);
        assert_eq!(next(&NextView::default(), pico), "");
        let one = NextView { defence: Some("random-binary:0.5".parse().expect("a defence")), ..NextView::default() };
        assert_eq!(next(&one, pico), "random binary weights, R = 0.5");
        let both = NextView { architecture: Some(pico.with_april_block(true)), batch: Some(4), ..one };
        assert_eq!(next(&both, pico), "April block; new weights; random binary weights, R = 0.5; batch 4");
        let fresh = NextView { architecture: Some(pico), ..NextView::default() };
        assert_eq!(next(&fresh, pico), "new weights");
        let nano = Architecture::from(VitPreset::Nano).with_april_block(true);
        assert_eq!(next(&fresh, nano), "vit_pico_patch4_16; standard block; new weights");
    }

    #[test]
    fn deviation_is_that_of_the_papers_table() {
        let noise = GaussianNoise::new(4.0, 0.5, 0.5).expect("good");
        assert!(deviation(&noise).contains("S_f σ = 0.169 "), "{}", deviation(&noise));
    }

    #[test]
    fn either_start_says_what_the_relay_can_do() {
        let sealed = |start| EncryptionView { start, sealed_by: Some("Ada".to_owned()) };
        assert!(
            encryption(&sealed(EncryptionStart::Plain))
                .contains("Ada encrypted the weights; the relay knows the model")
        );
        assert!(encryption(&sealed(EncryptionStart::Keyed)).contains("never seen"));
        assert!(
            encryption(&EncryptionView { sealed_by: None, ..sealed(EncryptionStart::Keyed) })
                .contains("not encrypted yet")
        );
    }

    #[test]
    fn the_line_itself_counts_as_recognisable() {
        assert_eq!(verdict(0.5), "recognisable");
        assert_eq!(verdict(0.499), "not-recognisable");
        assert_eq!(verdict(-0.02), "not-recognisable");
    }
}
