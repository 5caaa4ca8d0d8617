"""What fine-tuning refuses before any network is trained: data by name and row, parameters."""

import re
from fractions import Fraction

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pandas as pd
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from torch import nn
from torch.utils.data import TensorDataset

from sktransfer.backbones import TorchBackbone
from sktransfer.finetune import (
    FineTuneClassifier,
    FineTuneRegressor,
    FineTuneSearchCV,
    reference_ranking,
)
from sktransfer.finetune._inputs import named

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6)).astype(np.float32)
Y = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
VALUES = X[:, 0].astype(float)
IMAGES = RNG.uniform(size=(40, 1, 6, 6)).astype(np.float32)
VECTORS = TorchBackbone(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)))
CNN = TorchBackbone(
    nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 2)),
    mean=0.5,
    std=0.3,
)
SHORT = {"max_epochs": 1}


class Trained(Exception):
    """Training has begun."""


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    def train(self, *arguments, **named):
        raise Trained

    monkeypatch.setattr(FineTuneClassifier, "_train", train)
    monkeypatch.setattr(FineTuneRegressor, "_train", train)


def rank(backbone, X_test, *, data=None, y=Y, y_test=None, **options):
    data = (X if backbone is VECTORS else IMAGES) if data is None else data
    y_test = y[: len(X_test)] if y_test is None else y_test
    options = {"n_seeds": 1, "from_scratch": False, "energy": False} | options
    return reference_ranking({"a": backbone}, data, y, X_test, y_test, **options)


def fit(backbone, X_val, *, data=None, y=Y, y_val=None):
    data = (X if backbone is VECTORS else IMAGES) if data is None else data
    y_val = y[: len(X_val)] if y_val is None else y_val
    return FineTuneClassifier(backbone, **SHORT).fit(data, y, X_val=X_val, y_val=y_val)


def search(backbone, X_val, *, data=None, y=Y, y_val=None):
    pytest.importorskip("optuna")
    data = (X if backbone is VECTORS else IMAGES) if data is None else data
    y_val = y[: len(X_val)] if y_val is None else y_val
    tuned = FineTuneSearchCV(FineTuneClassifier(backbone, **SHORT), n_trials=1)
    return tuned.fit(data, y, X_val=X_val, y_val=y_val)


def spoilt(array, value, row=7):
    array = array.copy()
    array[(row, *[0] * (array.ndim - 1))] = value
    return array


def numbers(images):
    return TensorDataset(torch.from_numpy(images), torch.arange(len(images)) % 2)


WRONG = [
    (VECTORS, spoilt(X, np.nan), "must hold finite numbers.*first in row 7"),
    (VECTORS, spoilt(X, np.inf), "must hold finite numbers.*first in row 7"),
    (VECTORS, torch.from_numpy(spoilt(X, np.nan)), "finite numbers.*first in row 7"),
    (VECTORS, pd.DataFrame(spoilt(X, np.nan)), "finite numbers.*first in row 7"),
    (VECTORS, spoilt(X, np.nan).tolist(), "finite numbers.*first in row 7"),
    (VECTORS, X[:, :5], r"must have rows like those of X\. Got .* \(40, 5\) and X of .* \(40, 6"),
    (VECTORS, IMAGES, r"must have rows like those of X\."),
    (VECTORS, np.ma.masked_greater(X, 1), "is a masked array"),
    (VECTORS, X.astype(str), "must hold numbers"),
    (VECTORS, X + 1j, "Complex data not supported"),
    (VECTORS, X[:, 0], r"must be a 2-D array, .* Got ndarray of shape \(40,\)"),
    (CNN, spoilt(IMAGES, np.nan), "finite numbers.*first in row 7"),
    (CNN, list(spoilt(IMAGES, np.nan)), "finite numbers.*first in row 7"),
    (CNN, spoilt(IMAGES, 3.0), "must lie between 0 and 1, got values from .* to 3, first in row 7"),
    (CNN, (IMAGES * 255).astype(np.int64), "must be uint8"),
    (CNN, IMAGES[:, :, :5], r"must have rows like those of X\."),
    (CNN, IMAGES[..., None], "must be an array with 3 or 4 axes"),
    (CNN, X, r"must have rows like those of X\."),
    (CNN, numbers(spoilt(IMAGES, np.nan)), "NaN or infinite values in row 7 of the data set"),
    (CNN, ["nowhere.png"] * 40, "40 of 40 image files cannot be read"),
]
IDS = [f"{kind}-{place}" for place, (_, _, kind) in enumerate(WRONG)]


