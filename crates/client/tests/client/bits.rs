//! Masks and cipher are the same in every client, bit for bit. The tab's tests check this in a browser.

use super::{golden, skipped};

/// With `UNMASK_BLESS` in the environment, the computed words become the expected ones.
#[test]
fn masks_are_those_of_every_client() {
    let found = golden::mask_words();
    if std::env::var_os("UNMASK_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../defence/testdata/mask_groups.txt");
        std::fs::write(path, &found).unwrap();
        return skipped::skipped("UNMASK_BLESS is set: the words were written to the files and not compared");
    }
    assert_eq!(found, golden::MASK_WORDS);
}

#[test]
fn cipher_is_that_of_every_client() {
    assert_eq!(golden::encryption_words(), golden::ENCRYPTION_WORDS);
}
