"""Robustness studies of torch networks: one pass, their weights, and metrics that look inside."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pandas")

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from sktransfer.backbones import TorchBackbone, layer_candidates
from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.finetune import FU, LPFU
from sktransfer.metrics import HScore
from sktransfer.model_selection import NestedStratifiedSubsets, RobustnessStudy
from sktransfer.model_selection._study_cells import derived_seed

pytestmark = pytest.mark.filterwarnings(
    "ignore::sktransfer.exceptions.UninformativeScoreWarning",
    "ignore::sktransfer.exceptions.SingletonClassWarning",
)

X, Y = load_digits(n_class=3, return_X_y=True)
IMAGES, Y = (X[:60].reshape(-1, 8, 8) / 16).astype(np.float32), Y[:60]
SUBSETS = NestedStratifiedSubsets(fractions=(0.5,), n_repeats=2)


class Network(nn.Module):
    def __init__(self, channels, seed=0):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3)
        self.conv2 = nn.Conv2d(channels, 5, 3)
        self.head = nn.Linear(80, 3)
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) / 3

    def forward(self, x):
        return self.head(torch.relu(self.conv2(torch.relu(self.conv1(x)))).flatten(1))


class Make(BaseEstimator):
    """A factory that can be pickled and told apart."""

    def __init__(self, channels, seed=0):
        self.channels = channels
        self.seed = seed

    def __call__(self):
        return Network(self.channels, self.seed)


def backbone(channels, seed=0, **options):
    return TorchBackbone(Make(channels, seed), mean=0.5, std=0.5, **options)


def candidates():
    return [(f"net{channels}", backbone(channels)) for channels in (2, 4, 6)]


def untimed(study):
    return study.to_frame().drop(columns="seconds").to_csv(index=False)


def rows_of(frame, metric, candidate):
    own = frame[(frame["metric"] == metric) & (frame["candidate"] == candidate)]
    return own.set_index(["fraction", "repeat"])["score"]


@pytest.fixture
def forward_passes():
    """Give a function that counts the rows which go through networks during some work."""
    seen = []

    def hook(module, inputs, output):
        if isinstance(module, Network):
            seen.append(len(inputs[0]))

    def count(work):
        seen.clear()
        work()
        return sum(seen)

    handle = register_module_forward_hook(hook)
    yield count
    handle.remove()


def subsets():
    rows = {(f, r): indices for indices, f, r in SUBSETS.split(IMAGES, Y)}
    return rows | {(1.0, 0): np.arange(len(Y))}


def test_a_network_is_run_once_however_many_subsets(forward_passes, tmp_path):
    few_rows = forward_passes(lambda: backbone(2).fit(IMAGES))
    options = {"store": tmp_path / "study.sqlite", "memory": tmp_path / "features"}

    def run(metrics, n_repeats, **options):
        splitter = NestedStratifiedSubsets((0.3, 0.6), n_repeats)
        study = RobustnessStudy([("net", backbone(2))], metrics, splitter, **options)
        return lambda: study.run(IMAGES, Y)

    assert forward_passes(run("hscore", 2)) == 60 + few_rows
    assert forward_passes(run("hscore", 2, **options)) == 60 + few_rows
    # From here on the network is fitted, to see whether it is the same, but not run.
    assert forward_passes(run("hscore", 2, **options)) <= 2 * few_rows
    assert forward_passes(run(["hscore", "ncti"], 4, **options)) <= 2 * few_rows


def test_other_weights_are_named(tmp_path):
    store = tmp_path / "study.sqlite"
    study = RobustnessStudy([("net", backbone(2))], "hscore", SUBSETS, store=store)
    expected = untimed(study.run(IMAGES, Y, target="one"))
    # How it is run is no part of what it is.
    other = RobustnessStudy(
        [("net", backbone(2, batch_size=7))], "hscore", SUBSETS, store=store
    ).run(IMAGES, Y, target="one")
    assert other.n_computed_ == 0
    study.set_params(candidates=[("net", backbone(2, seed=1))])
    with pytest.raises(ValueError, match="candidate 'net': repr was .*seed=1"):
        study.run(IMAGES, Y, target="one")
    frozen = [("net", FrozenEstimator(backbone(2).fit(IMAGES)))]
    study.set_params(candidates=frozen).run(IMAGES, Y, target="one")
    assert study.n_computed_ == 0
    module = frozen[0][1].estimator.module_
    with torch.no_grad():
        module.conv1.weight.mul_(1.5)
    frozen[0][1].estimator.weights_hash_ = "another one"
    with pytest.raises(ValueError, match="candidate 'net': weights_hash was .* and is another one"):
        study.run(IMAGES, Y, target="one")
    with pytest.raises(ValueError, match="its weights_hash is not that on target 'one'"):
        study.run(IMAGES[:, :7], Y, target="two")
    assert untimed(RobustnessStudy.open(store)) == expected


METRICS = {"fu": FU(batch_size=16), "lpfu": LPFU(n_components=2), "hscore": HScore("ledoit_wolf")}


def test_metrics_inside_a_network_are_given_rows_of_the_images(tmp_path):
    study = RobustnessStudy(candidates(), METRICS, SUBSETS, store=tmp_path / "study.sqlite")
    frame = study.run(IMAGES, Y, target="digits").to_frame()
    assert frame["status"].eq("done").all()
    for (fraction, repeat), rows in subsets().items():

        def fitted(name, candidate, fraction=fraction, repeat=repeat, rows=rows):
            # A metric without a seed gets one that is the same for all candidates.
            about = ("metric", 0, "digits", name, fraction, repeat, "random_state")
            metric = type(METRICS[name])(**METRICS[name].get_params())
            metric.set_params(backbone=candidate, random_state=derived_seed(*about))
            return metric.fit(IMAGES[rows], Y[rows])

        for name, candidate in candidates():
            expected = fitted("fu", candidate).score_
            assert rows_of(frame, "fu", name)[fraction, repeat] == pytest.approx(expected)
        pool = [fitted("lpfu", candidate) for _, candidate in candidates()]
        found = [rows_of(frame, "lpfu", name)[fraction, repeat] for name, _ in candidates()]
        assert found == pytest.approx(LPFU.pool_scores(pool).tolist())
    # The parts of the pool are in the store, and the networks are not needed for its scores.
    assert untimed(RobustnessStudy.open(tmp_path / "study.sqlite")) == untimed(study)
    backwards = RobustnessStudy(candidates()[::-1], METRICS, SUBSETS)
    assert untimed(backwards.run(IMAGES, Y, target="digits")) == untimed(study)


def test_features_are_not_extracted_for_metrics_inside_alone(forward_passes):
    study = RobustnessStudy([("net", backbone(2))], FU(batch_size=16), SUBSETS)
    many = forward_passes(lambda: study.run(IMAGES, Y))
    study = RobustnessStudy([("net", backbone(2))], [FU(batch_size=16), "hscore"], SUBSETS)
    assert forward_passes(lambda: study.run(IMAGES, Y)) == many + 60


class Learning(TransformerMixin, BaseEstimator):
    """Learns from the data, so that it is fitted on each subset."""

    def fit(self, X, y=None):
        self.mean_ = X.mean()
        return self

    def transform(self, X):
        return (X - self.mean_) / 2 + 0.5


def flatten(X):
    return X.reshape(len(X), -1)


def test_a_pipeline_that_learns_and_ends_in_a_network():
    piped = Pipeline([("scale", Learning()), ("net", backbone(4))])
    plain = make_pipeline(FunctionTransformer(flatten), PCA(3))
    given = [("piped", piped), ("plain", plain)]
    metrics = [FU(batch_size=16, random_state=0), HScore("ledoit_wolf")]
    study = RobustnessStudy(given, metrics, SUBSETS)
    with pytest.warns(CandidateFailedWarning, match="3 cells .* for 'plain': FU needs"):
        study.run(IMAGES, Y)
    frame = study.to_frame()
    for key, rows in subsets().items():
        scaled = Learning().fit(IMAGES[rows]).transform(IMAGES[rows])
        expected = metrics[0].set_params(backbone=backbone(4)).fit(scaled, Y[rows]).score_
        assert rows_of(frame, "fu", "piped")[key] == pytest.approx(expected, rel=1e-5)


def test_layers_of_a_network_share_a_pass(forward_passes):
    layers = layer_candidates(backbone(2), ["conv1", "conv2", "penultimate"], name="net")
    study = RobustnessStudy(layers, HScore("ledoit_wolf"), SUBSETS)
    n_rows = forward_passes(lambda: study.run(IMAGES, Y))
    assert n_rows < 2 * 60
    frame = study.to_frame()
    name, candidate = layers[1]
    expected = HScore("ledoit_wolf").fit(candidate.fit_transform(IMAGES), Y).score_
    assert rows_of(frame, "hscore", name)[1.0, 0] == pytest.approx(expected)
