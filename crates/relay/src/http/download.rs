//! `GET /api/session.zip`: the lesson as an archive for the teacher.

use std::io::{Cursor, Write};

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::task::spawn_blocking;
use tracing::error;
use unmask_recording::{Player, Read, Recording, RecordingError, Summary, shown};
use unmask_room::{Input, LessonFiles, Pictures, digest};
use unmask_wire::view::RoomView;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::{
    config::ModelFile,
    http::app::App,
    http::control::stopping,
    http::{recording, results},
    room::reply,
};

/// Responds 200 with the archive, or 500 with a sentence if it cannot be packed.
pub(crate) async fn download(State(app): State<App>) -> Response {
    let (reply, receiver) = reply();
    if app.room.send(Input::Download { reply }).await.is_err() {
        return stopping();
    }
    let Ok(files) = receiver.await else { return stopping() };
    let recording = recording::take(&app.room).await;
    let (pictures, model_file) = (app.pictures, app.model_file);
    let pack = move || archive(&files, &summary(&files, &pictures, recording), &pictures, model_file);
    match spawn_blocking(pack).await {
        Ok(Ok(bytes)) => {
            let headers = [
                (header::CONTENT_TYPE, "application/zip"),
                (header::CONTENT_DISPOSITION, "attachment; filename=\"session.zip\""),
                (header::CACHE_CONTROL, "no-store"),
            ];
            (headers, bytes).into_response()
        }
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&error.into()),
    }
}

fn failed(error: &anyhow::Error) -> Response {
    error!("the lesson cannot be packed: {error:#}");
    (StatusCode::INTERNAL_SERVER_ERROR, format!("The lesson cannot be packed: {error:#}.")).into_response()
}

/// Summarises the lesson from its recording, or from the room's current view if there is no recording.
fn summary(files: &LessonFiles, pictures: &Pictures, recording: Option<Result<Vec<u8>, RecordingError>>) -> Summary {
    let recorded = recording.map(|file| {
        let Read { recording, .. } = Recording::read(&file?)?;
        Summary::of(Player::new(recording)).map_err(anyhow::Error::msg)
    });
    match recorded {
        Some(Ok(summary)) => return summary,
        Some(Err(reason)) => error!("the recording cannot be summarised: {reason}"),
        None => {}
    }
    let mut summary = Summary::default();
    summary.add(&shown(&files.view), |path| pictures.get(path).map(|png| png.to_vec()));
    summary
}

fn archive(
    files: &LessonFiles,
    summary: &Summary,
    pictures: &Pictures,
    model_file: Option<ModelFile>,
) -> anyhow::Result<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut add = |name: &str, method: CompressionMethod, bytes: &[u8]| {
        zip.start_file(name, SimpleFileOptions::default().compression_method(method))?;
        zip.write_all(bytes)?;
        anyhow::Ok(())
    };
    add("metrics.csv", CompressionMethod::Deflated, metrics(files).as_bytes())?;
    add("answers.csv", CompressionMethod::Deflated, results::answers(summary).as_bytes())?;
    add("results.html", CompressionMethod::Deflated, results::page(files, summary).as_bytes())?;
    add("results.json", CompressionMethod::Deflated, &results::json(files, summary)?)?;
    add("events.jsonl", CompressionMethod::Deflated, &events(files)?)?;
    add("settings.json", CompressionMethod::Deflated, &serde_json::to_vec_pretty(&settings(files))?)?;
    if let Some(encode) = model_file {
        let name = if files.is_encrypted { "model.encrypted.safetensors" } else { "model.safetensors" };
        let bytes = encode(files.model.architecture, &files.model.state)?;
        // Weights do not compress.
        add(name, CompressionMethod::Stored, &bytes)?;
    }
    for (name, path) in named(&files.view) {
        if let Some(png) = pictures.get(path) {
            add(&name, CompressionMethod::Stored, &png)?;
        }
    }
    Ok(zip.finish()?.into_inner())
}

/// Returns archive names and paths of reconstructions from clients who agreed to show them to the class.
fn named(view: &RoomView) -> impl Iterator<Item = (String, &str)> {
    let agrees = |client| view.clients.iter().any(|entry| entry.id == client && entry.may_show);
    view.attacks.iter().filter(move |card| agrees(card.client)).filter_map(|card| {
        let name = format!("pictures/{}-round-{}-client-{}.png", card.attack.name(), card.round, card.client);
        Some((name, card.picture.as_deref()?))
    })
}

