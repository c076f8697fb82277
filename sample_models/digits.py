"""The data that the sample models learn from: scikit-learn's 8x8 handwritten digits.

The 1,797 images come with scikit-learn, so nothing is downloaded. Pixels are whole numbers from
0 to 16 and are scaled to 0..1. A fixed fifth of them is held out: no model sees it in training.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BRIGHTEST_PIXEL = 16.0
SPLIT_SEED = 0
HELD_OUT_FRACTION = 0.2


@dataclass(frozen=True)
class LabelledImages:
    """Images, float32 [N, 1, 8, 8] in 0..1, with their digits, int64 [N]."""

    images: np.ndarray
    labels: np.ndarray

    def save(self, path: Path) -> None:
        """Write the arrays `images` and `labels` into one compressed .npz file."""
        np.savez_compressed(path, images=self.images, labels=self.labels)


def load_split() -> tuple[LabelledImages, LabelledImages]:
    """Return the training part and the held-out part, the same ones every time.

    The split keeps the share of each digit (it is stratified) and is drawn with a fixed seed.
    """
    pixels, digits = map(np.asarray, load_digits(return_X_y=True))
    images = (pixels / BRIGHTEST_PIXEL).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = digits.astype(np.int64)
    train, test = train_test_split(
        np.arange(len(labels)),
        test_size=HELD_OUT_FRACTION,
        random_state=SPLIT_SEED,
        stratify=labels,
    )
    return LabelledImages(images[train], labels[train]), LabelledImages(images[test], labels[test])
