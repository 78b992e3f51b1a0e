//! A lesson's parts in the store.

use std::sync::Arc;

use unmask_core::{Architecture, ModelState};
use unmask_federation::{GlobalModel, Moments};
use unmask_room::{Arrays, LastLesson, Save};

use crate::{
    folder::Folder,
    store::{Contents, Store, Values},
};

const WEIGHTS: &str = "weights";
const STATISTICS: &str = "statistics";
const FIRST: &str = "first moments";
const SECOND: &str = "second moments";
const RECORDS: &str = "records";

/// Writes a state of the room.
///
/// # Errors
/// As [`Store::write`].
pub fn save<F: Folder>(store: &mut Store<F>, save: &Save) -> anyhow::Result<()> {
    let Save { header, arrays, is_fresh, deletes_set_aside, .. } = save;
    if *deletes_set_aside {
        store.delete_set_aside()?;
    }
    let Some(Arrays { model, moments, records }) = arrays else { return store.write(header, None, false) };
    let records = postcard::to_stdvec(records)?;
    let parts = [
        (WEIGHTS, Values::Floats(&model.state.weights)),
        (STATISTICS, Values::Floats(&model.state.statistics)),
        (FIRST, Values::Floats(&moments.first)),
        (SECOND, Values::Floats(&moments.second)),
        (RECORDS, Values::Bytes(&records)),
    ];
    store.write(header, Some(&parts), *is_fresh)
}

/// Reads the lesson that was saved.
///
/// # Errors
/// If it cannot be decoded.
pub fn read_lesson(contents: &Contents) -> anyhow::Result<LastLesson> {
    LastLesson::read(contents.header(), |architecture| read_arrays(contents, architecture))
}

fn read_arrays(contents: &Contents, architecture: Architecture) -> anyhow::Result<Arrays> {
    let state = ModelState { weights: contents.floats(WEIGHTS)?, statistics: contents.floats(STATISTICS)? };
    let moments = Moments { first: contents.floats(FIRST)?, second: contents.floats(SECOND)? };
    let records = postcard::from_bytes(contents.bytes(RECORDS)?)?;
    Ok(Arrays { model: Arc::new(GlobalModel { architecture, state }), moments: Arc::new(moments), records })
}
