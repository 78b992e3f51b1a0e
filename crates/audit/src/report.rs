//! The report: who sees what, as predicted and as tried.

use serde::Serialize;
use unmask_attack::{Prediction, Sight};
use unmask_core::{AttackMethod, Outlook, SchemaVersion};
use unmask_inversion::InferenceAttack;
use unmask_tensors::{TensorFile, WeightsError};

use crate::{
    Control, Deployment, PrivacyClaim, RecordedUpdate, Viewer, controls::controls, deployment::DeploymentError,
};

/// What a federation gives away. The form of `audit.json`.
#[derive(Debug, Clone, Serialize)]
pub struct Audit {
    pub schema_version: SchemaVersion<1>,
    /// The plan that was audited; absent if recorded updates were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Deployment>,
    /// The conclusion in one sentence.
    pub conclusion: String,
    pub views: Vec<View>,
    pub controls: Vec<Control>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyClaim>,
    /// Recorded updates, and what attacks found in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<RecordedUpdate>,
    /// Sentences.
    pub not_tried: Vec<String>,
    /// What was assumed, as sentences.
    pub notes: Vec<String>,
}

/// What one party receives and may learn.
#[derive(Debug, Clone, Serialize)]
pub struct View {
    pub viewer: Viewer,
    /// A sentence.
    pub receives: String,
    /// Pictures added in what it receives; absent if it receives no update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pictures: Option<usize>,
    pub findings: Vec<Finding>,
    /// Why nothing was tried, as a clause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_tried: Option<String>,
}

/// One attack of one party: predicted, and perhaps tried.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    pub attack: InferenceAttack,
    pub title: &'static str,
    pub outlook: Outlook,
    /// A clause.
    pub because: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
}

/// What an attack found in updates of synthetic pictures.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tried {
    pub updates: usize,
    pub recognisable: usize,
    pub not_recognisable_by_this_attack: usize,
    pub cannot_tell: usize,
    /// Median over the updates in which it found a picture, in dB; 99 is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psnr: Option<f64>,
    /// The first reason why it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// PNG files of a picture and of its reconstruction.
    #[serde(skip)]
    pub example: Option<[Vec<u8>; 2]>,
}

impl Tried {
    /// Whether what happened contradicts the prediction.
    pub fn contradicts(&self, outlook: Outlook) -> bool {
        match outlook {
            Outlook::Exact => self.recognisable < self.updates,
            Outlook::CountingForbids | Outlook::DoesNotApply => self.recognisable > 0,
            Outlook::Unknown => false,
        }
    }
}

/// Answers that are right for as many updates are not luck.
const ENOUGH: usize = 3;

/// Whether the attack needs a client that helps the server.
pub(crate) fn needs_colluder(attack: InferenceAttack) -> bool {
    attack.method() == Some(AttackMethod::Colluder)
}

/// The prediction of one attack by one party.
pub(crate) fn predict(deployment: &Deployment, viewer: Viewer, sight: &Sight, attack: InferenceAttack) -> Prediction {
    let told = match attack {
        InferenceAttack::Reconstruction(method) => sight.reconstruction(method),
        InferenceAttack::Labels => sight.labels(),
        InferenceAttack::Membership => sight.membership(),
    };
    let outlook = deployment.tempered(viewer, told.outlook);
    let because = match outlook == told.outlook {
        true => told.because,
        false => format!("{}, but this party does not know which values the masks kept", told.because),
    };
    Prediction { outlook, because }
}

impl View {
    fn new(deployment: &Deployment, viewer: Viewer) -> Self {
        let sight = deployment.sight(viewer);
        let finding = |sight: &Sight, attack: InferenceAttack| {
            let Prediction { outlook, because } = predict(deployment, viewer, sight, attack);
            Finding { attack, title: attack.title(), outlook, because, tried: None }
        };
        // The server names the class that it fishes for, and leaves no batch to take apart.
        let is_answered = |attack: &InferenceAttack| {
            viewer == Viewer::DishonestServer
                && (*attack == InferenceAttack::Labels || attack.method() == Some(AttackMethod::Batch))
        };
        let attacks = || InferenceAttack::all().into_iter().filter(|attack| !is_answered(attack));
        let all = sight.iter().flat_map(|sight| attacks().map(|attack| finding(sight, attack)));
        Self {
            viewer,
            receives: deployment.receives(viewer),
            pictures: sight.map(|sight| sight.pictures()),
            findings: all.collect(),
            not_tried: None,
        }
    }

