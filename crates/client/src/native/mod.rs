//! The headless client: the tab's protocol and defences on a tokio socket, with pictures from a folder.

mod address;
mod join;
mod passphrase;
mod random;
mod samples;
mod session;
mod session_secret;
mod volunteer;

pub use address::{AddressError, RoomAddress};
pub use join::{JoinOptions, join};
pub use passphrase::Passphrase;
pub use samples::{Sample, load_samples, sample_photographs};
