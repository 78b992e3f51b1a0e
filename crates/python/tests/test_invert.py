"""unmask.invert, on a photograph's gradient computed by PyTorch."""

import faulthandler
import os
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np
import support
import unmask

POSITION, PATCH, BIAS = "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def whole(arrays):
    """The update of the whole model, 0 where it is unknown."""
    shapes = support.vit_shapes(image=32, patch=8, dim=96, depth=4, classes=10)
    return {name: arrays.get(name, np.zeros(shape, np.float32)) for name, shape in shapes.items()}


def embeddings_gradient(position, images):
    """The patch embedding's gradient for normalised images [n, 3, 32, 32]: dl/dW = G_pos^T X."""
    rows = np.asarray(position, np.float64)[0, 1:]
    patches = images.reshape(len(images), 3, 4, 8, 4, 8).transpose(0, 2, 4, 1, 3, 5).reshape(len(images), 16, 192)
    weight = np.einsum("sd,nsl->dl", rows, patches.astype(np.float64)) / len(images)
    return {POSITION: position, PATCH: weight.reshape(96, 3, 8, 8), BIAS: rows.sum(0)}


class Invert(unittest.TestCase):
    def setUp(self):
        self.arrays, image = support.cat()
        self.truth = image / 255

    def refused(self, *arguments, **options):
        with self.assertRaises(ValueError) as refusal:
            unmask.invert(*arguments, **options)
        return str(refusal.exception)

    def test_a_mask_at_half_is_undone_exactly(self):
        masked, mask = unmask.mask(whole(self.arrays), 0.5, seed=3)
        report = unmask.invert(None, masked, mask, truth=self.truth)
        self.assertEqual((report.pictures.shape, report.pictures.dtype), ((1, 32, 32, 3), np.float32))
        self.assertGreater(support.psnr(report.pictures[0], self.truth), 90)
        self.assertEqual(report.verdict, "recognisable")
        self.assertAlmostEqual(report.details["hidden_share"], 0.5, delta=0.01)
        self.assertIn("verdict: recognisable", str(report))
        naive = unmask.invert(None, masked, mask, attack="embedding", truth=self.truth)
        self.assertLess(support.psnr(naive.pictures[0], self.truth), 20)
        self.assertEqual(naive.verdict, "not-recognisable-by-this-attack")

    def test_a_picture_that_no_model_checked_is_not_vouched_for(self):
        report = unmask.invert(None, self.arrays, attack="embedding")
        self.assertGreater(support.psnr(report.pictures[0], self.truth), 79)
        self.assertEqual((report.verdict, report.misfit), ("cannot-tell", None))
        self.assertEqual(report.details["because"], report.because)
        self.assertTrue(any("vit_nano_patch8_32" in remark or "No file holds a block" in remark for remark in report.remarks))

    def test_the_callers_model_vouches_for_it(self):
        fed = []

        def gradient_of(images, labels):
            fed.append((images.shape, images.dtype, labels.tolist()))
            return whole(embeddings_gradient(self.arrays[POSITION], images))

        def attack(**options):
            return unmask.invert(whole({}), whole(self.arrays), attack="embedding", labels=[3], **options)

        report = attack(gradient_of=gradient_of)
        self.assertEqual(fed, [((1, 3, 32, 32), np.float32, [3])])
        self.assertLess(report.misfit, 1e-4)
        self.assertEqual(report.verdict, "recognisable")
        self.assertIn("give gradient_of", attack().because)
        with self.assertRaises(ZeroDivisionError):
            attack(gradient_of=lambda images, labels: 1 / 0)
        with self.assertRaisesRegex(ValueError, "the dict that gradient_of returned does not fit: cls_token"):
            attack(gradient_of=lambda images, labels: {"head.bias": np.zeros(10)})

    def test_pixels_come_back_as_they_were_before_normalisation(self):
        images = ((self.truth - MEAN) / STD).transpose(2, 0, 1)[None]
        gradients = embeddings_gradient(self.arrays[POSITION], images)
        report = unmask.invert(
            whole({}),
            whole(gradients),
            attack="embedding",
            mean=MEAN,
            std=tuple(STD),
            labels=[3],
            gradient_of=lambda images, labels: whole(embeddings_gradient(self.arrays[POSITION], images)),
        )
        self.assertGreater(support.psnr(report.pictures[0], self.truth), 75)
        self.assertLess(report.misfit, 1e-4)

    def test_arrays_of_any_kind_and_name_are_read(self):
        class Tensor:
            def __init__(self, values):
                self.values = values

            def __array__(self, dtype=None, copy=None):
                return np.asarray(self.values, dtype)

        expected = unmask.invert(None, self.arrays, attack="embedding").pictures
        names = {
            POSITION: "module.vit.embeddings.position_embeddings",
            PATCH: "module.vit.embeddings.patch_embeddings.projection.weight",
            BIAS: "module.vit.embeddings.patch_embeddings.projection.bias",
        }
        for update in (
            {names[name]: array for name, array in self.arrays.items()},
            {name: np.asfortranarray(array) for name, array in self.arrays.items()},
            {name: Tensor(array) for name, array in self.arrays.items()},
            {**self.arrays, "head.weight": None},
        ):
            np.testing.assert_array_equal(unmask.invert(None, update, attack="embedding").pictures, expected)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "gradients.npz")
            np.savez(path, **self.arrays)
            for file in (path, str(path)):
                np.testing.assert_array_equal(unmask.invert(None, file, attack="embedding").pictures, expected)

    def test_several_rounds_are_gathered(self):
        masks = [
            {name: np.random.default_rng(round).random(array.shape) < 0.5 for name, array in self.arrays.items()}
            for round in range(8)
        ]
        updates = [{name: array * mask[name] for name, array in self.arrays.items()} for mask in masks]
        report = unmask.invert(None, updates, masks, attack="rounds", truth=self.truth)
        self.assertGreater(report.details["ssim"], 0.9)
        self.assertIn("8 of 8 rounds were gathered.", report.remarks)
        refused = self.refused(None, updates, masks[:3], attack="rounds")
        self.assertIn("there are 3 masks for 8 updates", refused)
        self.assertIn("give --gradients, or --attack rounds for the list of updates", self.refused(None, updates, masks))

    def test_what_cannot_work_is_said_as_the_command_line_says_it(self):
        self.assertIn("the attacks are embedding, embedding-aware", self.refused(None, self.arrays, attack="magic"))
        refused = self.refused(whole({}), whole(self.arrays), attack="matching", labels=[3])
        self.assertIn("run `unmask invert --attack matching", refused)
        without = {name: array for name, array in self.arrays.items() if name != POSITION}
        self.assertIn("the dict of gradients has patch_embed.proj.weight and lacks pos_embed", self.refused(None, without))
        mask = {name: np.full(array.shape, 2, np.uint8) for name, array in self.arrays.items()}
        refused = self.refused(None, self.arrays, mask)
        self.assertIn("the dict of masks: ", refused)
        self.assertIn("holds 2 at value 0; a mask is 0 (hidden) or 1 (kept)", refused)
        spoilt = {**self.arrays, PATCH: np.full_like(self.arrays[PATCH], np.nan)}
        self.assertIn("holds NaN", self.refused(None, spoilt))
        refused = self.refused(None, {**self.arrays, POSITION: self.arrays[POSITION].astype(np.complex64)})
        self.assertIn("has type <c8; save it as f16, bf16, f32, f64 or u8", refused)
        self.assertIn("give a dict of names and arrays", self.refused(None, 3))
        self.assertIn("nowhere.npz: ", self.refused(None, "nowhere.npz"))
        self.assertIn("truth has shape [8, 8, 3]", self.refused(None, self.arrays, truth=np.zeros((8, 8, 3))))
        self.assertIn("the truth holds 7", self.refused(None, self.arrays, truth=np.full((32, 32, 3), 7.0)))
        self.assertIn("--std 0 is no deviation", self.refused(None, self.arrays, std=0))
        self.assertIn("give --candidate", self.refused(whole({}), whole(self.arrays), attack="membership"))
        hidden, mask = unmask.mask(whole(self.arrays), 0.9, seed=1)
        self.assertIn("it needs fewer hidden entries: kept / unknowns is 0.", self.refused(None, hidden, mask))

    @unittest.skipUnless(hasattr(os, "mkfifo"), "there are no named pipes here")
    def test_the_interpreter_goes_on_meanwhile(self):
        """The attack waits until this thread opens its mask, which fails if the attack holds the interpreter's lock."""
        faulthandler.dump_traceback_later(120, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        with tempfile.TemporaryDirectory() as folder:
            pipe = Path(folder, "mask.npz")
            os.mkfifo(pipe)
            refusals = []
            thread = threading.Thread(target=lambda: refusals.append(self.refused(None, self.arrays, pipe)))
            thread.start()
            with open(pipe, "wb"):
                pass
            thread.join()
            self.assertIn("mask.npz", refusals[0])


if __name__ == "__main__":
    unittest.main()
