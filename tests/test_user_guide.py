"""Claims of the user guide that its own doctests do not show: what each way of ranking costs."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from sktransfer.model_selection import TransferabilitySelector, make_transferability_scorer

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "user_guide" / "selection.rst"
N = 60


class CountingBackbone(TransformerMixin, BaseEstimator):
    """A fixed random projection that counts the rows that go through it."""

    stateless = True
    rows = 0

    def __init__(self, width=2):
        self.width = width

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        CountingBackbone.rows += len(X)
        projection = np.random.default_rng(self.width).normal(size=(X.shape[1], self.width))
        return X @ projection


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.arange(N) % 3
    CountingBackbone.rows = 0
    return rng.normal(size=(N, 5)) + y[:, None], y


ONE, TWO = CountingBackbone(2), CountingBackbone(3)
AT_ONCE = [(np.arange(N), np.arange(N))]


def selector(cv):
    return TransferabilitySelector([("one", ONE), ("two", TWO)], metric=["logme", "hscore"], cv=cv)


def search(cv, *head):
    return GridSearchCV(
        Pipeline([("backbone", ONE), *head]),
        {"backbone": [ONE, TWO]},
        scoring={name: make_transferability_scorer(name) for name in ("logme", "hscore")},
        cv=cv,
        refit=False,
    )


HEAD = ("classifier", LogisticRegression())
COSTS = {
    "selector": (selector(None), 1),
    "selector, cv=5": (selector(5), 1),
    "search": (search(AT_ONCE), 2),
    "search, cv=5": (search(5), 2),
    "search with a classifier": (search(AT_ONCE, HEAD), 3),
    "search with a classifier, cv=5": (search(5, HEAD), 6),
}


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@pytest.mark.parametrize("way", COSTS)
def test_forward_passes_are_as_the_guide_says(way, data):
    ranking, images_per_sample = COSTS[way]
    ranking.fit(*data)
    assert CountingBackbone.rows == 2 * N * images_per_sample


def test_the_guide_states_these_costs():
    rows = re.findall(r"^     - :math:`(\d?) ?n`$", GUIDE.read_text(), flags=re.MULTILINE)
    assert [int(times or 1) for times in rows] == [images for _, images in COSTS.values()]
