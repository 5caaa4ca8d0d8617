"""How FineTuneClassifier trains: against a loop by hand, stage by stage, epoch by epoch."""

import copy
import gc
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sklearn.exceptions import NotFittedError
from skorch.callbacks import Callback, EarlyStopping, EpochScoring
from torch import nn
from torch.nn import functional

from sktransfer.backbones import TinyZooBackbone, TorchBackbone
from sktransfer.datasets import load_digits_target
from sktransfer.exceptions import NotConvergedWarning, NoValidationPartWarning
from sktransfer.finetune import FineTuneClassifier, FineTuneRegressor
from sktransfer.finetune._net import derived_seed

DIGITS = load_digits_target()


def network():
    """Two layers with batch normalisation and dropout, in double precision."""
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)
    ).double()


def big():
    """A quarter of a million weights."""
    return nn.Sequential(nn.Linear(6, 500), nn.ReLU(), nn.Linear(500, 500), nn.Linear(500, 3))


def plain():
    """Two layers, in double precision."""
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()


RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6)).astype(np.float32)
Y = np.array(["b", "c", "a"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]


def state_of(estimator):
    return {n: t.clone() for n, t in estimator.net_.module_.state_dict().items()}


def assert_same_state(one, other):
    one, other = state_of(one), state_of(other)
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


# -- witnesses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [60, 16])
@pytest.mark.parametrize("weights", [None, "sample", "class"])
def test_a_loop_by_hand_gives_the_same_weights(batch_size, weights):
    lr, head_lr, decay, epochs, seed = 0.02, 0.05, 0.01, 7, 3
    class_weight = {"a": 3.0, "b": 0.5} if weights == "class" else None
    w = RNG.uniform(0.5, 2, size=60) if weights == "sample" else None
    backbone = TorchBackbone(plain)
    found = FineTuneClassifier(
        backbone,
        lr=lr,
        head_lr=head_lr,
        weight_decay=decay,
        max_epochs=epochs,
        batch_size=batch_size,
        class_weight=class_weight,
        random_state=seed,
    )
    start = copy.deepcopy(found).partial_fit(X, Y, n_epochs=1)  # for the weights of the new head
    found.fit(X, Y, sample_weight=w)

    body = TorchBackbone(plain).fit(X).module_[:2].requires_grad_(True)
    head = nn.Linear(8, 3).double()
    initial_head(head, start, seed)
    codes = torch.as_tensor(np.unique(Y, return_inverse=True)[1])
    row_weights = np.ones(60) if w is None else w
    if class_weight:
        row_weights = np.array([{"a": 3.0, "b": 0.5, "c": 1.0}[label] for label in Y])
    row_weights = torch.as_tensor(row_weights / row_weights.mean())
    optimizer = torch.optim.AdamW(
        [{"params": head.parameters(), "lr": head_lr}, {"params": body.parameters(), "lr": lr}],
        weight_decay=decay,
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    losses = []
    for epoch in range(1, epochs + 1):
        order = np.random.default_rng([seed, epoch]).permutation(60)
        parts = [order[i : i + batch_size] for i in range(0, 60, batch_size)]
        total = 0.0
        for rows in parts:
            out = head(body(torch.as_tensor(X[rows]).double()))
            loss = functional.cross_entropy(out, codes[rows], reduction="none")
            loss = (loss * row_weights[rows]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows) / 60
        losses.append(total)
        scheduler.step()
    trained = found.net_.module_
    np.testing.assert_allclose(found.history_[:, "train_loss"], losses, rtol=1e-9)
    for own, by_hand in zip(
        [*trained.backbone[:2].parameters(), *trained.head.parameters()],
        [*body.parameters(), *head.parameters()],
        strict=True,
    ):
        np.testing.assert_allclose(own.detach(), by_hand.detach(), rtol=1e-6, atol=1e-9)


def initial_head(head, estimator, seed):
    """Draw the weights of a new head as the estimator does."""
    from sktransfer.finetune._net import derived_seed

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, 0, 2))
        fresh = nn.Linear(head.in_features, head.out_features, dtype=torch.float64)
    head.load_state_dict(fresh.state_dict())
    assert estimator.seed_ == seed