@pytest.mark.parametrize(("backbone", "data", "message"), WRONG, ids=IDS)
def test_test_data_and_validation_data_go_by_their_names(backbone, data, message):
    with pytest.raises((ValueError, TypeError), match=message) as raised:
        rank(backbone, data)
    assert re.search(r"\bX_test\b", str(raised.value)) and "andidate" not in str(raised.value)
    for way in (fit, search):
        with pytest.raises((ValueError, TypeError), match=message) as raised:
            way(backbone, data)
        assert re.search(r"\bX_val\b", str(raised.value))
    with pytest.raises((ValueError, TypeError)) as raised:
        rank(backbone, X if backbone is VECTORS else IMAGES, X_val=data, y_val=Y)
    assert re.search(r"\bX_val\b", str(raised.value)) and "andidate" not in str(raised.value)


@pytest.mark.parametrize(
    ("backbone", "data", "message"),
    [case for case in WRONG if "rows like" not in case[2]],
    ids=[name for name in IDS if "rows like" not in name],
)
def test_bad_training_data_are_no_fault_of_candidates(backbone, data, message):
    good = X if backbone is VECTORS else IMAGES
    with pytest.raises((ValueError, TypeError), match=message) as raised:
        rank(backbone, good, data=data)
    assert re.search(r"\bX\b", str(raised.value)) and "andidate" not in str(raised.value)
    with pytest.raises((ValueError, TypeError), match=message):
        search(backbone, good, data=data)


def test_data_of_all_kinds_are_still_taken(tmp_path):
    paths = []
    for row, image in enumerate(IMAGES):
        paths.append(str(tmp_path / f"X{row}.png"))
        Image.fromarray((image[0] * 255).astype(np.uint8)).save(paths[-1])
    kinds = [
        (VECTORS, X),
        (VECTORS, X.tolist()),
        (VECTORS, torch.from_numpy(X)),
        (VECTORS, pd.DataFrame(X, columns=list("abcdef"))),
        (VECTORS, np.asfortranarray(X.astype(np.float64))),
        (CNN, IMAGES),
        (CNN, IMAGES[:, 0]),
        (CNN, np.moveaxis(IMAGES, 1, -1)),
        (CNN, (IMAGES * 255).astype(np.uint8)),
        (CNN, (IMAGES * 255).astype(int).tolist()),
        (CNN, list(IMAGES)),
        (CNN, paths),
        (CNN, pd.Series(paths)),
        (CNN, [Image.open(path) for path in paths]),
        (CNN, numbers(IMAGES)),
    ]
    for place, (backbone, data) in enumerate(kinds):
        with pytest.raises(Trained):
            fit(backbone, data, data=data)
        if place % 3 == 2:
            with pytest.raises(ValueError, match="All failed: .*Trained"):
                search(backbone, data, data=data)
        with pytest.raises(ValueError, match="All candidates have failed. 'a': Trained"):
            rank(backbone, data, data=data)
    # Channels may be last in one and first in the other, and arrays go with paths.
    for other in (np.moveaxis(IMAGES, 1, -1), IMAGES[:, 0], paths, numbers(IMAGES)):
        with pytest.raises(ValueError, match="All candidates have failed. 'a': Trained"):
            rank(CNN, other)


def test_files_that_cannot_be_decoded_are_found_before_training(tmp_path):
    paths = [str(tmp_path / f"{row}.png") for row in range(40)]
    for image, path in zip(IMAGES, paths, strict=True):
        Image.fromarray((image[0] * 255).astype(np.uint8)).save(path)
    content = (tmp_path / "3.png").read_bytes()
    cut = tmp_path / "cut.png"
    cut.write_bytes(content[:45])
    test = [*paths[:5], str(cut)]
    with pytest.raises(ValueError, match=r"^X_test: 1 of 6 image files cannot be read: row 5"):
        rank(CNN, test, data=paths)


def test_columns_of_frames_have_names():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    with pytest.raises(ValueError, match="^X_test: The feature names should match"):
        rank(VECTORS, frame[list("fedcba")], data=frame)


