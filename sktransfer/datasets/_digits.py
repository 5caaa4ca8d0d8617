"""scikit-learn's digits as a target for networks that take images of 28 x 28 pixels."""

import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

__all__ = ["load_digits_target"]

_BOX = 20  # the digit's box in 28 x 28 pixels, the size MNIST uses too
_DESCR = """Digits of scikit-learn, 1,797 images of 8 x 8 pixels with 17 grey levels, enlarged to
20 x 20 pixels by cubic splines in a black frame, which makes 28 x 28; white on black, uint8.

Within each class, in the order of the file, images go to the training and the test part in turn.

Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning
Repository (1998), https://doi.org/10.24432/C50P49, licence CC BY 4.0.
"""


def load_digits_target():
    """Load scikit-learn's digits as 28 x 28 grey images with a fixed training and test part.

    No network of the tiny zoo has seen them. Nothing is downloaded, and torch is not needed.

    Returns
    -------
    target : :class:`~sklearn.utils.Bunch`
        With the attributes

        images : ndarray of shape (1797, 28, 28), uint8
            White on black.
        y : ndarray of shape (1797,), int64
            The digits 0 to 9.
        images_train, images_test : ndarray of shape (901, 28, 28) and (896, 28, 28), uint8
            The two parts; every class is halved.
        y_train, y_test : ndarray of shape (901,) and (896,), int64
            Their labels.
        train_indices, test_indices : ndarray of int64
            Rows of ``images`` that make up the parts.
        target_names : ndarray of shape (10,)
            Names of the classes.
        DESCR : str
            Where the data come from and what was done.

    See Also
    --------
    load_tiny_zoo : Candidates to be ranked for this target.

    Examples
    --------
    >>> from sktransfer.datasets import load_digits_target
    >>> digits = load_digits_target()
    >>> digits.images_train.shape, digits.images_test.shape, digits.images.dtype
    ((901, 28, 28), (896, 28, 28), dtype('uint8'))
    """
    digits = load_digits()
    images = _enlarge(digits.images)
    y = digits.target.astype(np.int64)
    in_turn = np.empty(len(y), dtype=np.int64)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        in_turn[rows] = np.arange(len(rows)) % 2
    train, test = np.flatnonzero(in_turn == 0), np.flatnonzero(in_turn == 1)
    return Bunch(
        images=images,
        y=y,
        images_train=images[train],
        images_test=images[test],
        y_train=y[train],
        y_test=y[test],
        train_indices=train,
        test_indices=test,
        target_names=np.array([str(name) for name in digits.target_names]),
        DESCR=_DESCR,
    )


def _enlarge(images):
    """Enlarge 8 x 8 images with values 0 to 16 to 20 x 20 and add a black frame of 4 pixels."""
    factor = _BOX / images.shape[1]
    # grid_mode keeps the edges of the first and last pixel in place, outside is black.
    large = zoom(images, (1, factor, factor), order=3, mode="grid-constant", grid_mode=True)
    pixels = np.rint(np.clip(large, 0, 16) * (255 / 16)).astype(np.uint8)
    frame = (28 - _BOX) // 2
    return np.pad(pixels, ((0, 0), (frame, frame), (frame, frame)))