def test_the_head_alone_becomes_a_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    backbone = TinyZooBackbone("mnist")
    images, y = DIGITS.images_train[:300], DIGITS.y_train[:300]
    tuned = FineTuneClassifier(
        backbone, train="head", head_lr=0.1, max_epochs=100, weight_decay=0.0, random_state=0
    ).fit(images, y)
    backbone.fit(images)
    linear = LogisticRegression(C=100, max_iter=1000).fit(backbone.transform(images), y)
    test = DIGITS.images_test[:300]
    score = linear.score(backbone.transform(test), DIGITS.y_test[:300])
    assert score > 0.9
    assert tuned.score(test, DIGITS.y_test[:300]) == pytest.approx(score, abs=0.03)
    agreement = tuned.predict(test) == linear.predict(backbone.transform(test))
    assert agreement.mean() > 0.95


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_learning_rates(schedule):
    tuned = FineTuneClassifier(
        TorchBackbone(plain), lr=1e-3, head_lr=1e-1, max_epochs=6, lr_schedule=schedule
    ).fit(X, Y)
    for name, rate in (("lr", 1e-3), ("head_lr", 1e-1)):
        expected = np.full(6, rate)
        if schedule == "cosine":
            optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate)
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
            for epoch in range(6):
                expected[epoch] = optimizer.param_groups[0]["lr"]
                optimizer.step()
                scheduler.step()
        np.testing.assert_allclose(tuned.history_[:, name], expected, rtol=1e-12)


def test_one_rate_for_all():
    tuned = FineTuneClassifier(TorchBackbone(plain), lr=2e-3, head_lr=None, max_epochs=1).fit(X, Y)
    assert tuned.history_[0]["lr"] == tuned.history_[0]["head_lr"] == 2e-3


# -- stages and freezing -------------------------------------------------------------------------


def test_a_frozen_backbone_stays_bit_equal():
    before = TorchBackbone(network).fit(X).module_.state_dict()
    tuned = FineTuneClassifier(TorchBackbone(network), train="head", max_epochs=20).fit(X, Y)
    after = tuned.net_.module_.backbone.state_dict()
    assert any("running_mean" in name for name in before)
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name
    held = [p for group in tuned.net_.optimizer_.param_groups for p in group["params"]]
    assert {id(p) for p in held} == {id(p) for p in tuned.net_.module_.head.parameters()}


def test_staged_training_frees_the_backbone_after_the_first_stage():
    before = TorchBackbone(network).fit(X).module_.state_dict()
    seen = []

    class Look(Callback):
        def on_epoch_end(self, net, **kwargs):
            now = net.module_.backbone.state_dict()
            # The old classifier is not in use.
            moved = [
                n for n in before if not n.startswith("4.") and not torch.equal(now[n], before[n])
            ]
            seen.append((len(moved), len(net.optimizer_.param_groups)))

    tuned = FineTuneClassifier(
        TorchBackbone(network),
        train="staged",
        head_epochs=3,
        max_epochs=7,
        callbacks=[Look()],
        lr=1e-2,
        random_state=0,
    ).fit(X, Y)
    assert seen[:3] == [(0, 1)] * 3
    assert seen[3:] == [(7, 2)] * 4
    rates = [entry.get("lr") for entry in tuned.history_]
    np.testing.assert_allclose(
        rates[3:], [1e-2 * (1 + np.cos(np.pi * k / 4)) / 2 for k in range(4)]
    )
    assert rates[:3] == [None] * 3
    heads = np.array(tuned.history_[:, "head_lr"]) / 1e-2
    expected = [(1 + np.cos(np.pi * k / n)) / 2 for n in (3, 4) for k in range(n)]
    np.testing.assert_allclose(heads, expected)


def test_full_training_moves_all_but_the_old_classifier():
    before = TorchBackbone(network).fit(X).module_.state_dict()
    tuned = FineTuneClassifier(TorchBackbone(network), max_epochs=2).fit(X, Y)
    after = tuned.net_.module_.backbone.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if not name.startswith("4.")}


def test_stages_need_epochs():
    with pytest.raises(ValueError, match="'head_epochs' must be smaller than 'max_epochs'"):
        FineTuneClassifier(TorchBackbone(plain), train="staged", max_epochs=4, head_epochs=4).fit(
            X, Y
        )


def test_the_network_of_the_user_is_never_changed():
    torch.manual_seed(0)
    mine = network()
    mine.train()
    mine[0].weight.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in mine.state_dict().items()}
    backbone = TorchBackbone(mine).fit(X)
    features = backbone.transform(X)
    FineTuneClassifier(backbone, lr=0.1, max_epochs=3).fit(X, Y)
    assert all(torch.equal(before[name], tensor) for name, tensor in mine.state_dict().items())
    assert mine.training
    assert not mine[0].weight.requires_grad
    assert mine[4].weight.grad is None
    np.testing.assert_array_equal(backbone.transform(X), features)