def test_what_is_missing_is_for_those_that_can_fill_it_in():
    gaps = spoilt(X, np.nan)
    imputer = make_pipeline(SimpleImputer(), PCA(2))
    head = FineTuneClassifier(None, train="head", **SHORT)
    with pytest.raises(ValueError, match="All candidates have failed. 'a': Trained"):
        rank(imputer, gaps, data=gaps, estimator=head)
    with pytest.raises(ValueError, match="^X_test must hold finite numbers"):
        rank(PCA(2), gaps, data=X, estimator=head)
    # Of two candidates, the one that cannot is told so before anything is trained.
    with pytest.raises(
        ValueError, match=r"'b': ValueError: X_test .* in row 7.*'a': Trained|'a': "
    ):
        reference_ranking({"a": imputer, "b": PCA(2)}, X, Y, gaps, Y, estimator=head, n_seeds=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y_test": [1] * 40}, "^'y_test' has labels that are numbers, and those of 'y' are str"),
        ({"y": VALUES, "y_test": spoilt(VALUES, np.inf)}, "'y_test' has 1 of its 40 values inf"),
        ({"y": spoilt(VALUES, -np.inf), "y_test": VALUES}, "'y' has 1 of .* first in row 7"),
        ({"y": VALUES, "y_test": Y}, "y_test"),
        ({"y": VALUES, "y_test": np.c_[VALUES, VALUES]}, "^y_test has 2 values per sample"),
        ({"y_test": np.zeros((40, 2, 2))}, "'y_test' must be of shape"),
        ({"y_test": [["a"], ["a", "b"]] * 20}, "^y_test: "),
        ({"y": ["no"] * 20 + [1] * 20}, "y for reference_ranking mixes numbers and str"),
        ({"y_test": ["no"] * 20 + [1] * 20}, "y_test for FineTuneClassifier mixes numbers and st"),
        ({"y_test": ["no"] * 39 + [np.nan]}, "'y_test' lacks 1 of its 40 .* in row 39"),
        ({"estimator": FineTuneClassifier(None, callbacks=[3])}, "'callbacks' must hold callba"),
        ({"y_test": Y[:3]}, "'X_test' and 'y_test' must have as many rows. Got 40 and 3"),
        ({"X_val": X, "y_val": [0] * 40}, "^y_val has labels that are numbers"),
        ({"X_val": X, "y_val": ["maybe"] * 40}, "^y_val has labels that are none of"),
        ({"X_val": X, "y_val": Y[:3]}, "'X_val' and 'y_val' must have as many rows"),
        ({"X_val": X, "y_val": [None] * 40}, "'y_val' lacks 40 of its 40"),
        ({"n_seeds": True}, "'n_seeds' parameter of reference_ranking must be an int .*Got True"),
        ({"n_threads": True}, "'n_threads' parameter of reference_ranking"),
        ({"n_jobs": 0}, "'n_jobs' parameter of reference_ranking must be .* Got 0"),
        ({"n_jobs": "q"}, "'n_jobs' parameter of reference_ranking"),
        ({"scoring": ["accuracy", "accuracy"]}, "'scoring' names a measure twice"),
        (
            {"estimator": FineTuneClassifier(None, lr=-1)},
            "^The 'lr' parameter of FineTuneClassifier must be a float",
        ),
        (
            {"estimator": FineTuneClassifier(None, class_weight={"maybe": 2})},
            "class",
        ),
        ({"estimator": GridSearchCV(FineTuneClassifier(None), {})}, "'estimator' must be a Fine"),
    ],
)
def test_what_a_reference_refuses(options, message):
    with pytest.raises((ValueError, TypeError), match=message) as raised:
        rank(VECTORS, X, **options)
    assert "andidates have failed" not in str(raised.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sampler": "foo"}, "'sampler' parameter of FineTuneSearchCV"),
        ({"pruner": "x"}, "'pruner' parameter of FineTuneSearchCV"),
        ({"validation_fraction": 5.0}, "'validation_fraction' parameter of FineTuneSearchCV"),
        ({"timeout": -1}, "'timeout' parameter of FineTuneSearchCV"),
        ({"error_score": "x"}, "'error_score' parameter of FineTuneSearchCV"),
        ({"study_name": 3}, "'study_name' parameter of FineTuneSearchCV"),
        ({"n_trials": "a"}, "'n_trials' parameter of FineTuneSearchCV"),
        ({"n_trials": 0}, "'n_trials' parameter of FineTuneSearchCV"),
        ({"n_trials": True}, "'n_trials' parameter of FineTuneSearchCV"),
        ({"n_jobs": "q"}, "'n_jobs' parameter of FineTuneSearchCV"),
        ({"n_jobs": 0}, "'n_jobs' parameter of FineTuneSearchCV"),
        ({"cv": "a"}, "'cv' parameter of FineTuneSearchCV"),
        ({"cv": 30}, "'cv' is 30, which cannot split these 40 rows"),
        ({"cv": [([0, 1], [99])]}, "Split 0 of 'cv' has the rows 99"),
        ({"cv": [[True] * 3, [False] * 3]}, "Split 0 of 'cv' must"),
        ({"cv": [([0.5], [1])]}, "Split 0 of 'cv' must have the numbers of rows"),
        ({"cv": iter([([0, 1], [99])])}, "Split 0 of 'cv' has the rows 99"),
        ({"refit": "foo"}, "'refit' is 'foo', which is none of the measures"),
        ({"scoring": "nonsense"}, "'scoring' is 'nonsense', which is no measure"),
        ({"storage": "/nowhere/x.db"}, "'storage' is '/nowhere/x.db', and its folder"),
        ({"storage": ""}, "'storage' must be the path of a file.*no name"),
        ({"storage": "/"}, "'storage' must be the path of a file.*a folder"),
        ({"storage": "://nothing"}, "'storage' is .*can't be opened"),
        ({"param_distributions": {"rate": (0, 1)}}, "names 'rate', and FineTuneClassifier has no"),
        ({"param_distributions": {"lr": (1, 0)}}, "for 'lr' must begin with the smaller"),
        ({"param_distributions": {"lr": [0.1, 0.2, 0.1]}}, "for 'lr' has the choice 0.1 twice"),
        ({"param_distributions": {"backbone__depth": [1]}}, "names 'backbone__depth'"),
        ({"random_state": "a"}, "'random_state' parameter of FineTuneSearchCV"),
        ({"verbose": -3}, "'verbose' parameter of FineTuneSearchCV"),
        ({"estimator": FineTuneClassifier(None, lr=-1)}, "'lr' parameter of FineTuneClassifier"),
        (
            {"estimator": FineTuneClassifier(None, train="staged", max_epochs=1)},
            "'head_epochs' must be smaller",
        ),
    ],
)
def test_what_is_refused_of_a_search(parameters, message):
    pytest.importorskip("optuna")
    tuned = FineTuneSearchCV(**{"estimator": FineTuneClassifier(None)} | parameters)
    with pytest.raises((ValueError, TypeError), match=message):
        rank(VECTORS, X, estimator=tuned)
    if not {"estimator", "cv"} & set(parameters):
        alone = FineTuneSearchCV(FineTuneClassifier(VECTORS), **parameters)
        with pytest.raises((ValueError, TypeError), match=message):
            alone.fit(X, Y)


