//! Masks and cipher must be the same, bit for bit, in every client of a room. Each function returns words that are
//! stored in the files of `unmask-defence`; the native test and the browser's test compare them.

use unmask_core::{Architecture, EncryptionStart, GroupRates, MaskSeed, ParamLayout, VitPreset};
use unmask_defence::{Cipher, FROZEN_SEED, Mask, RoomKey};

pub const MASK_WORDS: &str = include_str!("../../../../defence/testdata/mask_groups.txt");
pub const ENCRYPTION_WORDS: &str = include_str!("../../../../defence/testdata/encryption.txt");

fn layout() -> ParamLayout {
    Architecture::from(VitPreset::Pico).layout()
}

/// Masks over a whole model with a rate for each group, for one client and frozen: the first words, one of every 31
/// others, and the number of values kept.
pub fn mask_words() -> String {
    let rates: GroupRates = "patch=0.95,pos=0.9,attn=0.5,mlp=0.2,norm=0,head=0.30001".parse().unwrap();
    let mut words = String::new();
    for (title, seed) in [("client", MaskSeed([7; 32])), ("frozen", FROZEN_SEED)] {
        let entries: Vec<bool> = Mask::new(seed, &rates, &layout()).entries().collect();
        words += &format!("{title} keeps {}\n", entries.iter().filter(|kept| **kept).count());
        for (index, chunk) in entries.chunks(64).enumerate() {
            if index < 8 || index % 31 == 0 {
                let word = chunk.iter().rev().fold(0u64, |word, kept| word << 1 | u64::from(*kept));
                words += &format!("{word:016x}\n");
            }
        }
    }
    words
}

/// The key check of a passphrase and a salt, values of E_a E_pat and E_b E_pos, and their decryption.
pub fn encryption_words() -> String {
    let layout = layout();
    let key = RoomKey::derive("correct horse battery staple", b"sixteen bytes of", EncryptionStart::Plain).unwrap();
    let cipher = Cipher::new(&key, &layout).unwrap();
    let plain: Vec<f32> = (0..layout.len() as u32).map(|i| i.wrapping_mul(2_654_435_761) as i32 as f32).collect();
    let mut words: String = cipher.check().0.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    let (mut encrypted, mut decrypted) = (plain.clone(), plain);
    cipher.encrypt(&mut encrypted).unwrap();
    cipher.decrypt(&mut decrypted).unwrap();
    for (title, values) in [("encrypted", encrypted), ("decrypted", decrypted)] {
        for name in ["patch_embed.proj.weight", "pos_embed"] {
            words += &format!("{title} {name}\n");
            let values = layout.slice(&values, name).unwrap();
            words.extend(values.iter().step_by(29).map(|value| format!("{:08x}\n", value.to_bits())));
        }
    }
    words
}
