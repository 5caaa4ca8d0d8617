"""Published references: thirteen sources fine-tuned on eight MedMNIST targets."""

import csv
from importlib.resources import files
from numbers import Real

import numpy as np
from sklearn.utils import Bunch

__all__ = ["MedMNISTReference", "load_medmnist_reference"]

_DTYPE = [
    ("table", np.int64),
    ("metric", "U8"),
    ("train_subset", "U4"),
    ("seed", np.int64),
    ("target", "U9"),
    ("source", "U9"),
    ("value", np.float64),
]
_NO_SEED = -1
# Classes, training, validation and test images, in the order of training images.
_SIZES = {
    "Breast": (2, 546, 78, 156),
    "Retina": (5, 1_080, 120, 400),
    "Pneumonia": (2, 4_708, 524, 624),
    "Derma": (7, 7_007, 1_003, 2_005),
    "Blood": (8, 11_959, 1_712, 3_421),
    "OrganC": (11, 12_975, 2_392, 8_216),
    "OrganS": (11, 13_932, 2_452, 8_827),
    "OrganA": (11, 34_561, 6_491, 17_778),
    "Chest": (14, 78_468, 11_219, 22_433),
    "Path": (9, 89_996, 10_004, 7_180),
    "OCT": (4, 97_477, 10_832, 1_000),
    "Tissue": (8, 165_466, 23_640, 47_280),
    "ImageNet": (1_000, 1_281_167, 50_000, 100_000),
}
_DESCR = """Test performance of ResNet-18 networks fine-tuned on MedMNIST, 576 measurements.

Thirteen networks, each pretrained on one source (ImageNet or one of twelve data sets of MedMNIST),
were fine-tuned on eight targets, with all parameters trained and learning rate and weight decay
tuned by 50 trials, once for accuracy and once for AUROC: on all training images, and on two
stratified subsets of 5 % (seeds 42 and 43). A target is no source for itself. Values are rounded
to three decimals.

Source: Tables A1 to A6 and Table 1 of "Robustness of transferability estimation metrics for medical
imaging". MedMNIST: J. Yang et al., MedMNIST v2, Scientific Data 10, 41 (2023).
"""


class MedMNISTReference(Bunch):
    """Tables of published references, as returned by :func:`load_medmnist_reference`.

    A :class:`~sklearn.utils.Bunch` with one method.

    Parameters
    ----------
    **kwargs : object
        What it holds.

    Examples
    --------
    >>> from sktransfer.datasets import load_medmnist_reference
    >>> published = load_medmnist_reference()
    >>> accuracy = published.reference("Breast", "accuracy")
    >>> max(accuracy, key=accuracy.get), len(accuracy)
    ('ImageNet', 12)
    """

    def reference(self, target, measure="accuracy", *, train_subset="full", seed=None):
        """Give the measured performance of every source on one target.

        Parameters
        ----------
        target : str
            One of ``targets``.
        measure : {"accuracy", "auroc"}, default="accuracy"
            What the networks were tuned for and measured by.
        train_subset : {"full", "5pct"}, default="full"
            What they were fine-tuned on.
        seed : {42, 43} or None, default=None
            Which subset of 5 %; None for all of the training images.

        Returns
        -------
        reference : dict of str to float
            By source, higher is better; without the target itself.

        Raises
        ------
        ValueError
            If there is no such table or target.

        Examples
        --------
        >>> from sktransfer.datasets import load_medmnist_reference
        >>> published = load_medmnist_reference()
        >>> published.reference("Blood", "auroc", train_subset="5pct", seed=42)["ImageNet"]
        0.997
        """
        data = self.data
        given = {
            "target": target,
            "measure": measure,
            "train_subset": train_subset,
        }
        allowed = {
            "target": self.targets,
            "measure": self.measures,
            "train_subset": self.train_subsets,
        }
        for name, value in given.items():
            if not (isinstance(value, str) and value in allowed[name]):
                raise ValueError(
                    f"'{name}' must be one of {list(allowed[name])}. Got {value!r} instead."
                )
        seeds = np.unique(data["seed"][data["train_subset"] == train_subset]).tolist()
        seeds = [None if known == _NO_SEED else known for known in seeds]
        is_one = seed is None or (isinstance(seed, Real) and not isinstance(seed, bool))
        if not is_one or seed not in seeds:
            allowed_seeds = " or ".join(map(str, seeds))
            raise ValueError(
                f"'seed' must be {allowed_seeds} for train_subset={train_subset!r}. "
                f"Got {seed!r} instead."
            )
        rows = data[
            (data["target"] == target)
            & (data["metric"] == measure)
            & (data["train_subset"] == train_subset)
            & (data["seed"] == (_NO_SEED if seed is None else seed))
        ]
        return dict(zip(rows["source"].tolist(), rows["value"].tolist(), strict=True))


