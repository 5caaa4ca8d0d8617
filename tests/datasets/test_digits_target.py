"""scikit-learn's digits as 28 x 28 images."""

from hashlib import sha256

import numpy as np
from sklearn.datasets import load_digits

from sktransfer.datasets import load_digits_target

TARGET = load_digits_target()


def test_images_are_the_digits_enlarged_in_a_black_frame():
    assert TARGET.images.shape == (1797, 28, 28)
    assert TARGET.images.dtype == np.uint8
    assert TARGET.images[:, :4].max() == TARGET.images[:, :, -4:].max() == 0
    assert TARGET.images.max() == 255
    small = load_digits().images
    box = TARGET.images[:, 4:24, 4:24].astype(float)
    # Two and a half pixels of the box for one of the original: compare pairs of rows and columns.
    pairs = box.reshape(-1, 4, 5, 4, 5).mean(axis=(2, 4))
    originals = small.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)) * 255 / 16
    assert np.corrcoef(pairs.ravel(), originals.ravel())[0, 1] > 0.99
    np.testing.assert_array_equal(TARGET.y, load_digits().target)


def test_the_images_are_the_same_everywhere():
    """Rounding leaves one grey level of room to other versions of scipy."""
    coarse = (TARGET.images[::300].astype(int).sum(axis=(1, 2)) / 100).round().astype(int)
    assert coarse.tolist() == [300, 286, 326, 322, 280, 298]
    assert (
        sha256(TARGET.train_indices.astype("<i8").tobytes())
        .hexdigest()
        .startswith("d36e3e9165963a56")
    )


def test_the_parts_are_fixed_stratified_and_disjoint():
    train, test = TARGET.train_indices, TARGET.test_indices
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(1797))
    counts = np.bincount(TARGET.y_train) - np.bincount(TARGET.y_test)
    assert set(counts.tolist()) <= {0, 1}
    np.testing.assert_array_equal(TARGET.images_train, TARGET.images[train])
    np.testing.assert_array_equal(TARGET.images_test, TARGET.images[test])
    np.testing.assert_array_equal(TARGET.y_train, TARGET.y[train])
    np.testing.assert_array_equal(TARGET.y_test, TARGET.y[test])
    assert TARGET.target_names.tolist() == list("0123456789")
    assert "CC BY 4.0" in TARGET["DESCR"]


def test_each_call_gives_arrays_of_its_own():
    other = load_digits_target()
    other.images[:] = 0
    assert TARGET.images.max() == 255
    assert load_digits_target().images.max() == 255
