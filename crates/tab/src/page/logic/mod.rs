//! What the pages decide and say, without a browser: native tests reach all of it.

pub mod address;
pub mod attacks;
pub mod careful;
pub mod chart;
pub mod clock;
pub mod columns;
pub mod drafts;
pub mod input;
pub mod keys;
pub mod learning;
pub mod loan;
pub mod names;
pub mod remembered;
pub mod swarm;
pub mod tiles;
pub mod turn;
pub mod votes;
pub mod wall;

use serde::Serialize;
use unmask_core::{
    Aggregation, Architecture, Defence, EncryptionStart, GaussianNoise, NoiseUnit, OptimiserKind, Rule,
    SecureSumSettings, Threshold,
};
use unmask_data::metrics::RECOGNISABLE_FROM;
use unmask_wire::view::{ClientState, EncryptionView, FederationLink, FederationView, JournalView, NextView, Phase};

use unmask_words::{Language, say};

use self::learning::{partition, trains_on};
use crate::protocol::Notice;

/// The verdict on an SSIM, as used in data attributes.
pub fn verdict(ssim: f32) -> &'static str {
    if f64::from(ssim) < RECOGNISABLE_FROM { "not-recognisable" } else { "recognisable" }
}

/// The JSON name of a value, for data attributes.
pub fn key(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

pub fn rule(rule: Rule) -> String {
    match rule {
        Rule::FedSgd => rule.title().to_owned(),
        Rule::FedAvg { epochs, rate } => {
            say::details::averaged(epochs.into(), rule.title(), decimal(number(rate.into())))
        }
    }
}

pub fn optimiser(optimiser: OptimiserKind) -> String {
    format!("{}, rate {}", optimiser.title(), number(optimiser.rate().into()))
}

/// Describes what changes with the next round. `architecture` is the one now in use.
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
        next.aggregation.map(|aggregation| aggregation.title().to_lowercase()),
        next.batch.map(|batch| format!("batch {batch}")),
        next.train_on.map(|pictures| trains_on(pictures).to_owned()),
        next.partition.map(|form| format!("shared pictures divided {}", partition(form))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Describes an update made from `samples` pictures under this rule.
pub fn update_content(rule: Rule, samples: u32) -> String {
    match rule {
        Rule::FedAvg { epochs, .. } => say::details::weights(epochs.into(), samples),
        Rule::FedSgd => say::details::gradient(samples),
    }
}

/// Explains what the drawings of an update show, if that needs an explanation.
pub fn drawing_note(rule: Rule) -> &'static str {
    if rule.is_fedavg() { say::details::drawing_note() } else { "" }
}

/// A noise-to-signal ratio: `3.4 : 1`, or `none` without noise.
pub fn ratio(noise: f32) -> String {
    match noise {
        noise if noise <= 0.0 => say::unit::none().to_owned(),
        noise if noise.is_finite() => format!("{} : 1", decimal(number(noise.into()))),
        _ => say::unit::only_noise().to_owned(),
    }
}

/// Explains how the standard deviation follows from the parameters of the noise.
pub fn deviation(noise: &GaussianNoise) -> String {
    let bound = noise.clip().map_or("any".to_owned(), |clip| format!("at most {}", number(clip)));
    let what = match noise.unit() {
        NoiseUnit::Update => format!("an update whose norm is {bound}"),
        NoiseUnit::Picture => format!("the sum of the pictures’ gradients, of which each has a norm of {bound}"),
    };
    format!(
        "σ = √(2 ln(1.25/δ)) / ε = {}: noise of standard deviation S_f σ = {} on every value of {what}.",
        number(noise.sigma()),
        number(noise.deviation()),
    )
}

/// Says who encrypted the room's model and what the relay knows about it.
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

/// What the teacher can choose from.
pub const AGGREGATIONS: [Aggregation; 6] = [
    Aggregation::Mean,
    Aggregation::Clipped,
    Aggregation::Aligned,
    Aggregation::TrimmedMean { share: 0.2 },
    Aggregation::Median,
    Aggregation::SecureSum(SecureSumSettings { threshold: Threshold::TWO_THIRDS, clip: Some(1.0) }),
];

/// The aggregation for updates under this defence: noise clips by itself.
pub fn fitting(aggregation: Aggregation, defence: Defence) -> Aggregation {
    match aggregation {
        Aggregation::SecureSum(sum) if defence.noise().is_some() => {
            Aggregation::SecureSum(SecureSumSettings { clip: None, ..sum })
        }
        aggregation => aggregation,
    }
}

/// Says how updates are averaged and which attackers that does not stop.
pub fn aggregation(aggregation: Aggregation, is_encrypted: bool) -> String {
    let does = match aggregation {
        Aggregation::Mean => "Plain mean: one update that is large enough moves the model anywhere.".to_owned(),
        Aggregation::Clipped => "Clipped mean: an update much longer than the others is shortened. \
                                 One of usual length that points the wrong way counts like any other."
            .to_owned(),
        Aggregation::Aligned => {
            "Aligned mean: an update much longer than the others is shortened, and one that points \
                                 against the others is left out, even an honest one from unusual pictures."
                .to_owned()
        }
        Aggregation::TrimmedMean { share } => format!(
            "Trimmed mean: of each parameter the smallest and the largest {:.0} % are dropped. \
             A larger share of hostile clients moves the model.",
            100.0 * share
        ),
        Aggregation::Median => {
            "Median of each parameter: hostile clients move the model once they are half of the class.".to_owned()
        }
        Aggregation::SecureSum(_) => {
            "Secure sum: the tabs mask their updates so that the relay reads only the sum of all. \
                                      Nobody can check the size of one update."
                .to_owned()
        }
    };
    if is_encrypted {
        format!(
            "{does} Encrypted updates cannot be judged: their lengths are those of cipher text, and the relay reads no \
             value. Everyone with the passphrase is trusted."
        )
    } else {
        does
    }
}

/// Turns a reason into a sentence with a capital letter and a full stop.
pub fn sentence(reason: &str) -> String {
    let mut characters = reason.trim().chars();
    let first = characters.next().map(char::to_uppercase).into_iter().flatten();
    let mut text: String = first.chain(characters).collect();
    if !text.ends_with(['.', '!', '?', '。']) {
        text.push('.');
    }
    text
}

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

/// A client's state, with a symbol whose shape differs, not only its colour.
pub fn client_state(state: ClientState) -> &'static str {
    match state {
        ClientState::Joined => "○ joined",
        ClientState::Training => "◐ training",
        ClientState::Sent => "● sent",
        ClientState::Late => "▲ late",
        ClientState::Away => "☾ away",
        ClientState::SittingOut => "‖ sitting out",
        ClientState::Excluded => "⊘ left out",
        ClientState::Waiting => "… waits to be let in",
        ClientState::Gone => "✕ left",
    }
}

