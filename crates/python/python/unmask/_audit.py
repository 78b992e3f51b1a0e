"""unmask.audit: what a federation with this module would give away."""

import html
import json
from pathlib import Path

import numpy as np

from unmask._module import Facts, Trainer
from unmask._unmask import Plan, invert

class Audit:
    """What a federation gives away: predictions, what happened when they were tried, and the page."""

    def __init__(self, plan):
        self._plan = plan

    @property
    def conclusion(self):
        """One or more sentences."""
        return self._plan.conclusion

    @property
    def page(self):
        """The report as one HTML page, to read, print and mail."""
        return self._plan.page("Made by unmask.audit.")

    @property
    def details(self):
        """The whole report; docs/schema/audit.json describes it."""
        return json.loads(self._plan.json())

    def save(self, folder):
        """Writes audit.html and audit.json."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "audit.html").write_text(self.page, encoding="utf-8")
        (folder / "audit.json").write_text(self._plan.json(), encoding="utf-8")

    def __str__(self):
        return self.conclusion

    def __repr__(self):
        return f"<unmask.Audit: {self.conclusion}>"

    def _repr_html_(self):
        return f'<iframe srcdoc="{html.escape(self.page)}" style="width: 100%; height: 40rem; border: 0"></iframe>'


def audit(
    model,
    *,
    rule="fedsgd",
    batch=1,
    cohort=10,
    defence="none",
    secagg=False,
    updates=4,
    heads=None,
    side=None,
    mean=None,
    std=None,
    loss=None,
    seed=1,
):
    """Say what a federation would give away with this torch.nn.Module.

    For each attack, counting its equations predicts "exact", "counting-forbids" or "unknown". Then updates of synthetic
    pictures are made by the module itself, protected and attacked.

    Parameters
    ----------
    model : torch.nn.Module
        A ViT of timm, torchvision or Hugging Face, or a ResNet, with its weights. Heads, image size and normalisation come
        from the module where it says them. It is copied, not changed.
    rule : str
        What a client sends: "fedsgd", or "fedavg:epochs=4,rate=0.1".
    batch, cohort : int
        Pictures in an update, and clients in a round.
    defence : str
        "none", "random-binary:0.5", "fixed-position", "gaussian:eps=4,delta=1e-5,clip=0.5" and so on, as on the command line.
    secagg : bool
        Whether the server sees only the sum of the cohort's updates.
    updates : int
        Synthetic updates to attack; 0 only predicts.
    heads, side, mean, std : optional
        What the module does not say, or says wrongly.
    loss : callable, optional
        loss(outputs, labels); cross entropy if absent.
    seed : int
        For masks and noise.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        The module or the plan cannot be audited; the message says why.
    """
    for name, number, least in (("updates", updates, 0), ("batch", batch, 1), ("cohort", cohort, 1)):
        if not least <= number <= 65535:
            raise ValueError(f"{name} is {number}; give {least} to 65535")
    trainer = Trainer(model, loss)
    facts = Facts(model, heads, side, mean, std)
    plan = Plan(
        trainer.state(),
        rule=rule,
        batch=batch,
        cohort=cohort,
        defence=defence,
        secagg=secagg,
        heads=facts.heads,
        side=facts.side,
        mean=list(facts.mean),
        std=list(facts.std),
    )
    for sentence in facts.notes:
        plan.note(sentence)
    for viewer in ("server", "client"):
        why = plan.obstacle(viewer, updates)
        if why is None:
            _try(plan, viewer, trainer, facts, updates, seed)
        else:
            plan.not_tried(viewer, why)
    return Audit(plan)


def _try(plan, viewer, trainer, facts, updates, seed):
    batch, local = plan.pictures(viewer), plan.local(viewer)
    weights = trainer.state()
    pictures = np.stack([plan.synthetic(number) for number in range(updates * batch + 1)])
    labels = np.arange(len(pictures)) % max(plan.classes, 1)
    made = []
    for update in range(updates):
        chosen = slice(update * batch, (update + 1) * batch)
        images, named = facts.fed(pictures[chosen]), labels[chosen]
        if local is None:
            sent, fedavg, before = trainer.gradient(images, named), None, None
        else:
            epochs, rate = local
            sent, fedavg, before = trainer.trained(images, named, epochs, rate), (rate, epochs), weights
        # A client has the key, and sees no mask.
        private, kept = plan.protect(sent, seed + update, before) if viewer == "server" else (sent, None)
        made.append((pictures[chosen], named, private, kept, fedavg))
    options = {"heads": facts.heads, "side": plan.side, "mean": list(facts.mean), "std": list(facts.std)}
    options |= {"eval": True, "gradient_of": trainer.gradient}
    for attack in plan.attacks(viewer):
        # Several rounds are for the program.
        if attack in ("rounds", "april", "april-aware"):
            continue
        verdicts, psnrs, example = [], [], None
        for truths, named, private, kept, fedavg in made:
            stranger = pictures[-1]
            given = options | {"fedavg": fedavg, "batch": batch}
            try:
                if attack == "membership":
                    verdicts.append(_membership(weights, private, kept, given, truths[0], stranger))
                    continue
                given |= {} if attack == "label" else {"truth": truths}
                report = invert(weights, private, kept, attack, **given)
            except ValueError as error:
                verdicts.append(("cannot-tell", str(error)))
                continue
            if attack == "label":
                verdicts.append(_labels(report, named))
                continue
            verdicts.append((report.verdict, report.because))
            psnrs.append(report.details["psnr"])
            if example is None and len(report.pictures):
                example = [truths[0], report.pictures[0]]
        median = float(np.median(psnrs)) if psnrs else None
        plan.tried(viewer, attack, verdicts, median, example)


def _labels(report, named):
    if report.labels is None:
        return "cannot-tell", report.details.get("labels_unknown", "the head's gradient does not show them")
    is_right = sorted(report.labels) == sorted(int(label) for label in named)
    return ("recognisable" if is_right else "not-recognisable-by-this-attack"), None


def _membership(weights, private, kept, given, member, stranger):
    told = [
        invert(weights, private, kept, "membership", candidate=candidate, **given).details["membership"]["verdict"]
        for candidate in (member, stranger)
    ]
    if "undecided" in told:
        return "cannot-tell", "a picture fits better than chance and worse than exactly"
    return ("recognisable" if told == ["member", "stranger"] else "not-recognisable-by-this-attack"), None