# -- early stopping ------------------------------------------------------------------------------


class Spoil(Callback):
    """Makes the network worse from an epoch on, by weights that are known."""

    def __init__(self, after=3):
        self.after = after

    def on_epoch_begin(self, net, **kwargs):
        if len(net.history) > self.after:
            with torch.no_grad():
                net.module_.head.weight.mul_(-3.0)

    def on_epoch_end(self, net, **kwargs):
        self.states_ = [*getattr(self, "states_", []), copy.deepcopy(net.module_.state_dict())]


def spoiled(**parameters):
    parameters = {"early_stopping": True, "max_epochs": 12, "callbacks": [("spoil", Spoil())]} | (
        parameters
    )
    return FineTuneClassifier(TorchBackbone(network), lr=1e-2, random_state=0, **parameters).fit(
        X, Y
    )


def test_the_weights_of_the_best_epoch_are_restored():
    tuned = spoiled()
    losses = tuned.history_[:, "valid_loss"]
    assert tuned.best_epoch_ == int(np.argmin(losses)) + 1 == 3
    assert tuned.n_epochs_ == 12
    states = dict(tuned.net_.callbacks_)["spoil"].states_
    for name, tensor in states[2].items():
        assert torch.equal(tensor, state_of(tuned)[name]), name
    assert not torch.equal(states[2]["head.weight"], states[-1]["head.weight"])


def test_patience_ends_training_and_without_early_stopping_the_last_epoch_counts():
    tuned = spoiled(patience=4)
    assert (tuned.best_epoch_, tuned.n_epochs_) == (3, 7)
    last = spoiled(early_stopping=False)
    assert last.best_epoch_ is None
    assert last.n_epochs_ == 12
    assert "valid_loss" not in last.history_[-1]


def test_head_only_training_restores_the_best_epoch_too():
    tuned = spoiled(train="head")
    assert tuned.best_epoch_ == 3
    expected = dict(tuned.net_.callbacks_)["spoil"].states_[2]
    assert torch.equal(tuned.net_.module_.head.weight, expected["head.weight"])


def test_validation_data_can_be_given():
    tuned = FineTuneClassifier(
        TorchBackbone(plain), max_epochs=15, lr=0.1, head_lr=0.3, random_state=0
    ).fit(X[:40], Y[:40], X_val=X[40:], y_val=Y[40:])
    losses = tuned.history_[:, "valid_loss"]
    assert tuned.best_epoch_ == int(np.argmin(losses)) + 1
    from sklearn.metrics import log_loss

    assert log_loss(Y[40:], tuned.predict_proba(X[40:])) == pytest.approx(min(losses), rel=1e-6)
    with pytest.raises(ValueError, match="none of the classes"):
        tuned.fit(X[:40], Y[:40], X_val=X[40:], y_val=["d"] * 20)


def test_no_row_to_spare_is_said_and_training_goes_on():
    with pytest.warns(NoValidationPartWarning, match="no class has more than one"):
        tuned = FineTuneClassifier(TorchBackbone(plain), early_stopping=True, max_epochs=3).fit(
            X[:3], ["a", "b", "c"]
        )
    assert tuned.n_epochs_ == 3
    assert tuned.best_epoch_ is None


def test_callbacks_of_skorch_score_and_stop():
    stop = EarlyStopping(monitor="balanced", lower_is_better=False, patience=2, sink=lambda _: None)
    score = EpochScoring("balanced_accuracy", lower_is_better=False, name="balanced")
    callbacks = [score, ("stop", stop)]
    tuned = FineTuneClassifier(
        TorchBackbone(plain),
        callbacks=callbacks,
        early_stopping=True,
        max_epochs=60,
        random_state=0,
    ).fit(X, Y)
    assert len(tuned.history_[:, "balanced"]) == tuned.n_epochs_ < 60
    assert all(0 <= value <= 1 for value in tuned.history_[:, "balanced"])
    assert not hasattr(score, "best_score_")  # a copy was used
    assert len(tuned.history_[:, "valid_acc"]) == tuned.n_epochs_


def test_a_user_who_interrupts_is_not_taken_for_a_callback():
    class Impatient(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x):
            if self.training:
                raise KeyboardInterrupt
            return self.layer(x)

    tuned = FineTuneClassifier(TorchBackbone(Impatient))
    with pytest.raises(KeyboardInterrupt):
        tuned.fit(X, Y)
    with pytest.raises(NotFittedError):
        tuned.predict(X)


