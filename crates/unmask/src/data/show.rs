//! `unmask data show`: a data set at a glance.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use unmask_data::datasets::{DataSet, Labelled, Source, contact_sheet, default_cifar10_folder};
use unmask_data::encode_png;

use crate::{Failure, say};

const EXAMPLE: &str = "\
Examples

    unmask data show generated --out shapes.png
    unmask data show cifar10 --half test --out cifar10.png
    unmask data show folder:pets

A data set is one of
    cifar10      what `unmask data cifar10` fetched
    generated    ten shapes drawn from a seed, with no download: disc, ring, target, frame, grid, triangle, cross, ...
    folder:PATH  PNG, JPEG or WebP pictures, in a subfolder for each class (pets/cat, pets/dog); a random fifth of each
                 class, chosen by the seed, is held out for testing

The sheet has a row for each class, in the order of the printed list.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Show {
    /// cifar10, generated, or folder:PATH.
    #[arg(value_name = "SOURCE")]
    source: Source,
    /// Folder of the CIFAR-10 files, if not the default of `unmask data cifar10`.
    #[arg(long, value_name = "DIR")]
    cifar10: Option<PathBuf>,
    /// A .png file for the sheet; without it, only the list is printed.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Which half to draw on the sheet.
    #[arg(long, value_enum, default_value_t = Half::Train)]
    half: Half,
    /// Pictures of each class on the sheet; no more columns are drawn than the largest class has pictures.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=100))]
    columns: u16,
    /// Seed of the generated pictures and of the choice of held-out pictures.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Half {
    /// The pictures to train on.
    Train,
    /// The pictures to test with.
    Test,
}

impl Show {
    /// Prints the classes and draws the sheet.
    ///
    /// # Errors
    /// [`Failure::Input`] if there is no such data set or `--out` does not end in .png; [`Failure::Other`] if the sheet
    /// cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        if let Some(path) = self.out.as_deref().filter(|path| !is_png(path)) {
            let png = path.with_extension("png");
            return Err(Failure::Input(anyhow!(
                "the sheet is a PNG picture, but {} does not end in .png; give --out {}",
                path.display(),
                png.display()
            )));
        }
        let folder = self.cifar10.clone().unwrap_or_else(default_cifar10_folder);
        let set = DataSet::load(&self.source, &folder, self.seed).map_err(|error| Failure::Input(error.into()))?;
        for sentence in &set.left_out {
            eprintln!("{sentence}");
        }
        let side = set.train.side();
        let mut table = format!("{}: pictures of {side} x {side} pixels, to train on and to test with\n", set.name);
        let (train, test) = (counts(&set.train), counts(&set.test));
        for (class, (train, test)) in set.train.classes().iter().zip(train.into_iter().zip(test)) {
            table += &format!("{train:7} {test:6}  {class}\n");
        }
        table += &format!("{:7} {:6}  in all\n", set.train.len(), set.test.len());
        say(&table);
        let Some(path) = &self.out else { return Ok(()) };
        let half = if self.half == Half::Train { &set.train } else { &set.test };
        // Enlarged so that single pixels are visible.
        let zoom = (64 / side).max(1);
        let sheet = contact_sheet(half, self.columns.into(), zoom).map_err(|error| Failure::Other(error.into()))?;
        encode_png(&sheet)
            .map_err(anyhow::Error::from)
            .and_then(|png| fs::write(path, png).with_context(|| format!("{} cannot be written", path.display())))
            .map_err(Failure::Other)?;
        println!("the sheet is {}", path.display());
        Ok(())
    }
}

fn is_png(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"))
}

fn counts(set: &Labelled) -> Vec<usize> {
    let mut counts = vec![0; set.classes().len()];
    for &label in set.labels() {
        if let Some(count) = counts.get_mut(usize::from(label)) {
            *count += 1;
        }
    }
    counts
}