    /// The attacks with this outlook.
    pub fn with(&self, outlook: Outlook) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.outlook == outlook)
    }

    /// Whether an attack that makes pictures is predicted to be exact, or made one when it was tried.
    pub(crate) fn gives_pictures(&self) -> bool {
        self.findings.iter().any(|finding| finding.attack.method().is_some() && finding.succeeds())
    }
}

impl Finding {
    /// Whether it gives the data away: it did when it was tried, or is predicted to where nobody tried. A right answer may
    /// be luck, and what needs another party is not this party's.
    pub(crate) fn succeeds(&self) -> bool {
        let is_right = |tried: &Tried| tried.recognisable == tried.updates && tried.updates > 0;
        let is_sure = |tried: &Tried| match self.attack {
            InferenceAttack::Reconstruction(_) => tried.recognisable > 0,
            _ => is_right(tried) && (self.outlook == Outlook::Exact || tried.updates >= ENOUGH),
        };
        !needs_colluder(self.attack) && self.tried.as_ref().map_or(self.outlook == Outlook::Exact, is_sure)
    }
}

impl Audit {
    /// Predicts every attack of every party on `deployment`.
    ///
    /// # Errors
    /// [`DeploymentError`].
    pub fn of_deployment(deployment: Deployment) -> Result<Self, DeploymentError> {
        deployment.check()?;
        let mut audit = Self {
            schema_version: SchemaVersion,
            deployment: Some(deployment),
            conclusion: String::new(),
            views: Viewer::ALL.map(|viewer| View::new(&deployment, viewer)).into(),
            controls: controls(&deployment),
            privacy: deployment.defence.noise().map(PrivacyClaim::new),
            updates: Vec::new(),
            not_tried: not_tried(),
            notes: Vec::new(),
        };
        audit.conclude();
        Ok(audit)
    }

    /// Records what happened when `viewer` tried `attack`.
    pub fn tried(&mut self, viewer: Viewer, attack: InferenceAttack, tried: Tried) {
        let view = self.views.iter_mut().find(|view| view.viewer == viewer);
        let finding = view.and_then(|view| view.findings.iter_mut().find(|finding| finding.attack == attack));
        if let Some(finding) = finding {
            finding.tried = Some(tried);
        }
        self.conclude();
    }

    /// Writes the conclusion for what is known now.
    pub(crate) fn conclude(&mut self) {
        self.conclusion = match &self.deployment {
            Some(deployment) => conclusion(deployment, &self.views),
            None => crate::recorded::conclusion(&self.updates),
        };
    }
}

impl Audit {
    /// Reads of the weights what predictions cannot know: a head of zeros lets nothing through.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_weights(&mut self, file: &TensorFile) -> Result<(), WeightsError> {
        let mut reader = file.open()?;
        let Some([weight, _]) = reader.head() else { return Ok(()) };
        let head = reader.read::<f32>(&weight)?;
        if head.values.iter().any(|value| *value != 0.0) {
            return Ok(());
        }
        // Doctored weights replace a head of zeros.
        let honest = self.views.iter_mut().filter(|view| view.viewer != Viewer::DishonestServer);
        let findings = honest.flat_map(|view| &mut view.findings);
        for finding in
            findings.filter(|finding| finding.outlook == Outlook::Exact && finding.attack != InferenceAttack::Labels)
        {
            finding.outlook = Outlook::Unknown;
            finding.because +=
                "; but the weights of the head are all zero, so that the first update carries nothing of the picture";
        }
        self.conclude();
        Ok(())
    }
}