/// Formats bytes with a decimal unit: `812 B`, `1.8 kB`, `22.1 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    // 999.95 would be printed as 1000.0.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", decimal(format!("{value:.1}")), UNITS[unit])
}

/// Formats a count with thin spaces between thousands: `1 234 567`.
pub fn count(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 * '\u{2009}'.len_utf8());
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// Replaces the decimal point of `number` by the page language's own separator.
pub fn decimal(number: String) -> String {
    Language::now().decimal(number)
}

/// Formats a share from 0 to 1 as a percentage: `50.0 %`. Only exactly 0 is `0 %`, and only exactly 1 is `100 %`.
pub fn percent(share: f32) -> String {
    match share {
        share if share <= 0.0 => say::unit::percent(0),
        share if share >= 1.0 => say::unit::percent(100),
        share => say::unit::percent(decimal(format!("{:.1}", (share * 100.0).clamp(0.1, 99.9)))),
    }
}

/// Formats a duration: `3 ms`, `1.2 s`, `2 min 5 s`.
pub fn duration(milliseconds: f64) -> String {
    if milliseconds < 999.5 {
        say::unit::milliseconds(format_args!("{milliseconds:.0}"))
    } else if milliseconds < 59_950.0 {
        say::unit::seconds(decimal(format!("{:.1}", milliseconds / 1000.0)))
    } else {
        let seconds = (milliseconds / 1000.0).round() as u64;
        say::unit::minutes(seconds / 60, seconds % 60)
    }
}

