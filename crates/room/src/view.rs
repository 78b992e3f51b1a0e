//! The room's public view.

use std::sync::Arc;

use unmask_core::EncryptionStart;
use unmask_federation::RoomPhase;
use unmask_wire::view::{
    AttackView, ClientState, ClientView, EncryptionView, LabelView, MembershipView, NextView, Phase, RoomView,
};

use super::{Classroom, answers, fishing::Fishing, roster::Entry, snapshot::Snapshot};

impl Classroom {
    pub(super) fn publish(&mut self) {
        let mut view = self.view();
        if let Some(answer) = answers::measured(&view) {
            self.stage.answer(answer);
            self.tell_lesson();
            view.lesson = self.stage.view();
        }
        self.published = Arc::new(view);
        self.host.publish(Snapshot { view: Arc::clone(&self.published), deadline: self.timers.deadline() });
    }

    /// Records the state published last, if one is due.
    pub(super) fn record(&mut self) {
        self.recorder.record_if_due(self.now.moment, &self.published, &self.pictures);
    }

    pub(super) fn view(&self) -> RoomView {
        let model = self.room.model();
        let settings = self.room.settings();
        let addresses = self.door.addresses();
        RoomView {
            phase: match self.room.phase() {
                RoomPhase::Paused => Phase::Paused,
                _ if self.is_locked() => Phase::Locked,
                RoomPhase::Waiting => Phase::Waiting,
                RoomPhase::Sealing => Phase::Sealing,
                RoomPhase::Training => Phase::Training,
                RoomPhase::Between => Phase::Between,
            },
            runs_on: self.room.runs_on(),
            round: self.room.round(),
            deadline_seconds: None,
            architecture: model.architecture,
            parameters: model.state.weights.len(),
            rule: settings.rule(),
            optimiser: settings.optimiser(),
            batch: settings.batch(),
            defence: settings.defence(),
            aggregation: settings.aggregation(),
            next: self.next(),
            encryption: settings.encryption().map(|start| self.encryption(start)),
            guarantee: self.history.guarantee(settings.defence()),
            update_counts: self.history.update_counts(),
            http_address: addresses.http_address.clone(),
            https_address: addresses.https_address.clone(),
            qr_svg: addresses.qr_svg.clone(),
            pin: addresses.pin.clone(),
            is_locked: self.door.is_locked(),
            approves: self.door.approves(),
            banned: u32::try_from(self.door.banned()).unwrap_or(u32::MAX),
            journal: self.journaling.view(),
            federation: self.outer.view(),
            least_in_secure_sum: self.config.quorum.of_secure_sum(),
            is_careful: self.stage.is_careful(),
            fishes_for: self.stage.fishing().filter(|_| self.room.sends_doctored()).map(Fishing::class),
            noticed: self.checks.noticed(),
            listed: self.checks.view(),
            clients: self.roster.shown().into_iter().map(|entry| self.client(entry)).collect(),
            losses: self.history.losses().cloned().collect(),
            initial_weights: self.initialiser.in_force(),
            pretrained: self.initialiser.title(self.coming_architecture()).map(str::to_owned),
            data: Some(self.sharing.view(settings.pictures())),
            evaluation: self.measuring.view(&self.room, &self.sharing),
            accuracies: self.measuring.accuracies().cloned().collect(),
            target: self.attacks.target(),
            // The teacher may have renamed the client since.
            attacks: self
                .attacks
                .cards()
                .map(|card| AttackView { nickname: self.roster.name(card.client).to_owned(), ..card.clone() })
                .collect(),
            leaks: self.attacks.leaks(),
            sum: self.attacks.sum(),
            label: self
                .attacks
                .label()
                .map(|label| LabelView { nickname: self.roster.name(label.client).to_owned(), ..label.clone() }),
            membership: self.attacks.membership().map(|card| {
                let nickname = self.roster.get(card.client).map(|entry| entry.nickname().to_owned());
                MembershipView { nickname: nickname.unwrap_or_default(), ..card.clone() }
            }),
            budget: self.attacks.budget(),
            search: self.attacks.is_searching(),
            has_key: self.attacks.has_key(),
            lesson: self.stage.view(),
            podium: self.podium(),
            trade_off: self.history.trade_off(),
            columns: self.shadow.view(),
            log: self.log.lines().cloned().collect(),
        }
    }

    /// Whether rounds are encrypted and no present client has the passphrase.
    fn is_locked(&self) -> bool {
        let mut present = self.roster.present().peekable();
        self.room.settings().encryption().is_some() && present.peek().is_some() && present.all(Entry::is_locked)
    }

    /// Returns the choices that take effect with the next round.
    fn next(&self) -> Option<NextView> {
        let (now, coming) = (self.room.settings(), self.room.coming());
        let (train_on, partition) = self.sharing.next(now.pictures(), coming.pictures());
        let next = NextView {
            defence: (coming.defence() != now.defence()).then(|| coming.defence()),
            rule: (coming.rule() != now.rule()).then(|| coming.rule()),
            optimiser: (coming.optimiser() != now.optimiser()).then(|| coming.optimiser()),
            aggregation: (coming.aggregation() != now.aggregation()).then(|| coming.aggregation()),
            batch: (coming.batch() != now.batch()).then(|| coming.batch()),
            architecture: self.begins_anew().then(|| self.coming_architecture()),
            train_on,
            partition,
        };
        (next != NextView::default()).then_some(next)
    }

    fn encryption(&self, start: EncryptionStart) -> EncryptionView {
        EncryptionView { start, sealed_by: self.room.seal().map(|seal| self.roster.name(seal.by).to_owned()) }
    }

    /// Number of clients that are there from the same address.
    fn neighbours(&self, entry: &Entry) -> u32 {
        let Some(address) = entry.peer().address else { return 0 };
        let same = self.roster.with_socket().filter(|other| other.peer().address == Some(address));
        u32::try_from(same.count()).unwrap_or(u32::MAX)
    }

    fn client(&self, entry: &Entry) -> ClientView {
        ClientView {
            id: entry.id(),
            nickname: entry.nickname().to_owned(),
            device: entry.device().to_owned(),
            state: match self.room.member(entry.id()) {
                _ if entry.is_waiting() => ClientState::Waiting,
                _ if !entry.is_present() => ClientState::Gone,
                ClientState::Joined | ClientState::Training if self.room.is_hidden(entry.id()) => ClientState::Away,
                state => state,
            },
            loss: entry.loss(),
            bytes_sent: entry.bytes_sent(),
            updates: entry.updates(),
            refusal: entry.refusal().map(str::to_owned),
            may_show: entry.may_show(),
            lends_update: entry.may_lend(),
            is_robot: entry.is_robot(),
            neighbours: self.neighbours(entry),
            picture_waits: entry.picture_waits(),
            original: self.pictures.original(entry.id()),
        }
    }
}
