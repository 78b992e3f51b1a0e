"""unmask.mask gives the same bits as every other client."""

import unittest

import numpy as np
import support
import unmask

SHAPES = support.vit_shapes(image=16, patch=4, dim=48, depth=2, classes=10)
RATES = {"patch": 0.95, "pos": 0.9, "attn": 0.5, "mlp": 0.2, "norm": 0, "head": 0.30001}
SEED = bytes([7] * 32)


def update(dtype=np.float32):
    """An update of vit_pico_patch4_16 without zeros."""
    generator = np.random.default_rng(1)
    return {name: (generator.random(shape) + 1).astype(dtype) for name, shape in SHAPES.items()}


def flat(arrays):
    return np.concatenate([arrays[name].ravel() for name in SHAPES])


def words(bits):
    """Words of 64 entries each; the first entry is the lowest bit."""
    chunks = [bits[start : start + 64] for start in range(0, len(bits), 64)]
    return [f"{sum(int(bit) << lane for lane, bit in enumerate(chunk)):016x}" for chunk in chunks]


class Mask(unittest.TestCase):
    def test_bits_are_those_of_every_client(self):
        committed = (support.CRATES / "defence/testdata/mask_groups.txt").read_text().splitlines()
        committed = committed[: committed.index(next(line for line in committed if line.startswith("frozen")))]
        _, mask = unmask.mask(update(), RATES, SEED)
        bits = flat(mask)
        found = [word for index, word in enumerate(words(bits)) if index < 8 or index % 31 == 0]
        self.assertEqual([f"client keeps {bits.sum()}", *found], committed)

    def test_one_rate_and_a_number_for_a_seed(self):
        committed = (support.CRATES / "defence/testdata/mask_words.txt").read_text().split()
        _, mask = unmask.mask(update(), 0.3, int.from_bytes(SEED, "little"))
        self.assertEqual(words(flat(mask)[:1000]), committed)

    def test_what_is_hidden_is_zero_and_the_rest_as_it_was(self):
        for dtype in (np.float16, np.float32, np.float64):
            plain = update(dtype)
            masked, mask = unmask.mask(plain, {"pos": 0, "others": 0.5}, SEED)
            self.assertEqual(list(masked), list(plain))
            for name, array in plain.items():
                self.assertEqual((masked[name].dtype, mask[name].dtype), (dtype, np.uint8))
                np.testing.assert_array_equal(masked[name], array * mask[name].astype(dtype))
            self.assertTrue(mask["pos_embed"].all())
        _, same = unmask.mask(update(), "pos=0,0.5", SEED)
        np.testing.assert_array_equal(flat(same), flat(mask))

    def test_parts_of_a_tensor_share_its_mask(self):
        """Hugging Face stores q, k and v separately."""
        plain = update()
        _, expected = unmask.mask(plain, 0.5, SEED)
        apart, front = {}, "vit.encoder.layer.{}.attention.attention.{}.{}"
        for name, array in plain.items():
            if ".qkv." in name:
                _, block, *_, kind = name.split(".")
                thirds = zip(("query", "key", "value"), np.split(array, 3))
                apart |= {front.format(block, which, kind): third for which, third in thirds}
            else:
                apart[name] = array
        _, mask = unmask.mask(apart, 0.5, SEED)
        for kind in ("weight", "bias"):
            parts = [mask[front.format(1, which, kind)] for which in ("query", "key", "value")]
            np.testing.assert_array_equal(np.concatenate(parts), expected[f"blocks.1.attn.qkv.{kind}"])

    def test_what_will_not_do_is_named(self):
        whole = update()
        lacking = {name: array for name, array in whole.items() if name != "norm.bias"}
        for words, *arguments in (
            ("norm.bias [48] is missing", lacking, 0.5, SEED),
            ("holds pooler.bias, which is not a parameter of vit_pico_patch4_16", whole | {"pooler.bias": [1.0]}, 0.5, SEED),
            ("1 is not a share of zeros", whole, 1.0, SEED),
            ("there is no parameter group \"position\"", whole, {"position": 0.5, "others": 0}, SEED),
            ("add one for all others at the end", whole, {"pos": 0.5}, SEED),
            ("is not a seed; give 32 bytes", whole, 0.5, b"short"),
            ("is not a seed; give 32 bytes", whole, 0.5, -1),
        ):
            with self.assertRaises(ValueError) as refusal:
                unmask.mask(*arguments)
            self.assertIn(words, str(refusal.exception))


if __name__ == "__main__":
    unittest.main()