def load_medmnist_reference(*, as_frame="auto"):
    """Load published fine-tuning results of thirteen sources on eight MedMNIST targets.

    References to judge metrics by without fine-tuning anything, and an example of how much a
    reference depends on the measure, on the training images and on the seed. Nothing is
    downloaded.

    Parameters
    ----------
    as_frame : bool or "auto", default="auto"
        Whether ``frame`` is made, which needs pandas; "auto" makes it if pandas is installed.

    Returns
    -------
    published : MedMNISTReference
        With the method :meth:`~MedMNISTReference.reference` and the attributes

        data : structured ndarray of shape (576,)
            A row per measurement, with the fields ``table`` (1 to 6), ``metric`` ("auroc" or
            "accuracy"), ``train_subset`` ("full" or "5pct"), ``seed`` (42 or 43, -1 for the full
            training part), ``target``, ``source`` and ``value``. Read-only.
        frame : pandas.DataFrame or None
            The same, with a missing seed for the full training part.
        targets, sources : tuple of str
            In the order of their numbers of training images.
        measures, train_subsets : tuple of str
            What :meth:`~MedMNISTReference.reference` takes.
        sizes : dict of str to dict of str to int
            By data set its ``n_classes``, ``n_train``, ``n_validation`` and ``n_test``.
        DESCR : str
            Where the numbers come from.

    Raises
    ------
    ImportError
        If a frame is asked for and pandas is not installed.

    See Also
    --------
    sktransfer.evaluation.rank_correlation : Agreement of scores with a reference.

    Examples
    --------
    >>> from sktransfer.datasets import load_medmnist_reference
    >>> from sktransfer.evaluation import rank_correlation
    >>> published = load_medmnist_reference()
    >>> accuracy, auroc = (published.reference("Breast", m) for m in ("accuracy", "auroc"))
    >>> rank_correlation(accuracy, auroc)
    CorrelationResult(kendall=0.388, 0.95 interval (..., ...), pvalue=..., n=12)
    """
    if not isinstance(as_frame, bool) and not (isinstance(as_frame, str) and as_frame == "auto"):
        raise ValueError(f"'as_frame' must be True, False or 'auto'. Got {as_frame!r} instead.")
    path = files("sktransfer.datasets") / "data" / "medmnist_reference.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            tuple(_NO_SEED if name == "seed" and text == "" else text for name, text in row.items())
            for row in csv.DictReader(file)
        ]
    data = np.array(rows, dtype=_DTYPE)
    data.flags.writeable = False
    targets, sources = set(data["target"].tolist()), set(data["source"].tolist())
    return MedMNISTReference(
        data=data,
        frame=_frame(data, as_frame) if as_frame else None,
        targets=tuple(name for name in _SIZES if name in targets),
        sources=tuple(name for name in _SIZES if name in sources),
        measures=("accuracy", "auroc"),
        train_subsets=("full", "5pct"),
        sizes={
            name: dict(zip(("n_classes", "n_train", "n_validation", "n_test"), size, strict=True))
            for name, size in _SIZES.items()
        },
        DESCR=_DESCR,
    )


def _frame(data, as_frame):
    try:
        import pandas as pd
    except ImportError:
        if as_frame == "auto":
            return None
        raise ImportError("as_frame=True needs pandas; install it, or use 'data'.") from None
    frame = pd.DataFrame({name: data[name] for name in data.dtype.names})
    frame["seed"] = frame["seed"].astype("Int64").mask(frame["seed"] == _NO_SEED)
    return frame
