//! `unmask data`: pictures to learn from.

mod fetch;
mod show;

use clap::Subcommand;

use crate::Failure;

#[derive(Debug, Subcommand)]
pub enum Data {
    /// Get CIFAR-10: 60000 photographs of 32 x 32 pixels in ten classes, by Alex Krizhevsky.
    Cifar10(fetch::Cifar10),
    /// Look at a data set: the number of pictures in each class, and a sheet of samples.
    Show(show::Show),
}

impl Data {
    /// Gets or shows pictures.
    ///
    /// # Errors
    /// [`Failure::Input`] where an argument cannot work; [`Failure::Other`] where the network or the disk fails.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Cifar10(cifar10) => cifar10.run(),
            Self::Show(show) => show.run(),
        }
    }
}
