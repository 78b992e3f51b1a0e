//! The state shared by all handlers.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use unmask_room::{Input, Pictures, Snapshot};

use super::{check::Place, rendered::Rendered, scopes::Scopes};
use crate::{
    config::{Limits, ModelFile},
    connection::Common,
    supervisor::Erasure,
};

#[derive(Clone)]
pub(crate) struct App {
    pub(crate) room: mpsc::Sender<Input>,
    pub(crate) erasures: mpsc::Sender<Erasure>,
    pub(crate) scopes: Arc<Scopes>,
    pub(crate) https_address: Arc<str>,
    pub(crate) https_port: u16,
    pub(crate) place: Arc<Place>,
    pub(crate) snapshots: watch::Receiver<Snapshot>,
    pub(crate) events: watch::Sender<Arc<str>>,
    pub(crate) pictures: Arc<Pictures>,
    pub(crate) rendered: Arc<Rendered>,
    pub(crate) limits: Limits,
    pub(crate) sockets: Common,
    pub(crate) model_file: Option<ModelFile>,
    pub(crate) is_recorded: bool,
}
