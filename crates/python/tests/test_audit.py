"""unmask.audit, unmask.matrix and unmask.Recorder. With PyTorch and timm, if installed."""

import io
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import support
import unmask

try:
    import timm
    import torch
except ImportError as error:
    MISSING = f"{error.name} is not installed"
else:
    MISSING = None


def finding(audit, viewer, attack):
    view = next(view for view in audit.details["views"] if view["viewer"] == viewer)
    return next(finding for finding in view["findings"] if finding["attack"] == attack)


class Recording(unittest.TestCase):
    def test_a_round_is_kept_as_the_program_reads_it(self):
        with tempfile.TemporaryDirectory() as place:
            recorder = unmask.Recorder(place)
            recorder.sent(1, {"w": np.ones(3)})
            recorder.received(1, "a/b", {"w": np.zeros(3)}, rate=0.1, steps=4, mask={"w": np.ones(3, np.uint8)})
            folder = Path(place) / "round-1"
            names = {path.name for path in folder.iterdir()}
            self.assertEqual(names, {"global.npz", "node-a_b.npz", "node-a_b.mask.npz", "node-a_b.json"})
            said = json.loads((folder / "node-a_b.json").read_text())
            self.assertEqual(said, {"update": "weights", "lr": 0.1, "steps": 4})
            with np.load(folder / "node-a_b.npz") as kept:
                np.testing.assert_array_equal(kept["w"], np.zeros(3))
            recorder.received(1, "b", {"w": np.full(3, -0.8)}, kind="difference", rate=0.1, steps=4)
            with np.load(folder / "node-b.npz") as kept:
                np.testing.assert_allclose(kept["w"], np.full(3, 2.0))
            self.assertEqual(json.loads((folder / "node-b.json").read_text())["update"], "gradient")
            recorder.sent(1, {"w": np.ones(3)})
            self.assertEqual([path.name for path in folder.iterdir()], ["global.npz"])
            with self.assertRaisesRegex(ValueError, "not a kind of update"):
                recorder.received(1, "a", {}, kind="momentum")

    def test_the_program_audits_what_was_recorded(self):
        program = shutil.which(os.environ.get("UNMASK_PROGRAM", "unmask"))
        if program is None:
            support.skipped(self, "there is no program unmask; build it, and name it in UNMASK_PROGRAM")
        gradients, _ = support.cat()
        with tempfile.TemporaryDirectory() as place:
            recorder = unmask.Recorder(Path(place) / "received")
            recorder.received(1, "anna", gradients, kind="gradient", examples=1)
            command = [program, "audit", Path(place) / "received", "--out", Path(place) / "out"]
            subprocess.run(command, check=True, capture_output=True)
            told = json.loads((Path(place) / "out/audit.json").read_text(encoding="utf-8"))
        update = told["updates"][0]
        self.assertEqual((update["round"], update["name"]), (1, "anna"))
        embedding = next(found for found in update["attacks"] if found["attack"] == "embedding")
        self.assertNotIn("refusal", embedding)
        self.assertEqual(embedding["report"]["verdict"], "cannot-tell")

    def test_what_is_no_module_is_named(self):
        with self.assertRaisesRegex(TypeError, "dict is no torch.nn.Module"):
            unmask.audit({})


