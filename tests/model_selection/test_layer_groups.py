"""Candidates that are layers of one network share one forward pass."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="backbones need torch")

from sklearn.base import clone
from torch import nn

from sktransfer.backbones import FeatureStore, TorchBackbone
from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.model_selection import TransferabilitySelector

LAYERS = ["stem", "body", "penultimate"]


class Counting(nn.Module):
    """A network that counts the rows it was given; copies count together."""

    rows = 0

    def __init__(self, width=6):
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 3)
        self.body = nn.Conv2d(3, width, 3)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        Counting.rows += len(x)
        x = self.body(torch.relu(self.stem(x)))
        return self.head(x.mean(dim=(2, 3)))


@pytest.fixture
def data():
    Counting.rows = 0
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    images = rng.integers(0, 90, (60, 12, 12))
    images[:, :4] += 40 * y[:, None, None]
    return images.astype(np.uint8), y


def backbone(layer="penultimate", **parameters):
    return TorchBackbone(Counting, mean=0.5, std=0.5, layer=layer, **parameters)


def rows_of(candidates, data, **parameters):
    Counting.rows = 0
    selector = TransferabilitySelector(candidates, **parameters).fit(*data)
    return selector, Counting.rows


def test_layers_of_one_network_cost_one_pass_and_score_as_alone(data):
    each = {layer: rows_of([(layer, backbone(layer))], data) for layer in LAYERS}
    fewest = min(rows for _, rows in each.values())
    for order in (LAYERS, LAYERS[::-1]):
        together, rows = rows_of([(layer, backbone(layer)) for layer in order], data)
        assert rows <= fewest + 10  # a few rows to look at more layers, and no second pass
        for layer in LAYERS:
            alone = each[layer][0]
            assert together.scores_[layer] == pytest.approx(alone.scores_[layer], rel=1e-9)
            fitted = together.candidates_[layer]
            assert fitted.layer == layer
            np.testing.assert_allclose(
                fitted.transform(data[0]), alone.best_estimator_.transform(data[0]), rtol=1e-6
            )
    assert together.best_estimator_.n_features_out_ == together.transform(data[0]).shape[1]


def test_other_candidates_may_stand_between(data):
    candidates = [
        ("a1", backbone("stem")),
        ("b1", backbone("stem", batch_size=7)),
        ("a2", backbone(["body", "stem"])),
        ("b2", backbone("penultimate", batch_size=7)),
    ]
    selector, rows = rows_of(candidates, data)
    assert rows < 2 * len(data[0]) + 30
    assert selector.cv_results_["n_features"].tolist() == [3, 3, 9, 6]
    body_first = selector.candidates_["a2"].transform(data[0])
    np.testing.assert_allclose(
        body_first[:, 6:], selector.candidates_["a1"].transform(data[0]), rtol=1e-6
    )


def test_a_layer_that_does_not_exist_costs_the_others_nothing(data):
    candidates = [("good", backbone("stem")), ("bad", backbone("trunk")), ("too", backbone("body"))]
    with pytest.warns(CandidateFailedWarning, match="'bad' has no score.*'trunk'"):
        selector = TransferabilitySelector(candidates).fit(*data)
    assert np.isfinite([selector.scores_["good"], selector.scores_["too"]]).all()
    alone, _ = rows_of([("good", backbone("stem"))], data)
    assert selector.scores_["good"] == pytest.approx(alone.scores_["good"], rel=1e-9)


def test_with_folds_and_processes_the_result_is_the_same(data):
    candidates = [(layer, backbone(layer)) for layer in LAYERS]
    one, rows = rows_of(candidates, data, cv=3)
    assert rows <= len(data[0]) + 20
    two, _ = rows_of(
        [(name, clone(candidate)) for name, candidate in candidates], data, cv=3, n_jobs=2
    )
    assert one.scores_ == two.scores_


def test_frames_are_made_by_each_candidate_itself(data):
    pytest.importorskip("pandas", reason="frames need pandas")
    candidates = [(layer, backbone(layer).set_output(transform="pandas")) for layer in LAYERS]
    selector, _ = rows_of(candidates, data)
    frame = selector.transform(data[0])
    assert list(frame.columns) == list(selector.get_feature_names_out())


def test_networks_of_other_weights_are_not_mixed_up(data):
    torch.manual_seed(3)
    one, other = Counting(), Counting()
    candidates = [
        (f"{name}-{layer}", TorchBackbone(network, mean=0.5, std=0.5, layer=layer))
        for name, network in (("one", one), ("other", other))
        for layer in ("stem", "body")
    ]
    selector, rows = rows_of(candidates, data)
    assert rows < 2 * len(data[0]) + 30
    for name, candidate in candidates:
        alone, _ = rows_of([(name, candidate)], data)
        assert selector.scores_[name] == pytest.approx(alone.scores_[name], rel=1e-9)


def test_a_store_keeps_every_layer_by_itself(data, tmp_path):
    def ranked(layers):
        candidates = [(str(layer), backbone(layer)) for layer in layers]
        selector, rows = rows_of(candidates, data, memory=tmp_path, metric=["logme", "leep"])
        table = selector.cv_results_
        return selector, rows, table["from_store"].tolist(), table["rows_extracted"].tolist()

    n = len(data[0])
    _, alone, from_store, _ = ranked(["stem"])
    assert from_store == [False] and alone > n
    # one of three is there: the other two share one pass
    selector, rows, from_store, extracted = ranked(LAYERS)
    assert from_store == [True, False, False] and extracted == [0, n, 0]
    assert rows < 2 * n
    kept = FeatureStore(tmp_path).entries()
    assert sorted(entry.candidate for entry in kept) == sorted(LAYERS)
    plain, _ = rows_of([(layer, backbone(layer)) for layer in LAYERS], data)
    assert selector.scores_ == pytest.approx(plain.scores_, rel=1e-9)
    # in any company, nothing is run; what is missing alone, alone
    for layers in (LAYERS, LAYERS[:2], LAYERS[2:]):
        _, rows, from_store, _ = ranked(layers)
        assert all(from_store) and rows < n
    selector, rows, from_store, extracted = ranked([["stem", "body"], *LAYERS])
    assert from_store == [False, True, True, True] and extracted == [n, 0, 0, 0]
    features = selector.candidates_["['stem', 'body']"].transform(data[0])
    assert features.shape == (n, 9)