# -- trouble -------------------------------------------------------------------------------------


@pytest.mark.parametrize("train", ["full", "head", "staged"])
@pytest.mark.parametrize("early_stopping", [True, False])
def test_divergence_is_said_and_weights_stay_finite(train, early_stopping):
    class Explode(Callback):
        def on_epoch_begin(self, net, **kwargs):
            if len(net.history) == 5:
                for group in net.optimizer_.param_groups:
                    group["lr"] = 1e300

    tuned = FineTuneClassifier(
        TorchBackbone(network),
        train=train,
        early_stopping=early_stopping,
        max_epochs=12,
        batch_size=20,
        callbacks=[Explode()],
    )
    with pytest.warns(NotConvergedWarning, match=r"diverged in epoch [56] of 12.*smaller learning"):
        tuned.fit(X, Y)
    assert not tuned.converged_
    assert tuned.n_epochs_ < 12
    assert np.isfinite(tuned.predict_proba(X)).all()


def test_a_network_that_gives_nan_is_an_error():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x):
            return self.layer(x) / (1.0 if len(x) < 3 else 0.0) * 0.0

    with pytest.raises(ValueError, match="not finite, before any step"):
        FineTuneClassifier(TorchBackbone(Broken, classifier=None)).fit(X, Y)
    with pytest.raises(ValueError, match="NaN or infinite"):
        FineTuneClassifier(TorchBackbone(Broken, classifier=None), train="head").fit(X, Y)


@pytest.mark.parametrize("n", [3, 5, 17, 33])
def test_no_batch_of_one_row_reaches_batch_normalisation(n):
    tuned = FineTuneClassifier(TorchBackbone(network), batch_size=16, max_epochs=2).fit(
        X[:n], np.arange(n) % 3
    )
    assert np.isfinite(tuned.predict_proba(X[:1])).all()
    sizes = [batch["train_batch_size"] for batch in tuned.history_[0]["batches"]]
    assert sum(sizes) == n
    assert min(sizes) > 1


# -- continued training --------------------------------------------------------------------------


@pytest.mark.parametrize("train", ["full", "head", "staged"])
def test_training_in_parts_is_training_in_one_go(train):
    def new():
        return FineTuneClassifier(
            TorchBackbone(network), train=train, max_epochs=6, batch_size=16, random_state=5
        )

    whole = new().fit(X, Y)
    parts = new()
    for n_epochs in (1, 2, 1, 2):
        parts.partial_fit(X, Y, n_epochs=n_epochs)
    assert_same_state(whole, parts)
    resumed = new().partial_fit(X, Y, n_epochs=2)
    resumed = pickle.loads(pickle.dumps(resumed)).partial_fit(X, Y, n_epochs=4)
    assert_same_state(whole, resumed)
    assert resumed.n_epochs_ == 6


def test_after_fit_the_rates_start_anew():
    tuned = FineTuneClassifier(TorchBackbone(plain), max_epochs=4, early_stopping=True, patience=1)
    tuned.fit(X, Y)
    n_before = tuned.n_epochs_
    tuned.partial_fit(X, Y, n_epochs=2)
    assert tuned.n_epochs_ == n_before + 2
    assert tuned.history_[n_before]["lr"] == 1e-3


def test_partial_fit_knows_its_classes():
    tuned = FineTuneClassifier(TorchBackbone(plain))
    tuned.partial_fit(X[:9], Y[:9], classes=["a", "b", "c", "z"])
    assert tuned.classes_.tolist() == ["a", "b", "c", "z"]
    assert tuned.predict_proba(X).shape == (60, 4)
    only = Y == "a"
    tuned.partial_fit(X[only], Y[only])
    with pytest.raises(ValueError, match=r"none of the classes .*\['q'\]"):
        tuned.partial_fit(X, ["q"] * 60)
    with pytest.raises(ValueError, match="'classes' is"):
        tuned.partial_fit(X, Y, classes=["a", "b"])
    with pytest.raises(ValueError, match="at least 2 classes"):
        FineTuneClassifier(TorchBackbone(plain)).partial_fit(X[only], Y[only])


def test_a_regressor_in_parts():
    def new():
        return FineTuneRegressor(TorchBackbone(plain), max_epochs=5, random_state=0)

    y = X[:, 0] * 100 + 7
    whole, parts = new().fit(X, y), new()
    for _ in range(5):
        parts.partial_fit(X, y)
    np.testing.assert_array_equal(whole.predict(X), parts.predict(X))


