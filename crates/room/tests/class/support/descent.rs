//! A small but real search: gradient descent on the patches X with G_pos^T X = G_E, over the entries that arrived.
//! Token matching needs a model, but tests of the scheduling do not.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use unmask_attack::{AttackError, Search, SearchOptions, SearchProgress, SearchTarget, Searches};
use unmask_core::{Architecture, AttackMethod, VitConfig};

use super::layout;

#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    pub method: AttackMethod,
    pub is_retarget: bool,
    pub labels: Vec<usize>,
    pub has_mask: bool,
    pub start: Vec<f32>,
    /// The first weight, which identifies the model.
    pub first_weight: f32,
}

/// The source of a relay's searches, with a log of their requests.
pub struct Descent {
    pub iterations: usize,
    pub pause: Duration,
    pub steps: AtomicUsize,
    pub begun: Mutex<Vec<Begun>>,
}

impl fmt::Debug for Descent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Descent")
    }
}

impl Descent {
    pub fn new(iterations: usize, pause: Duration) -> Arc<Self> {
        Arc::new(Self { iterations, pause, steps: AtomicUsize::new(0), begun: Mutex::default() })
    }

    pub fn steps(&self) -> usize {
        self.steps.load(Ordering::SeqCst)
    }

    pub fn begun(&self) -> Vec<Begun> {
        self.begun.lock().unwrap().clone()
    }

    fn note(&self, method: AttackMethod, target: &SearchTarget<'_>, is_retarget: bool) {
        self.begun.lock().unwrap().push(Begun {
            method,
            is_retarget,
            labels: target.labels.clone(),
            has_mask: target.kept.is_some(),
            start: target.start.clone(),
            first_weight: target.state.weights[0],
        });
    }
}

/// Shares one `Descent` between the relay and the test.
#[derive(Debug)]
pub struct Source(pub Arc<Descent>);

impl Searches for Source {
    fn begin(
        &self,
        method: AttackMethod,
        target: &SearchTarget<'_>,
        _: SearchOptions,
    ) -> Result<Box<dyn Search>, AttackError> {
        assert_eq!(target.state.weights.len(), layout().len());
        if target.labels.len() > 1 {
            let reason = format!("{} pictures are more than this search takes apart", target.labels.len());
            return Err(AttackError::Search { reason });
        }
        self.0.note(method, target, false);
        let config = config(target);
        Ok(Box::new(Step {
            origin: Arc::clone(&self.0),
            method,
            config,
            equations: Equations::of(target),
            patches: to_patches(&target.start, &config),
            iteration: 0,
        }))
    }
}

fn config(target: &SearchTarget<'_>) -> VitConfig {
    let Architecture::Vit(config) = target.architecture else { panic!("{:?}", target.architecture) };
    config
}

struct Equations {
    position: Vec<f64>,
    patch: Vec<f64>,
    kept: Vec<bool>,
    rate: f64,
}

impl Equations {
    fn of(target: &SearchTarget<'_>) -> Self {
        let (layout, dim) = (layout(), config(target).dim);
        let position = layout.get("pos_embed").unwrap().range.clone();
        let patch = layout.get("patch_embed.proj.weight").unwrap().range.clone();
        let values = |range: std::ops::Range<usize>| target.gradient[range].iter().map(|&v| f64::from(v)).collect();
        let kept = target.kept.as_ref().map_or_else(|| vec![true; patch.len()], |kept| kept[patch.clone()].to_vec());
        let position: Vec<f64> = values(position.start + dim..position.end);
        // This is below 2 divided by the largest eigenvalue of the normal equations.
        let rate = 1.0 / position.iter().map(|value| value * value).sum::<f64>().max(1e-9);
        Self { position, patch: values(patch), kept, rate }
    }
}

struct Step {
    origin: Arc<Descent>,
    method: AttackMethod,
    config: VitConfig,
    equations: Equations,
    /// `[S, L]` in [-1, 1].
    patches: Vec<f64>,
    iteration: usize,
}

impl Search for Step {
    fn step(&mut self) -> Result<SearchProgress, AttackError> {
        thread::sleep(self.origin.pause);
        self.origin.steps.fetch_add(1, Ordering::SeqCst);
        let (s, d, l) = (self.config.patches(), self.config.dim, self.config.patch_len());
        let Equations { position, patch, kept, rate } = &self.equations;
        let mut slope = vec![0.0; s * l];
        let mut objective = 0.0;
        for row in 0..d {
            for pixel in (0..l).filter(|pixel| kept[row * l + pixel]) {
                let explained: f64 = (0..s).map(|i| position[i * d + row] * self.patches[i * l + pixel]).sum();
                let left = explained - patch[row * l + pixel];
                objective += left * left;
                (0..s).for_each(|i| slope[i * l + pixel] += position[i * d + row] * left);
            }
        }
        for (value, slope) in self.patches.iter_mut().zip(slope) {
            *value = (*value - 8.0 * rate * slope).clamp(-1.0, 1.0);
        }
        self.iteration += 1;
        Ok(SearchProgress {
            iteration: self.iteration,
            iterations: self.origin.iterations,
            objective,
            image: to_image(&self.patches, &self.config),
            is_over: self.iteration >= self.origin.iterations,
            note: (self.iteration >= self.origin.iterations).then(|| "All steps are done.".to_owned()),
        })
    }

    fn finish(&mut self) -> Option<SearchProgress> {
        None
    }

    fn retarget(&mut self, target: &SearchTarget<'_>) -> Result<(), AttackError> {
        self.origin.note(self.method, target, true);
        self.equations = Equations::of(target);
        self.iteration = 0;
        Ok(())
    }
}

/// Returns the index in `[side, side, 3]` of each value of `[S, L]`.
fn places(config: &VitConfig) -> Vec<usize> {
    let (size, grid, side) = (config.patch, config.grid(), config.image);
    let place = |s: usize, l: usize| {
        let (channel, y, x) = (l / (size * size), l / size % size, l % size);
        ((s / grid * size + y) * side + s % grid * size + x) * 3 + channel
    };
    (0..config.patches()).flat_map(|s| (0..config.patch_len()).map(move |l| (s, l))).map(|(s, l)| place(s, l)).collect()
}

fn to_patches(image: &[f32], config: &VitConfig) -> Vec<f64> {
    places(config).into_iter().map(|place| 2.0 * f64::from(image[place]) - 1.0).collect()
}

fn to_image(patches: &[f64], config: &VitConfig) -> Vec<f32> {
    let mut image = vec![0.0; patches.len()];
    for (place, value) in places(config).into_iter().zip(patches) {
        image[place] = (value / 2.0 + 0.5) as f32;
    }
    image
}