/// Returns a CSV with one line per round. Accuracy and held-out loss are filled only for the current model; those of
/// earlier models are not kept.
fn metrics(files: &LessonFiles) -> String {
    let newest = files.rounds.last().map_or(0, |round| round.model);
    let mut csv =
        "time,model,round,defence,rule,optimiser,aggregation,batch,updates,clipped,opposed,late,samples,loss,accuracy,\
                   held_out_loss,void\n"
            .to_owned();
    for round in &files.rounds {
        let is_newest = round.model == newest;
        let point = files.view.accuracies.iter().find(|point| is_newest && point.round == round.round);
        let settings = &round.settings;
        let fields = [
            round.time.to_string(),
            round.model.to_string(),
            round.round.to_string(),
            settings.defence().to_string(),
            settings.rule().to_string(),
            settings.optimiser().to_string(),
            settings.aggregation().to_string(),
            settings.batch().to_string(),
            round.updates.to_string(),
            round.clipped.to_string(),
            round.opposed.to_string(),
            round.late.to_string(),
            round.samples.to_string(),
            round.loss.map_or_else(String::new, |loss| loss.to_string()),
            point.map_or_else(String::new, |point| point.accuracy.to_string()),
            point.map_or_else(String::new, |point| point.loss.to_string()),
            round.void.clone().unwrap_or_default(),
        ];
        csv += &line(fields);
    }
    csv
}

/// A line of a CSV.
pub(super) fn line(fields: impl IntoIterator<Item = String>) -> String {
    fields.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// Quotes a CSV field if necessary (RFC 4180).
fn quoted(field: String) -> String {
    if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

fn events(files: &LessonFiles) -> serde_json::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for event in &files.events {
        let line = &event.line;
        let event = json!({ "time": event.time, "number": line.number, "round": line.round, "text": line.text });
        serde_json::to_writer(&mut lines, &event)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// Returns the lesson's initial flags and its current settings.
fn settings(files: &LessonFiles) -> serde_json::Value {
    let view = &files.view;
    let began: serde_json::Map<_, _> =
        files.head.beginning.flags().into_iter().map(|(flag, value)| (flag.to_owned(), value.into())).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "began": files.head.began,
        "flags": began,
        "round": files.round,
        "model": view.architecture,
        "parameters": view.parameters,
        "weights_sha256": digest(&files.model.state.weights),
        "start": view.initial_weights,
        "defence": view.defence,
        "rule": view.rule,
        "optimiser": view.optimiser,
        "aggregation": view.aggregation,
        "batch": view.batch,
        "encryption": view.encryption,
        "guarantee": view.guarantee,
        "data": view.data,
        "evaluation": view.evaluation,
    })
}

#[cfg(test)]
mod tests {
    use unmask_core::{ClientId, PictureAddress};
    use unmask_wire::view::{AttackView, ClientState, ClientView};

    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let fields = ["plain", "gaussian:eps=4,delta=1e-5", "a \"b\""].map(|field| quoted(field.to_owned()));
        assert_eq!(fields, ["plain", "\"gaussian:eps=4,delta=1e-5\"", "\"a \"\"b\"\"\""]);
    }

    /// The archive omits clients who did not agree or are no longer known.
    #[test]
    fn only_pictures_of_those_who_agreed() {
        let client = |id, may_show| ClientView {
            id: ClientId(id),
            nickname: String::new(),
            device: String::new(),
            state: ClientState::Joined,
            loss: None,
            bytes_sent: 0,
            updates: 1,
            refusal: None,
            may_show,
            lends_update: false,
            is_robot: false,
            neighbours: 0,
            picture_waits: false,
            original: None,
        };
        let card = |id: u32| AttackView {
            client: ClientId(id),
            round: 7,
            picture: Some(PictureAddress::on_server(&format!("reconstruction/{id}.png"))),
            ..AttackView::default()
        };
        let view = RoomView {
            clients: vec![client(1, true), client(2, false)],
            attacks: vec![card(1), card(2), card(3)],
            ..RoomView::default()
        };
        let found: Vec<(String, &str)> = named(&view).collect();
        let [(name, path)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(*path, "/api/reconstruction/1.png");
        assert!(name.starts_with("pictures/") && name.ends_with("-round-7-client-1.png"), "{name}");
    }
}
