//! Studies that attack: how similar the reconstructions are to the private pictures.

mod findings;
mod measurements;
mod panel;
mod pictures;
mod result;
mod results;
mod study;
mod watched;
mod weights;

pub(crate) use self::{
    findings::PapersPanel,
    panel::{MASKS, NONE, PATIENT, Panel, PanelAttack},
    result::{AttackResult, by_picture, matching_steps},
    study::AttackStudy,
    watched::watched,
    weights::Weights,
};