class Torch(unittest.TestCase):
    def setUp(self):
        if MISSING:
            support.skipped(self, MISSING)
        torch.manual_seed(1)
        self.model = timm.models.vision_transformer.VisionTransformer(
            img_size=32, patch_size=8, embed_dim=96, depth=2, num_heads=3, num_classes=10
        )

    def audit(self, **options):
        return unmask.audit(self.model, mean=0.5, std=0.5, updates=2, **options)

    def test_what_is_exact_is_found_and_the_module_stays_as_it_is(self):
        before = {name: value.clone() for name, value in self.model.state_dict().items()}
        told = self.audit()
        for attack in ("embedding", "label", "membership"):
            found = finding(told, "server", attack)
            self.assertEqual((found["outlook"], found["tried"]["recognisable"]), ("exact", 2), found)
        self.assertIn("The server can compute the picture of every client", str(told))
        self.assertEqual(told.details["deployment"]["model"], "vit_patch8_dim96_depth2_heads3_32")
        self.assertTrue(self.model.training)
        for name, value in self.model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        with tempfile.TemporaryDirectory() as place:
            told.save(place)
            page = (Path(place) / "audit.html").read_text()
            self.assertIn("data:image/png;base64,", page)
            self.assertNotIn("not what counting says", page)

    def test_defences_and_rules_are_the_real_ones(self):
        masked = finding(self.audit(defence="random-binary:0.5"), "server", "completion")
        self.assertEqual((masked["outlook"], masked["tried"]["recognisable"]), ("exact", 2), masked)
        noised = finding(self.audit(defence="gaussian:eps=4,delta=1e-5,clip=0.5"), "server", "embedding")
        self.assertEqual((noised["outlook"], noised["tried"]["recognisable"]), ("unknown", 0), noised)
        fixed = finding(self.audit(defence="fixed-position"), "server", "embedding")
        self.assertEqual((fixed["outlook"], fixed["tried"]["cannot_tell"]), ("counting-forbids", 2), fixed)
        local = finding(self.audit(rule="fedavg:3"), "server", "embedding")
        self.assertEqual((local["outlook"], local["tried"]["recognisable"]), ("unknown", 2), local)
        both = finding(self.audit(rule="fedavg:4", defence="random-binary:0.5"), "server", "label")
        self.assertEqual(both["tried"]["cannot_tell"], 0, both)
        two = self.audit(cohort=2, secagg=True)
        self.assertEqual(finding(two, "client", "embedding")["tried"]["recognisable"], 2)
        masked = self.audit(cohort=2, defence="random-binary:0.5")
        self.assertNotIn("tried", finding(masked, "client", "completion"))

    def test_modules_that_cannot_be_tried_say_why(self):
        def refused(**options):
            model = timm.models.vision_transformer.VisionTransformer(
                img_size=32, patch_size=8, embed_dim=96, depth=1, num_heads=3, num_classes=10, **options
            )
            with self.assertRaises(ValueError) as refusal:
                unmask.audit(model)
            return str(refusal.exception)

        self.assertIn("no class token", refused(class_token=False, global_pool="avg"))
        self.assertIn("register tokens", refused(reg_tokens=4))
        self.model.pos_embed.requires_grad = False
        with self.assertRaisesRegex(ValueError, "pos_embed and 0 more parameters are frozen"):
            self.audit()

    def test_a_head_of_zeros_lets_nothing_through(self):
        torch.nn.init.zeros_(self.model.head.weight)
        found = finding(unmask.audit(self.model, mean=0.5, std=0.5, updates=1), "server", "embedding")
        self.assertEqual((found["outlook"], found["tried"]["recognisable"]), ("unknown", 0))
        self.assertIn("head are all zero", found["because"])

    def test_the_module_says_heads_and_normalisation(self):
        model = timm.create_model("vit_tiny_patch16_224", num_classes=10)
        told = unmask.audit(model, updates=0)
        self.assertIn("vit_tiny_patch16_224", told.details["deployment"]["model"])
        assumed = [note for note in told.details["notes"] if "assumed" in note]
        self.assertEqual(assumed, [], "timm's modules say their mean and std")

    def test_own_functions_stand_beside_ours(self):
        def signs(update, seed):
            return {name: np.sign(value) for name, value in update.items()}

        def truth(weights, update, mask):
            return pictures[0]

        def wrong(weights, update, mask):
            return np.zeros(3)

        _, image = support.cat()
        pictures = np.stack([image / 255])
        told = unmask.matrix(
            self.model, pictures, [3], mean=0.5, std=0.5, attacks=["embedding", truth], defences=["none", "random-binary:0.5", signs]
        )
        self.assertGreater(told.mean("embedding", "none"), 0.99)
        self.assertLess(told.mean("embedding", "random-binary:0.5"), 0.5)
        self.assertLess(told.mean("embedding", "signs") or 0, 0.5)
        self.assertGreater(told.mean("truth", "signs"), 0.99)
        self.assertEqual(len(told.rows), 6)
        self.assertIn("random-binary:0.5", str(told))
        with self.assertRaisesRegex(ValueError, r"wrong must return a picture \[32, 32, 3\]"):
            unmask.matrix(self.model, pictures, [3], mean=0.5, std=0.5, attacks=[wrong])
        with self.assertRaisesRegex(ValueError, "2 labels for 1 pictures"):
            unmask.matrix(self.model, pictures, [3, 4], mean=0.5, std=0.5)

    def test_the_notebook_runs(self):
        path = support.CRATES / "python/notebooks/audit.ipynb"
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        names = {}
        with redirect_stdout(io.StringIO()) as said:
            for cell in cells:
                if cell["cell_type"] == "code":
                    exec(compile("".join(cell["source"]), str(path), "exec"), names)
        self.assertIn("The server can compute the picture of every client.", said.getvalue())
        self.assertIn("A curious client can compute", said.getvalue())
        self.assertIn("signs", said.getvalue())


if __name__ == "__main__":
    unittest.main()