/// Formats a number with few digits: `0.1`, `0.169`, `1e-5`, `12.5`.
pub fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
        let digits = 2 - value.abs().max(1e-3).log10().floor() as i32;
        let text = format!("{value:.places$}", places = digits.max(0) as usize);
        let is_decimal = text.contains('.');
        if is_decimal { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    } else {
        let text = format!("{value:.2e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// `1 picture`, `2 pictures`.
pub fn counted(number: u32, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn host(address: &str) -> &str {
    address.split_once("://").map_or(address, |(_, host)| host)
}

/// Tells people who join a federation's room where the class's weights also go.
pub fn also_goes_to(superlink: &str) -> String {
    say::join::federation(host(superlink))
}

/// The worker's notice to the student. A reason keeps the words of the program that gave it.
pub fn notice(notice: &Notice) -> String {
    match notice {
        Notice::Encrypted => say::trainer::encrypted().to_owned(),
        Notice::NotForgotten => say::trainer::not_forgotten().to_owned(),
        Notice::NotAsked => say::notice::not_asked().to_owned(),
        Notice::Renamed { nickname } => say::notice::renamed(nickname),
        Notice::NoUpdate { round, reason } => sentence(&say::notice::no_update(*round, reason)),
        Notice::NotEncrypted { reason } => sentence(&say::notice::not_encrypted(reason)),
        Notice::NotCompared { round, reason } => sentence(&say::notice::not_compared(*round, reason)),
        Notice::NotShown { reason } => sentence(&say::notice::not_shown(reason)),
        Notice::Said(words) => sentence(words),
    }
}

/// The state of the room in its federation, in one line.
pub fn federation(federation: &FederationView) -> String {
    let FederationView { superlink, link, round, done, of, is_held, remark } = federation;
    let host = host(superlink);
    let name = if host.is_empty() { say::federation::unnamed().to_owned() } else { say::federation::named(host) };
    let line = match (link, of, round) {
        (FederationLink::Connecting, ..) => return say::federation::asking(name),
        (FederationLink::Lost, ..) => return say::federation::lost(name),
        (FederationLink::Connected, ..) if *is_held => return say::federation::held(name),
        (FederationLink::Connected, 0, _) => say::federation::idle(name),
        (FederationLink::Connected, of, Some(round)) => say::federation::round(*of, name, *round, *done),
        (FederationLink::Connected, of, None) => say::federation::done(*of, name, *done),
    };
    match remark {
        Some(remark) => format!("{line}. {remark}"),
        None => line,
    }
}

/// Says how many rounds are saved on disk.
pub fn journal(journal: &JournalView) -> String {
    match (&journal.failure, journal.round) {
        (None, 0) => "Saved; no round has closed yet".to_owned(),
        (None, round) => format!("Saved through round {round}"),
        (Some(failure), 0) => format!("Not saved: {}", sentence(failure)),
        (Some(failure), round) => format!("Not saved since round {round}: {}", sentence(failure)),
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;

    #[test]
    fn what_no_aggregation_stops_is_said_and_encryption_stops_less() {
        for by in ["mean", "clipped", "aligned", "trimmed-mean:0.2", "median", "secure-sum:clip=1"] {
            let by: Aggregation = by.parse().unwrap();
            let (open, encrypted) = (aggregation(by, false), aggregation(by, true));
            assert!(encrypted.starts_with(&open) && encrypted.contains("cannot be judged"), "{encrypted}");
        }
        assert!(aggregation(Aggregation::TrimmedMean { share: 0.2 }, false).contains("largest 20 %"));
    }

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

    #[test]
    fn bytes_change_unit_without_a_four_digit_value() {
        let cases = [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_960, "1.0 MB")];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(bytes(22_123_456), "22.1 MB");
    }

    #[test]
    fn counts_are_grouped_by_three() {
        assert_eq!(count(7), "7");
        assert_eq!(count(100), "100");
        assert_eq!(count(1_234_567), "1\u{2009}234\u{2009}567");
        assert_eq!(count(459_562), "459\u{2009}562");
    }

    #[test]
    fn shares_near_the_ends_do_not_claim_the_ends() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_01), "0.1 %");
        assert_eq!(percent(0.999_99), "99.9 %");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn durations_carry() {
        assert_eq!(duration(12.0), "12 ms");
        assert_eq!(duration(999.7), "1.0 s");
        assert_eq!(duration(59_960.0), "1 min 0 s");
        assert_eq!(duration(125_000.0), "2 min 5 s");
    }

    #[test]
    fn figures_are_written_as_the_language_does() {
        let written = || [percent(0.5), bytes(1_800), duration(1_200.0), duration(125_000.0), ratio(3.4)];
        assert_eq!(Language::German.speaking(written), ["50,0 %", "1,8 kB", "1,2 s", "2 min 5 s", "3,4 : 1"]);
        assert_eq!(Language::Japanese.speaking(written), ["50.0%", "1.8 kB", "1.2秒", "2分5秒", "3.4 : 1"]);
    }

    #[test]
    fn numbers_are_short() {
        let cases = [(0.1, "0.1"), (0.169_38, "0.169"), (1e-5, "1e-5"), (1.5e-9, "1.5e-9"), (12.5, "12.5"), (4.0, "4")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(0.001_f32.into()), "0.001");
        assert_eq!(number(100.0), "100");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(2e7), "2e7");
    }

    #[test]
    fn a_notice_is_said_in_the_page_s_language() {
        let no_update = Notice::NoUpdate { round: 3, reason: "out of memory".to_owned() };
        assert_eq!(notice(&no_update), "No update was sent in round 3: out of memory.");
        let said = Language::German.speaking(|| notice(&no_update));
        assert_eq!(said, "In Runde 3 wurde kein Update gesendet: out of memory.");
        assert_eq!(notice(&Notice::Said("the room is full".to_owned())), "The room is full.");
    }

    #[test]
    fn a_federation_says_where_it_is_and_how_far() {
        let view = |link, round, of| FederationView {
            superlink: "http://flower.school:9092".to_owned(),
            link,
            round,
            of,
            ..FederationView::default()
        };
        assert_eq!(federation(&view(FederationLink::Connecting, None, 0)), "Federation flower.school:9092: asking");
        assert_eq!(federation(&view(FederationLink::Connected, None, 0)), "Federation flower.school:9092: no work yet");
        let at_work = FederationView { done: 1, ..view(FederationLink::Connected, Some(3), 2) };
        assert_eq!(federation(&at_work), "Federation flower.school:9092, round 3: 1 of 2 rounds here");
        let lost = federation(&view(FederationLink::Lost, Some(3), 2));
        assert_eq!(lost, "Federation flower.school:9092: no answer; the room goes on by itself");
        let held = federation(&FederationView { is_held: true, ..at_work });
        assert_eq!(held, "Federation flower.school:9092 waits: the room is paused");
        let lost = federation(&FederationView { is_held: true, ..view(FederationLink::Lost, Some(3), 2) });
        assert!(lost.contains("no answer"), "{lost}");
        // A recorded lesson leaves out the SuperLink's address.
        let recorded = FederationView { superlink: String::new(), ..view(FederationLink::Connected, Some(1), 1) };
        assert_eq!(federation(&recorded), "Federation, round 1: 0 of 1 round here");
    }

    #[test]
    fn a_journal_says_how_far_it_is_or_why_it_is_not() {
        let said = |round, failure: Option<&str>| journal(&JournalView { round, failure: failure.map(str::to_owned) });
        assert_eq!(said(0, None), "Saved; no round has closed yet");
        assert_eq!(said(12, None), "Saved through round 12");
        let full = "the disk is full; free some space";
        assert_eq!(said(12, Some(full)), "Not saved since round 12: The disk is full; free some space.");
        assert_eq!(said(0, Some(full)), "Not saved: The disk is full; free some space.");
    }
}