def test_measures_of_values_are_the_default_for_values(monkeypatch):
    pytest.importorskip("optuna")
    with pytest.raises(
        ValueError, match="No trial of 1 by 'r2' was completed. All failed.*Trained"
    ):
        FineTuneSearchCV(FineTuneRegressor(VECTORS), n_trials=1).fit(X, VALUES)
    with pytest.raises(ValueError, match="No trial of 1 by 'accuracy' was .* All failed.*Trained"):
        FineTuneSearchCV(FineTuneClassifier(VECTORS), n_trials=1).fit(X, Y)
    tuned = FineTuneSearchCV(FineTuneRegressor(None), n_trials=1)
    with pytest.raises(ValueError, match="All candidates have failed.*by 'r2'.*neg_mean_squared"):
        rank(VECTORS, X, y=VALUES, estimator=tuned)


def test_a_candidate_with_wrong_parameters_is_told_by_its_own_name():
    wrong = TorchBackbone(nn.Linear(6, 3), batch_size=-1)
    with pytest.raises(ValueError, match="'batch_size' parameter of TorchBackbone"):
        rank(wrong, X, data=X)
    with pytest.raises(ValueError, match="'batch_size' parameter of TorchBackbone") as raised:
        rank(wrong, X, data=X, error_score="raise")
    assert raised.value.__notes__ == ["Raised by candidate 'a'."]
    with pytest.raises(ValueError, match="'batch_size' parameter of TorchBackbone"):
        FineTuneClassifier(wrong).fit(X, Y)


def test_names_in_messages():
    said = [
        ("X has 5 features", "X_test has 5 features"),
        ("Input X contains NaN.", "Input X_test contains NaN."),
        ("pass its data set, X.dataset", "pass its data set, X_test.dataset"),
        ("row 0: /data/X/y/X.png", "X_test: row 0: /data/X/y/X.png"),
        ("column 'X' of 'y'", "X_test: column 'X' of 'y'"),
        ("The target y for FineTune", "The target y_test for FineTune"),
        ("nothing is said", "X_test: nothing is said"),
        ("'X_test' it is", "'X_test' it is"),
    ]
    for before, after in said:
        for kind in (ValueError, TypeError):
            with pytest.raises(kind) as raised, named("X_test", "y_test"):
                raise kind(before)
            assert str(raised.value) == after
    with pytest.raises(ZeroDivisionError), named("X_test"):
        Fraction(1, 0)
