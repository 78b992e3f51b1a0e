"""With PyTorch and timm, if installed: computes a picture's gradient, masks it and reconstructs the picture."""

import unittest

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


class Torch(unittest.TestCase):
    def setUp(self):
        if MISSING:
            support.skipped(self, MISSING)
        torch.manual_seed(1)
        self.model = timm.models.vision_transformer.VisionTransformer(
            img_size=32, patch_size=8, embed_dim=96, depth=4, num_heads=3, num_classes=10
        ).eval()
        _, image = support.cat()
        self.truth = image / 255
        self.gradients = self.gradient_of(((self.truth - 0.5) / 0.5).transpose(2, 0, 1)[None], [3])

    def gradient_of(self, images, labels):
        self.model.zero_grad()
        images, labels = torch.as_tensor(images, dtype=torch.float32), torch.as_tensor(labels)
        torch.nn.functional.cross_entropy(self.model(images), labels).backward()
        return {name: p.grad.clone() for name, p in self.model.named_parameters()}

    def attack(self, gradients, mask=None, **options):
        return unmask.invert(self.model.state_dict(), gradients, mask, gradient_of=self.gradient_of, **options)

    def test_a_mask_at_half_is_undone_and_the_model_vouches_for_the_picture(self):
        masked, mask = unmask.mask(self.gradients, rates=0.5, seed=7)
        for report in (self.attack(masked, mask), self.attack(self.gradients, attack="embedding")):
            self.assertGreater(support.psnr(report.pictures[0], self.truth), 79)
            self.assertLess(report.misfit, 1e-3)
            self.assertEqual(report.pictures_by_rank, "1")
            self.assertEqual(report.labels, [3])
        self.assertEqual(report.verdict, "recognisable")

    def test_members_are_told_through_the_callers_model(self):
        for candidate, verdict in ((self.truth, "member"), (self.truth[::-1], "stranger")):
            report = self.attack(self.gradients, attack="membership", candidate=np.ascontiguousarray(candidate))
            self.assertEqual(report.details["membership"]["verdict"], verdict)
            self.assertEqual((report.verdict, len(report.pictures)), (None, 0))

    def test_tensors_of_other_types_say_what_to_do(self):
        half = {name: gradient.to(torch.bfloat16) for name, gradient in self.gradients.items()}
        with self.assertRaisesRegex(ValueError, "the dict of gradients: cls_token is no array: .*BFloat16"):
            self.attack(half)


if __name__ == "__main__":
    unittest.main()
