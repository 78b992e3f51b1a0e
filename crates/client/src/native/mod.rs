//! The headless client: the tab's protocol and defences on a tokio socket, with pictures from a folder. It can also be
//! a node of a Flower federation, without a room.

mod address;
mod flower;
mod join;
mod passphrase;
mod random;
mod samples;
mod session;
mod session_secret;

pub use address::{AddressError, RoomAddress};
pub use flower::{
    FlowerJoinError, FlowerOptions, FlowerPictures, FlowerTraining, ShardChoice, ShardChoiceError, join_flower,
};
pub use join::{JoinOptions, join};
pub use passphrase::Passphrase;
pub use samples::{Sample, load_samples, sample_photographs};
