//! The last result of each attack, and the scores that the attacked client gives it.

use std::sync::Arc;

use unmask_attack::AttackKind;
use unmask_federation::ClientId;
use unmask_wire::{RelayMessage, view::AttackView};

use crate::{
    attacks::{Finding, Seen},
    pictures::Pictures,
};

#[derive(Debug)]
struct Shown {
    view: AttackView,
    /// Client and round of the result shown before: a score for it may still be on its way.
    before: Option<(u32, u32)>,
}

/// What the projector shows of each attack.
#[derive(Debug, Default)]
pub(super) struct Attacked {
    shown: [Option<Shown>; AttackKind::ALL.len()],
}

impl Attacked {
    /// The results there are, in the attacks' order.
    pub(super) fn views(&self) -> impl Iterator<Item = &AttackView> {
        self.shown.iter().flatten().map(|shown| &shown.view)
    }

    /// Takes a result; returns the message that shows the attacked client its reconstruction, if there is one.
    pub(super) fn found(
        &mut self,
        finding: Finding,
        nickname: String,
        pictures: &Arc<Pictures>,
    ) -> Option<(RelayMessage, Vec<f32>)> {
        let Finding { epoch, client, round, defence, kind, seconds, outcome } = finding;
        let attack = AttackKind::ALL.get(kind)?;
        let (name, slot) = (attack.name().to_owned(), self.shown.get_mut(kind)?);
        let (picture, remark, message) = match outcome {
            Ok(Seen { side, values, png, remark }) => {
                let path = format!("/api/reconstruction/{name}/{round}-{epoch}.png");
                pictures.keep(path.clone(), png);
                let message = RelayMessage::Reconstruction { round, attack: name.clone(), side };
                (Some(path), remark, Some((message, values)))
            }
            Err(reason) => (None, Some(reason), None),
        };
        let before = slot.take().map(|shown| (shown.view.client, shown.view.round));
        let view = AttackView {
            attack: name,
            title: attack.title().to_owned(),
            sentence: attack.explanation().to_owned(),
            round,
            client: client.0,
            nickname,
            defence: defence.to_string(),
            seconds,
            picture,
            remark,
            psnr: None,
            ssim: None,
        };
        *slot = Some(Shown { view, before });
        message
    }

    /// Takes the score that a client gives the reconstruction of its picture.
    ///
    /// # Errors
    /// A sentence for the client: the attack, round or client is another, or a number cannot be.
    pub(super) fn score(
        &mut self,
        client: ClientId,
        round: u32,
        attack: &str,
        psnr: f32,
        ssim: f32,
    ) -> Result<(), String> {
        let shown =
            self.shown.iter_mut().flatten().find(|shown| shown.view.attack == attack).ok_or_else(|| {
                format!("a score for the attack {:?}, which has shown nothing", attack.escape_debug())
            })?;
        let view = &mut shown.view;
        if shown.before == Some((client.0, round)) && (view.client, view.round) != (client.0, round) {
            // Overtaken by the next result on its way here: no offence, but nothing to show either.
            return Ok(());
        }
        if view.client != client.0 {
            return Err("a score from a client that is not under attack".to_owned());
        }
        if view.round != round {
            return Err(format!(
                "a score for round {round}, but the last result of {attack} is of round {}",
                view.round
            ));
        }
        if view.picture.is_none() {
            return Err(format!("a score for round {round}, of which {attack} made no picture"));
        }
        if !psnr.is_finite() || !(-1.0..=1.0).contains(&ssim) {
            return Err(format!("a score of {psnr} dB and SSIM {ssim}; a PSNR is finite and an SSIM within -1 and 1"));
        }
        (view.psnr, view.ssim) = (Some(psnr), Some(ssim));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unmask_defence::Defence;

    use super::*;

    fn finding(round: u32, outcome: Result<Seen, String>) -> Finding {
        Finding { epoch: 1, client: ClientId(4), round, defence: Defence::None, kind: 0, seconds: 0.1, outcome }
    }

    fn seen() -> Result<Seen, String> {
        Ok(Seen { side: 1, values: vec![0.5; 3], png: vec![1, 2, 3], remark: None })
    }

    fn shown(attacked: &Attacked) -> (u32, Option<f32>) {
        attacked.views().map(|view| (view.round, view.ssim)).next().unwrap()
    }

    #[test]
    fn scores_count_for_the_picture_shown_alone() {
        let pictures = Arc::new(Pictures::default());
        let mut attacked = Attacked::default();
        let target = ClientId(4);
        assert!(attacked.score(target, 3, "embedding", 20.0, 0.5).unwrap_err().contains("shown nothing"));
        let (message, values) = attacked.found(finding(3, seen()), "Ada".into(), &pictures).unwrap();
        assert_eq!(message, RelayMessage::Reconstruction { round: 3, attack: "embedding".into(), side: 1 });
        assert_eq!(values, [0.5; 3]);
        for (client, round, attack, psnr, ssim, reason) in [
            (ClientId(5), 3, "embedding", 20.0, 0.5, "not under attack"),
            (target, 2, "embedding", 20.0, 0.5, "is of round 3"),
            (target, 3, "april", 20.0, 0.5, "shown nothing"),
            (target, 3, "embedding", 20.0, 1.1, "1.1"),
            (target, 3, "embedding", 20.0, f32::NAN, "NaN"),
            (target, 3, "embedding", f32::INFINITY, 0.5, "inf"),
        ] {
            let error = attacked.score(client, round, attack, psnr, ssim).unwrap_err();
            assert!(error.contains(reason), "{error}");
            assert_eq!(shown(&attacked), (3, None));
        }
        attacked.score(target, 3, "embedding", 20.0, -0.25).unwrap();
        assert_eq!(shown(&attacked), (3, Some(-0.25)));
        assert_eq!(pictures.get("/api/reconstruction/embedding/3-1.png").unwrap().as_ref(), [1, 2, 3]);
    }

    #[test]
    fn late_score_for_the_picture_before_is_let_pass() {
        let pictures = Arc::new(Pictures::default());
        let mut attacked = Attacked::default();
        for round in [3, 4] {
            attacked.found(finding(round, seen()), "Ada".into(), &pictures).unwrap();
        }
        attacked.score(ClientId(4), 3, "embedding", 20.0, 0.5).unwrap();
        assert_eq!(shown(&attacked), (4, None));
        attacked.score(ClientId(4), 2, "embedding", 20.0, 0.5).unwrap_err();
    }

    #[test]
    fn no_picture_no_score() {
        let mut attacked = Attacked::default();
        let message = attacked.found(finding(1, Err("cannot".into())), "Ada".into(), &Arc::default());
        assert!(message.is_none());
        assert_eq!(attacked.views().next().unwrap().remark.as_deref(), Some("cannot"));
        assert!(attacked.score(ClientId(4), 1, "embedding", 20.0, 0.5).unwrap_err().contains("no picture"));
    }
}
