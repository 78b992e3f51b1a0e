//! A room: its people, its rounds, its lesson and what is shown of the attacks, without sockets, threads, files and
//! clocks.
//!
//! Inputs, time and randomness go into a [`Classroom`]; effects come out of it. What attacks, measures, writes down and
//! federates stands behind the traits that its host hands in ([`Parts`]). The crate compiles to WebAssembly.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod answers;
mod attacks;
#[doc(hidden)]
pub mod bench;
mod checks;
mod classroom;
mod clock;
mod config;
mod contest;
mod control_error;
mod controls;
mod data_set;
mod digest;
mod door;
mod effects;
mod evaluation;
mod files;
mod fishing;
mod forgetting;
mod formats;
mod history;
mod host;
mod initialiser;
mod input;
mod journaling;
mod lending;
mod lesson;
mod log;
mod measuring;
mod memory;
mod moderation;
mod outbox;
mod outer;
mod outer_rounds;
mod peer;
mod people;
mod privacy;
mod randomness;
mod recent;
mod recording;
mod reply;
mod resuming;
mod roster;
mod scores;
mod shadow;
mod sharing;
mod sizes;
mod snapshot;
mod stage;
mod summing;
mod tasks;
mod text;
mod ticket;
mod time;
mod timers;
mod trade_off;
mod updates;
mod view;

pub use attacks::{
    AttackDesk, Attackers, CandidatePicture, DeskNews, ForeignMessage, GivenKey, GivenKeyError, NoCandidate, Pictures,
    Report, Step, Worker,
};
pub use classroom::Classroom;
pub use config::{JournalConfig, RoomConfig, RoomLimits};
pub use control_error::ControlError;
pub use data_set::{DataConfig, LoadError, Loader, SharedDataSet};
pub use digest::{digest, hex};
pub use door::NoEntry;
pub use evaluation::{BatchEvaluation, Evaluation, HeldOut, MeasureError, Measured, ModelEvaluator};
pub use files::LessonFiles;
pub use formats::{FORMAT, OLDEST_FORMAT};
pub use history::RoundRecord;
pub use host::{Host, Outside, Parts, Work, longest_message};
pub use initialiser::Pretrained;
pub use input::{Admission, Answer, Hello, Input};
pub use journaling::{Arrays, Journal, NotSaved, Save, Saved};
pub use lesson::{Beginning, LastLesson, LessonHead, LessonId, Opening, Resumed};
pub use log::TimedLine;
pub use measuring::NotMeasured;
pub use moderation::Everybody;
pub use outbox::{EncodedShard, OutboxMessage, Waiting};
pub use outer::{Contribution, NoContribution, OuterInput, TrainRequest};
pub use peer::{DeviceId, Peer};
pub use privacy::{Accountant, Guarantee, Mechanism};
pub use recording::{Archive, Archived, Keeper, RecordingOrder, RecordingStore};
pub use reply::Reply;
pub use roster::Connection;
pub use shadow::{ShadowNews, ShadowRoom};
pub use sizes::Size;
pub use snapshot::{JoinAddresses, Snapshot};
pub use ticket::Ticket;
pub use time::{Moment, Now};