fn conclusion(deployment: &Deployment, views: &[View]) -> String {
    let view = |viewer| views.iter().find(|view| view.viewer == viewer);
    let gives = |viewer| view(viewer).is_some_and(View::gives_pictures);
    let tells = |attack| {
        let server = view(Viewer::Server);
        server.is_some_and(|view| view.findings.iter().any(|finding| finding.attack == attack && finding.succeeds()))
    };
    let picture = if deployment.batch == 1 { "the picture" } else { "pictures" };
    let server = match view(Viewer::Server).map(View::share) {
        Some((found, tried)) if found < tried => {
            format!("The server can compute {picture} of some clients ({found} of {tried} tried).")
        }
        _ => format!("The server can compute {picture} of every client."),
    };
    let mut sentences = Vec::new();
    if gives(Viewer::Server) {
        sentences.push(server);
    } else if view(Viewer::Server).is_some_and(View::leaves_a_jigsaw) {
        sentences.push(
            "Whether the server can compute pictures cannot be told: their patches arrive without their places, and the search \
             for them was not tried."
                .to_owned(),
        );
    } else if !view(Viewer::Server).is_some_and(View::is_counted) {
        sentences.push(
            "Whether the server can compute pictures cannot be told: counting decides nothing here, and searches were not \
                tried."
                .to_owned(),
        );
    } else {
        sentences
            .push("No attack counted here gives the server a picture. That does not prove that none can.".to_owned());
    }
    if view(Viewer::Server).is_some_and(|view| {
        view.findings.iter().any(|finding| needs_colluder(finding.attack) && finding.outlook == Outlook::Exact)
    }) {
        sentences.push("With the key from one client the server can compute them.".to_owned());
    }
    if gives(Viewer::DishonestServer) {
        sentences.push("A server that sends doctored weights can single out one picture at a time.".to_owned());
    }
    if gives(Viewer::Client) {
        sentences.push(format!("A curious client can compute {picture} of others."));
    }
    if !gives(Viewer::Server) {
        match (tells(InferenceAttack::Labels), tells(InferenceAttack::Membership)) {
            (true, true) => sentences
                .push("The server can read the class, and tell whether a photograph that it has was used.".to_owned()),
            (true, false) => sentences.push("The server can read the class.".to_owned()),
            (false, true) => {
                sentences.push("The server can tell whether a photograph that it has was used.".to_owned())
            }
            (false, false) => {}
        }
    }
    sentences.join(" ")
}

impl View {
    /// In how many updates the best attack found the picture, of how many tried; as many if none was tried.
    fn share(&self) -> (usize, usize) {
        let tried = self.findings.iter().filter(|finding| finding.attack.method().is_some() && finding.succeeds());
        let best = tried.filter_map(|finding| finding.tried.as_ref()).max_by_key(|tried| tried.recognisable);
        best.map_or((0, 0), |best| (best.recognisable, best.updates))
    }

    /// Whether only the places of the patches are hidden, and nobody looked for the patches.
    fn leaves_a_jigsaw(&self) -> bool {
        let is_jigsaw = |finding: &Finding| finding.attack.method() == Some(AttackMethod::Jigsaw);
        self.findings
            .iter()
            .any(|finding| is_jigsaw(finding) && finding.outlook == Outlook::Unknown && finding.tried.is_none())
    }

    /// Whether counting or a trial says something of an attack that makes pictures.
    fn is_counted(&self) -> bool {
        let is_said = |finding: &Finding| {
            finding.tried.is_some() || matches!(finding.outlook, Outlook::Exact | Outlook::CountingForbids)
        };
        self.findings.iter().any(|finding| finding.attack.method().is_some() && is_said(finding))
    }
}

/// What no part of this program tries.
pub(crate) fn not_tried() -> Vec<String> {
    [
            "Searches that run the model thousands of times, unless the table shows a result: counting does not say whether they converge.",
            "Attackers with prior knowledge of the pictures, such as a generative model.",
            "A server that doctors weights in another way than by its head.",
            "Several rounds of the same pictures, except by the attack rounds.",
            "Properties of the data other than pictures, classes and membership.",
            "What the finished model gives away, and what logs, backups and people do.",
        ]
        .map(str::to_owned)
        .into()
}

impl View {
    /// The attacks worth trying: those that apply, and searches only if asked for. Several rounds add nothing to what one
    /// round gives away.
    pub fn worth_trying(&self, with_searches: bool) -> Vec<InferenceAttack> {
        let is_completed =
            self.with(Outlook::Exact).any(|exact| exact.attack.method() == Some(AttackMethod::Completion));
        let is_worth = |finding: &&Finding| {
            let method = finding.attack.method();
            finding.outlook != Outlook::DoesNotApply
                && (with_searches || !method.is_some_and(AttackMethod::is_search))
                && !(is_completed && method == Some(AttackMethod::Rounds))
        };
        self.findings.iter().filter(is_worth).map(|finding| finding.attack).collect()
    }
}
