//! A lesson's parts in the store.

use std::sync::Arc;

use unmask_core::{Architecture, ModelState};
use unmask_federation::{GlobalModel, Moments};
use unmask_room::{Arrays, LastLesson, Save};

use crate::{
    erasing::finish,
    folder::Folder,
    refusal::Refusal,
    store::{Contents, Store, Survey, Values},
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

/// A journal that was opened.
#[derive(Debug)]
pub struct Found<F> {
    pub store: Store<F>,
    /// The last lesson; `None` if nothing was saved.
    pub last: Option<LastLesson>,
    /// Sentences that say what is wrong with a file that was set aside.
    pub problems: Vec<String>,
}

/// Opens the journal in `folder` at a time of day in seconds since 1970. Finishes erasures first. If one of the two files is damaged, renames it
/// and goes on with the other.
///
/// # Errors
/// A [`Refusal`] if this version cannot read the journal, whose files then stay as they are; otherwise as
/// [`Store::open`].
pub fn open<F: Folder>(folder: F, opened: u64) -> anyhow::Result<Found<F>> {
    finish(&folder)?;
    let survey = Survey::of(&folder)?;
    let last = read_lesson(&survey)?;
    let (store, problems) = Store::open(folder, survey, opened)?;
    Ok(Found { store, last, problems })
}

/// Reads the lesson in `folder`, and changes nothing there. Returns it, and sentences that say what is damaged.
///
/// # Errors
/// As [`Survey::of`].
pub fn read<F: Folder>(folder: &F) -> anyhow::Result<(Option<LastLesson>, Vec<String>)> {
    let survey = Survey::of(folder)?;
    Ok((read_lesson(&survey)?, survey.problems(folder)))
}

fn read_lesson(survey: &Survey) -> anyhow::Result<Option<LastLesson>> {
    let Some(contents) = &survey.contents else { return Ok(None) };
    let format = contents.format();
    let lesson = LastLesson::read(format, contents.header(), |architecture| read_arrays(contents, architecture));
    let lesson =
        lesson.map_err(|reason| Refusal::NotUnderstood { path: contents.path().to_owned(), format, reason })?;
    Ok(Some(lesson))
}

fn read_arrays(contents: &Contents, architecture: Architecture) -> anyhow::Result<Arrays> {
    let state = ModelState { weights: contents.floats(WEIGHTS)?, statistics: contents.floats(STATISTICS)? };
    let moments = Moments { first: contents.floats(FIRST)?, second: contents.floats(SECOND)? };
    let records = postcard::from_bytes(contents.bytes(RECORDS)?)?;
    Ok(Arrays { model: Arc::new(GlobalModel { architecture, state }), moments: Arc::new(moments), records })
}
