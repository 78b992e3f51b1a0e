//! Masks and cipher are those that every other client has, bit for bit. The tab's tests check the same in a browser.

mod golden;
#[path = "../../../tests/support/skipped.rs"]
mod skipped;

/// With `UNMASK_BLESS` in the environment the words found are written down as the ones to expect from now on.
#[test]
fn masks_are_those_of_every_client() {
    let found = golden::mask_words();
    if std::env::var_os("UNMASK_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../defence/testdata/mask_groups.txt");
        std::fs::write(path, &found).unwrap();
        return skipped::skipped("UNMASK_BLESS is set: the words found were written down and compared with nothing");
    }
    assert_eq!(found, golden::MASK_WORDS);
}

#[test]
fn cipher_is_that_of_every_client() {
    assert_eq!(golden::encryption_words(), golden::ENCRYPTION_WORDS);
}
