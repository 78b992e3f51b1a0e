//! Writes the generated data set as `train.bin` and `test.bin` for programs in other languages. The layout is that of
//! CIFAR-10's files: a label byte, then the red, green and blue planes.
//!
//!     cargo run --release -p unmask-data --features datasets --example generated_records -- FOLDER [SEED]

use std::{env, error::Error, fs, path::PathBuf, time::Instant};

use unmask_data::datasets::{
    contact_sheet,
    generated::{Half, TEST, TRAIN, generate},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name a folder to write to")?);
    let seed = arguments.next().map_or(Ok(1), |seed| seed.to_string_lossy().parse())?;
    fs::create_dir_all(&folder)?;
    for (name, half, count) in [("train", Half::Train, TRAIN), ("test", Half::Test, TEST)] {
        let begun = Instant::now();
        let set = generate(half, count, seed)?;
        println!("{name}: {count} pictures in {:.2} s", begun.elapsed().as_secs_f64());
        let plane = |rgb: &[u8], channel: usize| rgb.iter().skip(channel).step_by(3).copied().collect::<Vec<_>>();
        let records: Vec<u8> = (0..set.len())
            .filter_map(|index| Some((set.labels()[index], set.rgb(index)?)))
            .flat_map(|(label, rgb)| [vec![label], plane(rgb, 0), plane(rgb, 1), plane(rgb, 2)].concat())
            .collect();
        fs::write(folder.join(name).with_extension("bin"), records)?;
        let sheet = unmask_data::encode_png(&contact_sheet(&set, 12, 2)?)?;
        fs::write(folder.join(name).with_extension("png"), sheet)?;
    }
    Ok(())
}