# -- seeds and memory ----------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_and_global_generators_do_not_move():
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002

    def fitted(seed):
        return FineTuneClassifier(
            TorchBackbone(network),
            max_epochs=3,
            batch_size=16,
            early_stopping=True,
            random_state=seed,
        ).fit(X, Y)

    one, other = fitted(0), fitted(0)
    assert_same_state(one, other)
    assert not torch.equal(one.net_.module_.head.weight, fitted(1).net_.module_.head.weight)
    assert torch.equal(states[0], torch.get_rng_state())
    assert (states[1] == np.random.get_state()[1]).all()  # noqa: NPY002
    torch.manual_seed(99)  # another global state is no matter
    assert_same_state(one, fitted(0))


def test_an_unseeded_fit_can_be_repeated_by_its_seed():
    one = FineTuneClassifier(TorchBackbone(network), max_epochs=2).fit(X, Y)
    assert_same_state(
        one, one.__class__(TorchBackbone(network), max_epochs=2, random_state=one.seed_).fit(X, Y)
    )


def test_modes_around_the_fit_do_not_matter():
    tuned = FineTuneClassifier(TorchBackbone(network), max_epochs=2, random_state=0)
    expected = copy.deepcopy(tuned).fit(X, Y)
    with torch.inference_mode():
        assert_same_state(expected, copy.deepcopy(tuned).fit(X, Y))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = copy.deepcopy(tuned).fit(X, Y)
        assert_same_state(expected, found)
        np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


STATM = Path("/proc/self/statm")


def memory_in_use():
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not STATM.exists(), reason="memory in use is read from /proc")
def test_many_fits_do_not_grow_memory():
    def fit():
        FineTuneClassifier(
            TorchBackbone(big), max_epochs=2, early_stopping=True, random_state=0
        ).fit(X, Y).predict_proba(X)

    for _ in range(3):
        fit()
    gc.collect()
    before = memory_in_use()
    for _ in range(12):
        fit()
    gc.collect()
    assert memory_in_use() - before < 30e6  # 12 x 4 MB of weights, and more


def test_pickles_are_small_and_unpickled_ones_give_the_same():
    tuned = FineTuneClassifier(TorchBackbone(big), max_epochs=2, early_stopping=True)
    weights = sum(p.numel() for p in big().parameters()) * 4
    content = pickle.dumps(tuned.fit(X, Y))
    assert weights < len(content) < weights + 100_000
    again = pickle.loads(content)
    np.testing.assert_array_equal(again.predict_proba(X), tuned.predict_proba(X))
    module = again.net_.module_
    assert module.source.module is module.source.backbone.module_ is module.backbone
    again.partial_fit(X, Y)
    assert not np.array_equal(again.predict_proba(X), tuned.predict_proba(X))
    copied = copy.deepcopy(tuned)
    assert copied.net_.module_.source.module is copied.net_.module_.backbone
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copied.partial_fit(X, Y)


@pytest.mark.parametrize("how", ["built anew", "layer by layer"])
def test_random_weights_and_the_new_head_come_from_different_numbers(how):
    # All three layers have six inputs, so equal numbers drawn would give equal weights.
    def build():
        return nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))

    still = {"max_epochs": 1, "lr": 1e-30, "head_lr": 1e-30, "weight_decay": 0, "random_state": 4}
    backbone = TorchBackbone(build if how == "built anew" else build())
    scratch = FineTuneClassifier(backbone, from_scratch=True, **still).fit(X, Y)
    assert scratch.scratch_report_.how == how
    tuned = FineTuneClassifier(backbone, **still).fit(X, Y)
    module = scratch.net_.module_
    torch.testing.assert_close(module.head.weight, tuned.net_.module_.head.weight, rtol=0, atol=0)
    drawn = [module.head.weight, module.backbone[0].weight, module.backbone[2].weight]
    drawn = [set(weight.detach().numpy().ravel().tolist()) for weight in drawn]
    assert len(set.union(*drawn)) == sum(map(len, drawn)) == 18 + 36 + 18
    # Nor does the order of batches or dropout of any epoch begin with their seeds.
    seeds = [derived_seed(4, 0, 1), derived_seed(4, 0, 2), *(derived_seed(4, e) for e in range(99))]
    assert len(set(seeds)) == len(seeds)
