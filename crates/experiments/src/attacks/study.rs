//! A study that attacks, as data.

use std::path::PathBuf;

use unmask_core::ModelState;

use super::{
    findings::{PapersPanel, findings},
    measurements,
    panel::{PATIENT, Panel},
    pictures::{named_pictures, wanted},
    results::PanelResults,
    watched::watched,
    weights::Weights,
};
use crate::{
    catalogue::{About, Scale},
    cost::{self, Cost},
    error::ExperimentError,
    matrix::{self, MatrixRequest, MatrixRow, MatrixSettings},
    report::Findings,
    run::{ExperimentEvent, ExperimentRun, Scope},
    study::Study,
};

pub(crate) struct AttackStudy {
    pub(crate) about: About,
    /// All panels; the quick scale and the papers' scale leave some out.
    pub(crate) panels: fn(Scale) -> Vec<Panel>,
    /// What to know about its attacks.
    pub(crate) notes: fn() -> Vec<String>,
    /// At the papers' scale, its searches take nearly all the time.
    pub(crate) papers: Option<PapersPanel>,
}

impl AttackStudy {
    fn panels(&self, scale: Scale) -> Vec<Panel> {
        let mut panels = (self.panels)(scale);
        match scale {
            Scale::Tiny => {
                for panel in &mut panels {
                    panel.pictures = 2 * panel.batch;
                    panel.iterations = panel.iterations.map(|_| 3);
                }
            }
            Scale::Quick => {
                panels.retain(|panel| panel.iterations.is_none_or(|steps| steps < PATIENT));
                panels.iter_mut().for_each(|panel| panel.draws = 1);
            }
            // At this scale a fine-tuned ViT would start from ImageNet weights, which the program does not include.
            Scale::Paper => panels.retain(|panel| !matches!(panel.weights, Weights::FineTuned { .. })),
            Scale::Small => {}
        }
        panels
    }
}

impl Study for AttackStudy {
    fn about(&self) -> &About {
        &self.about
    }

    fn cases(&self) -> Vec<String> {
        measurements::cases(&self.panels(Scale::Small))
    }

    /// `None` if most attacks are closed forms.
    fn cost(&self, run: &ExperimentRun<'_, '_>) -> Result<Option<Cost>, ExperimentError> {
        let Some(papers) = self.papers.as_ref().filter(|_| run.request.scale != Scale::Tiny) else { return Ok(None) };
        let panels = self.panels(Scale::Paper);
        let Some(panel) = panels.iter().find(|panel| panel.key == papers.key) else { return Ok(None) };
        let searches: usize = panel.defences().iter().map(|defence| panel.attackers(defence).len()).sum();
        let searches = searches * wanted(Scale::Paper);
        let steps = panel.iterations.unwrap_or_default();
        cost::of_searches(run, &panel.model.name(), searches, steps).map(Some)
    }

    /// Attacks the pictures panel by panel. The cases are the rows of all matrices.
    fn run(&self, run: &mut ExperimentRun<'_, '_>) -> Result<Option<Findings>, ExperimentError> {
        let panels = self.panels(run.request.scale);
        let rows = rows(run, &panels)?;
        if run.is_part() {
            return Ok(None);
        }
        let results: Vec<_> =
            panels.into_iter().zip(&rows).map(|(panel, rows)| PanelResults::of(panel, rows)).collect();
        let cost = self.cost(run)?.map(|cost| cost.to_string());
        findings(run, &results, self.papers.as_ref(), (self.notes)(), cost).map(Some)
    }
}

/// The rows of the matrix of each panel.
fn rows(run: &mut ExperimentRun<'_, '_>, panels: &[Panel]) -> Result<Vec<Vec<MatrixRow>>, ExperimentError> {
    let name = |run: &ExperimentRun<'_, '_>, panel: &Panel| run.file(panel.key, run.request.seed);
    if let Scope::Merged { .. } = run.scope {
        return panels.iter().map(|panel| matrix::finished(&run.store.folder(&name(run, panel)))).collect();
    }
    let pictures = named_pictures(run)?;
    run.notify(ExperimentEvent::Started { cases: panels.len(), left: panels.len() })?;
    let seed = run.request.seed;
    let settings: Vec<MatrixSettings> = panels.iter().map(|panel| panel.settings(seed)).collect::<Result<_, _>>()?;
    let starts: Vec<ModelState> =
        panels.iter().map(|panel| panel.weights.state(run, panel.model)).collect::<Result<_, _>>()?;
    let folders: Vec<PathBuf> = panels.iter().map(|panel| run.store.folder(&name(run, panel))).collect();
    let requests: Vec<MatrixRequest<'_>> = panels
        .iter()
        .zip(&settings)
        .zip(starts.iter().zip(&folders))
        .map(|((panel, settings), (start, folder))| MatrixRequest {
            settings,
            pictures: &pictures[..pictures.len().min(panel.pictures)],
            start: Some(start),
            device: run.request.device,
            threads: run.request.threads,
            commit: run.request.commit.clone(),
            out: folder,
        })
        .collect();
    let mut files = Vec::new();
    // Position of each matrix's first row among the rows of all matrices.
    let mut firsts = Vec::new();
    for (panel, request) in panels.iter().zip(&requests) {
        firsts.push(files.len());
        let name = name(run, panel);
        files.extend(matrix::row_files(request)?.into_iter().map(|file| format!("{name}/{file}")));
    }
    run.plan(files)?;
    let mut all = Vec::new();
    for ((panel, request), first) in panels.iter().zip(&requests).zip(firsts) {
        run.notify(ExperimentEvent::CaseStarted { name: &format!("{}, {}", panel.title, panel.attacked()) })?;
        let part = run.part();
        all.push(watched(request, &|position| part.is_none_or(|part| part.takes(first + position)), run)?);
        run.notify(ExperimentEvent::CaseFinished)?;
    }
    Ok(all)
}
