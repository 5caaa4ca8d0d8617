"""FineTuneClassifier and FineTuneRegressor for a user: inputs, labels, weights, scikit-learn."""

import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from joblib import parallel_config
from PIL import Image
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn
from torch.utils.data import Dataset

from sktransfer.backbones import PrecomputedFeatures, TinyZooBackbone, TorchBackbone
from sktransfer.datasets import load_digits_target
from sktransfer.finetune import FineTuneClassifier, FineTuneRegressor

DIGITS = load_digits_target()
IMAGES, LABELS = DIGITS.images_train[:60], DIGITS.y_train[:60]
ZOO = TinyZooBackbone("letters_half")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)


def plain():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def short(backbone=None, **parameters):
    parameters = {"max_epochs": 3, "random_state": 0} | parameters
    return FineTuneClassifier(backbone or TorchBackbone(plain), **parameters)


# -- inputs --------------------------------------------------------------------------------------


class Items(Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i])[None], int(self.labels[i])


@pytest.fixture
def files(tmp_path):
    paths = [str(tmp_path / f"{i}.png") for i in range(len(IMAGES))]
    for path, image in zip(paths, IMAGES, strict=True):
        Image.fromarray(image).save(path)
    return np.array(paths)


def test_all_kinds_of_images_give_the_same(files):
    expected = short(ZOO).fit(IMAGES, LABELS).predict_proba(IMAGES)
    pictures = [Image.fromarray(image) for image in IMAGES]
    for kind in (
        files,
        pictures,
        IMAGES[:, None],
        IMAGES[..., None],
        torch.from_numpy(IMAGES),
        Items(IMAGES, LABELS),
    ):
        found = short(ZOO).fit(kind, LABELS)
        np.testing.assert_allclose(found.predict_proba(kind), expected, rtol=1e-4, atol=1e-7)
    assert not hasattr(short(ZOO).fit(files, LABELS), "n_features_in_")
    assert short(ZOO).fit(IMAGES, LABELS).n_features_in_ == 784


@pytest.mark.parametrize("train", ["full", "head", "staged"])
def test_neither_cache_nor_workers_matter(files, train):
    expected = short(ZOO, train=train, batch_size=16).fit(files, LABELS).predict_proba(files)
    for cache, n_workers in ((False, 0), (False, 2), (True, 2)):
        found = short(ZOO, train=train, batch_size=16, cache=cache, n_workers=n_workers)
        found.fit(files, LABELS)
        np.testing.assert_array_equal(found.predict_proba(files), expected)


def test_without_a_cache_memory_stays_small(monkeypatch, files):
    from sktransfer.backbones._images import FileImages

    read = []
    plain_read = FileImages.read
    monkeypatch.setattr(
        FileImages, "read", lambda self, rows: read.append(1) or plain_read(self, rows)
    )
    short(ZOO, cache=False, batch_size=30).fit(files, LABELS)
    n_without = len(read)
    read.clear()
    short(ZOO, batch_size=30).fit(files, LABELS)
    # Two of the reads are for the fit of the backbone and the size of an image.
    assert (n_without, len(read)) == (1 + 3 * 2, 2 + 2)


def test_a_data_set_brings_its_labels_also_in_cross_validation():
    items = Items(IMAGES, LABELS)
    inside = short(ZOO).fit(items)
    np.testing.assert_array_equal(
        inside.predict_proba(items), short(ZOO).fit(items, LABELS).predict_proba(items)
    )
    scores = cross_validate(short(ZOO), items, LABELS, cv=StratifiedKFold(2), scoring="accuracy")
    assert np.isfinite(scores["test_score"]).all()


def test_any_transformer_for_the_head():
    flat = IMAGES.reshape(60, -1) / 255.0
    for backbone, data in (
        (PCA(8, random_state=0), flat),
        (
            make_pipeline(FunctionTransformer(lambda x: x.reshape(len(x), -1) / 255.0), PCA(8)),
            IMAGES,
        ),
        (PrecomputedFeatures(), flat),
    ):
        tuned = short(backbone, train="head", max_epochs=60, head_lr=0.1).fit(data, LABELS)
        assert tuned.score(data, LABELS) > 0.8
        assert tuned.predict_proba(data).shape == (60, 10)
    with pytest.raises(ValueError, match="a PCA has none that can be trained"):
        short(PCA(8)).fit(flat, LABELS)
    with pytest.raises(ValueError, match="a PCA has none that can be trained"):
        short(PCA(8), train="head", from_scratch=True).fit(flat, LABELS)


def test_wrapped_and_fitted_backbones_are_taken_from_their_parameters():
    expected = short(ZOO).fit(IMAGES, LABELS).predict_proba(IMAGES)
    fitted = TinyZooBackbone("letters_half").fit(IMAGES)
    for backbone in (fitted, FrozenEstimator(fitted), make_pipeline(fitted)):
        found = short(backbone).fit(IMAGES, LABELS).predict_proba(IMAGES)
        np.testing.assert_array_equal(found, expected)


def test_a_head_on_another_layer():
    tuned = short(TinyZooBackbone("letters_half", layer="stages.0")).fit(IMAGES, LABELS)
    assert tuned.net_.module_.head.in_features == 8
    before = TinyZooBackbone("letters_half").fit(IMAGES).module_.state_dict()
    after = tuned.net_.module_.backbone.state_dict()
    assert torch.equal(before["stages.2.conv1.weight"], after["stages.2.conv1.weight"])
    assert not torch.equal(before["stem.0.weight"], after["stem.0.weight"])


def test_half_precision_becomes_single():
    tuned = short(TorchBackbone(lambda: plain().half())).fit(X, Y)
    assert {p.dtype for p in tuned.net_.module_.parameters()} == {torch.float32}
    assert np.isfinite(tuned.predict_proba(X)).all()


# -- labels, probabilities, weights --------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["x", "y", "z"]),
        np.array(["x", "y", "z"], dtype=object),
        np.array([3, 7, 11], dtype=np.uint8),
        np.array([-1, 5, 1000], dtype=np.int16),
        np.array([0.0, 1.0, 4.0]),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_keep_their_type_and_do_not_matter(labels):
    expected = short().fit(X, Y)
    found = short().fit(X, labels[Y])
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_array_equal(found.predict(X), labels[expected.predict(X)])
    assert found.classes_.tolist() == labels.tolist()
    if labels.dtype != object:
        assert found.predict(X).dtype == labels.dtype
    assert 0 <= found.score(X, labels[Y]) <= 1


def test_two_classes_of_booleans_and_a_column():
    y = Y == 1
    tuned = short().fit(X, y)
    assert tuned.predict(X).dtype == bool
    auc = roc_auc_score(y, tuned.predict_proba(X)[:, 1])
    assert 0 <= auc <= 1
    with pytest.warns(DataConversionWarning):
        column = short().fit(X, y[:, None].astype(np.uint8))
    np.testing.assert_array_equal(column.predict_proba(X), tuned.predict_proba(X))


def test_probabilities_are_the_softmax_of_the_head_once():
    tuned = short(ZOO, max_epochs=5).fit(IMAGES, LABELS)
    probabilities = tuned.predict_proba(IMAGES)
    assert probabilities.dtype == np.float64
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    from_net = torch.as_tensor(
        tuned.net_.module_(tuned.net_.module_.source.rows(IMAGES).batch(slice(None))).detach()
    )
    np.testing.assert_allclose(probabilities, from_net.softmax(1), rtol=1e-4)
    with torch.no_grad():
        tuned.net_.module_.head.weight.mul_(1e4)
    extreme = tuned.predict_proba(IMAGES)
    assert np.isfinite(extreme).all()
    np.testing.assert_allclose(extreme.sum(axis=1), 1, atol=1e-12)


def test_of_equal_classes_the_first_is_predicted():
    tuned = short().fit(X, np.array(["b", "c", "a"])[Y])
    with torch.no_grad():
        tuned.net_.module_.head.weight.zero_()
        tuned.net_.module_.head.bias.zero_()
    assert set(tuned.predict(X)) == {"a"}


def test_weights_of_one_are_no_weights():
    expected = short().fit(X, Y).predict_proba(X)
    for weights in (
        {"class_weight": {0: 1.0, 1: 1.0, 2: 1.0}},
        {"class_weight": {0: 3, 1: 3, 2: 3}},
        {"class_weight": {}},
    ):
        np.testing.assert_array_equal(short(**weights).fit(X, Y).predict_proba(X), expected)
    equal = short().fit(X, Y, sample_weight=np.full(90, 0.1))
    np.testing.assert_array_equal(equal.predict_proba(X), expected)


def test_class_weights_are_sample_weights_and_balanced_counts():
    names = np.array(["a", "b", "c"])
    by_name = {"a": 1.0, "b": 5.0, "c": 0.25}
    weighted = short(class_weight=by_name).fit(X, names[Y]).predict_proba(X)
    by_row = np.array([by_name[name] for name in names[Y]])
    np.testing.assert_array_equal(
        weighted, short().fit(X, names[Y], sample_weight=by_row).predict_proba(X)
    )
    counts = np.bincount(Y)
    balanced = short(class_weight="balanced").fit(X, Y).predict_proba(X)
    expected = short(class_weight={k: 90 / (3 * counts[k]) for k in range(3)}).fit(X, Y)
    np.testing.assert_allclose(balanced, expected.predict_proba(X), rtol=1e-5)
    assert not np.allclose(balanced, short().fit(X, Y).predict_proba(X), rtol=1e-3)
    with pytest.raises(ValueError, match="classes"):
        short(class_weight={"q": 1.0}).fit(X, Y)


def test_class_weights_of_absent_classes_and_of_parts():
    by_label = {0: 2.0, 2: 5.0}
    tuned = short(class_weight=by_label, early_stopping=True).fit(X, Y)
    assert tuned.class_weight_.tolist() == [2.0, 1.0, 5.0]
    rows = Y != 2
    tuned = short(class_weight=by_label).partial_fit(X[rows], Y[rows], classes=[0, 1, 2])
    assert tuned.class_weight_.tolist() == [2.0, 1.0, 5.0]
    tuned.partial_fit(X, Y)
    balanced = short(class_weight="balanced")
    balanced.partial_fit(X[rows], Y[rows], classes=[0, 1, 2])
    counts = np.bincount(Y[rows])
    np.testing.assert_allclose(balanced.class_weight_, [*(counts.sum() / (2 * counts)), 1.0])
    with pytest.raises(ValueError, match="'class_weight' must hold finite numbers"):
        short(class_weight={0: -1.0}).fit(X, Y)


def test_rows_of_weight_zero_do_not_renumber_classes():
    weights = (Y != 0).astype(float)
    tuned = short(head_lr=0.1).partial_fit(X, Y, classes=[0, 1, 2], n_epochs=20)
    for _ in range(20):
        tuned.partial_fit(X, Y, sample_weight=weights)
    found = tuned.predict(X)
    assert (found[Y != 0] == Y[Y != 0]).mean() > 0.8


def test_rows_of_weight_zero_are_left_out():
    weights = np.ones(90)
    weights[60:] = 0
    found = short().fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(
        found.predict_proba(X), short().fit(X[:60], Y[:60]).predict_proba(X)
    )
    with pytest.raises(ValueError, match="at least 2 classes in y; got 1 class"):
        short().fit(X, Y, sample_weight=(Y == 1).astype(float))


def test_a_target_with_one_class_or_the_wrong_kind():
    with pytest.raises(ValueError, match="at least 2 classes in y; got 1 class"):
        short().fit(X, np.zeros(90))
    with pytest.raises(ValueError, match="Unknown label type"):
        short().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        short(ZOO).fit(IMAGES, LABELS[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        short(ZOO).fit(IMAGES)


def test_arguments_that_make_no_sense():
    with pytest.raises(TypeError, match="got the class TinyZooBackbone"):
        short(TinyZooBackbone).fit(IMAGES, LABELS)
    with pytest.raises(ValueError, match="'X_val' is not"):
        short().fit(X, Y, y_val=Y)
    with pytest.raises(ValueError, match="TinyZooBackbone takes images"):
        short(ZOO).fit(X, Y)


def test_prediction_before_fit_and_of_other_shapes():
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(short(ZOO), method)(IMAGES)
    tuned = short(ZOO).fit(IMAGES, LABELS)
    with pytest.raises(ValueError, match=r"expecting images of shape \(1, 28, 28\)"):
        tuned.predict(IMAGES[:, :20])
    with pytest.raises(ValueError, match="X has 5 features, but FineTuneClassifier is expecting 6"):
        short().fit(X, Y).predict(X[:, :5])


def test_a_failed_fit_leaves_no_fitted_estimator():
    tuned = short().fit(X, Y)
    with pytest.raises(ValueError, match="1 class"):
        tuned.fit(X, np.zeros(90))
    with pytest.raises(NotFittedError):
        tuned.predict(X)


# -- regression ----------------------------------------------------------------------------------


def test_regression_in_the_units_of_the_target():
    y = 1000 + 50 * X[:, 0] - 20 * X[:, 1]
    tuned = FineTuneRegressor(
        TorchBackbone(plain), lr=1e-2, head_lr=1e-2, max_epochs=200, random_state=0
    )
    assert tuned.fit(X, y).score(X, y) > 0.95
    assert tuned.predict(X).shape == (90,)
    several = tuned.fit(X, np.column_stack([y, -y / 1e6]))
    assert several.predict(X).shape == (90, 2)
    assert several.score(X, np.column_stack([y, -y / 1e6])) > 0.9
    np.testing.assert_allclose(several.y_mean_, [y.mean(), -y.mean() / 1e6])
    constant = tuned.fit(X, np.full(90, 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0, atol=0.5)
    with pytest.raises(ValueError, match="values per sample"):
        constant.partial_fit(X, np.ones((90, 2)))


def test_regression_with_early_stopping_and_images():
    ink = IMAGES.mean(axis=(1, 2))
    tuned = FineTuneRegressor(ZOO, early_stopping=True, max_epochs=8, random_state=0)
    tuned.fit(IMAGES, ink)
    losses = tuned.history_[:, "valid_loss"]
    assert tuned.best_epoch_ == int(np.argmin(losses)) + 1
    assert "valid_acc" not in tuned.history_[0]


# -- from scratch --------------------------------------------------------------------------------


class Tokens(nn.Module):
    """Has parameters that belong to no layer, and attention."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(1, 8)
        self.token = nn.Parameter(torch.full((1, 1, 8), 5.0))
        self.gamma = nn.Parameter(torch.full((8,), 7.0))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.cat([self.token.expand(len(x), -1, -1), self.embed(x[:, :, None])], dim=1)
        x = x + self.gamma * self.attention(x, x, x, need_weights=False)[0]
        return self.head(self.norm(x)[:, 0])


def weights_of(tuned):
    return {n: p.detach() for n, p in tuned.net_.module_.backbone.named_parameters()}


@pytest.mark.parametrize("kind", ["zoo", "function", "module", "torchvision"])
def test_from_scratch_every_weight_is_another(kind):
    data, y = (IMAGES, LABELS) if kind in ("zoo", "torchvision") else (X, Y)
    if kind == "zoo":
        backbone, how = ZOO, "built anew"
    elif kind == "function":
        backbone, how = TorchBackbone(plain), "built anew"
    elif kind == "module":
        backbone, how = TorchBackbone(Tokens()), "layer by layer"
    else:
        from sktransfer.backbones import TorchvisionBackbone

        backbone, how = TorchvisionBackbone("squeezenet1_1", weights=None), "built anew"
        data, y = data[:2], [0, 1]

    def fitted(seed, from_scratch=True):
        return FineTuneClassifier(
            backbone, from_scratch=from_scratch, train="head", max_epochs=1, random_state=seed
        ).fit(data, y)

    one, again, other = fitted(0), fitted(0), fitted(1)
    assert one.scratch_report_.how == how
    pretrained = weights_of(fitted(0, from_scratch=False))
    assert not hasattr(fitted(0, from_scratch=False), "scratch_report_")
    for name, weight in weights_of(one).items():
        assert torch.equal(weight, weights_of(again)[name])
        if weight.ndim > 1:
            assert not torch.equal(weight, pretrained[name]), name
            assert not torch.equal(weight, weights_of(other)[name]), name
    if kind == "module":
        assert one.scratch_report_.bare == ["token", "gamma"]
        assert (weights_of(one)["gamma"] == 1).all()
        assert weights_of(one)["token"].std() < 0.1


def test_from_scratch_is_worse_than_pretrained():
    scores = [
        FineTuneClassifier(
            TinyZooBackbone("mnist"), from_scratch=from_scratch, max_epochs=10, random_state=0
        )
        .fit(IMAGES, LABELS)
        .score(DIGITS.images_test[:300], DIGITS.y_test[:300])
        for from_scratch in (False, True)
    ]
    assert scores[0] > scores[1] + 0.1


def test_weights_that_no_function_draws_are_reset_layer_by_layer():
    made = plain().eval()

    def loads():
        return made

    def once(calls=[]):  # noqa: B006
        calls.append(1)
        if len(calls) > 3:
            raise RuntimeError("the file is gone")
        return plain()

    for function in (loads, once):
        tuned = short(TorchBackbone(function), from_scratch=True, train="head").fit(X, Y)
        assert tuned.scratch_report_.how == "layer by layer"
        assert tuned.scratch_report_.bare == []
    assert torch.equal(made[0].weight, plain_state(made)["0.weight"])

    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)), nn.Linear(4, 3))
    tuned = short(TorchBackbone(normed), from_scratch=True, train="head").fit(X, Y)
    assert [name.rpartition(".")[2] for name in tuned.scratch_report_.bare] == [
        "original0",
        "original1",
    ]


def plain_state(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


class Bias(nn.Module):
    """Adds a vector that belongs to no layer, and normalises by statistics of its own."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.full((6,), 3.0))
        self.register_buffer("running_mean", torch.full((6,), 2.0))
        self.register_buffer("running_var", torch.full((6,), 2.0))
        self.layer = nn.Linear(6, 3)

    def forward(self, x):
        return self.layer((x - self.running_mean) / self.running_var + self.shift)


def test_vectors_of_no_layer_become_zero_and_statistics_begin_anew():
    tuned = short(TorchBackbone(Bias()), from_scratch=True, train="head").fit(X, Y)
    body = tuned.net_.module_.backbone
    assert tuned.scratch_report_.bare == ["shift"]
    assert (body.shift == 0).all()
    assert (body.running_mean == 0).all()
    assert (body.running_var == 1).all()


def test_timm_builds_anew():
    pytest.importorskip("timm")
    from sktransfer.backbones import TimmBackbone

    tuned = short(
        TimmBackbone("test_resnet", weights=None), from_scratch=True, train="head", max_epochs=1
    ).fit(IMAGES[:4], [0, 1, 0, 1])
    assert tuned.scratch_report_.how == "built anew"


def test_from_scratch_statistics_of_batch_normalisation_begin_anew():
    def made():
        module = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))
        module[1].running_mean.fill_(9.0)
        return module

    tuned = short(TorchBackbone(made()), from_scratch=True, train="head").fit(X, Y)
    assert (tuned.net_.module_.backbone[1].running_mean == 0).all()


# -- scikit-learn --------------------------------------------------------------------------------


def test_clone_is_unfitted_and_equal():
    tuned = short(ZOO, class_weight={0: 2.0}).fit(IMAGES, LABELS)
    fresh = clone(tuned)
    assert not hasattr(fresh, "net_")
    assert repr(fresh) == repr(tuned)
    again = fresh.fit(IMAGES, LABELS)
    np.testing.assert_array_equal(again.predict_proba(IMAGES), tuned.predict_proba(IMAGES))


def test_search_pipeline_and_processes():
    # A module by itself: the other processes need not import what is imported here.
    pipeline = make_pipeline(StandardScaler(), short(TorchBackbone(plain())))
    grid = {"finetuneclassifier__lr": [1e-4, 1e-1], "finetuneclassifier__backbone__batch_size": [9]}
    one, two = (
        GridSearchCV(pipeline, grid, cv=2, scoring="neg_log_loss", n_jobs=n_jobs).fit(X, Y)
        for n_jobs in (None, 2)
    )
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )
    assert one.best_params_["finetuneclassifier__lr"] == 1e-1


def test_threads_do_not_disturb_each_other():
    def noisy():
        return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    state = torch.get_rng_state()
    expected = cross_val_score(short(TorchBackbone(noisy), batch_size=8), X, Y, cv=4)
    with parallel_config("threading"):
        found = cross_val_score(short(TorchBackbone(noisy), batch_size=8), X, Y, cv=4, n_jobs=4)
    np.testing.assert_array_equal(found, expected)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.RandomFeaturesWarning")
def test_other_threads_that_build_and_run_networks_do_not_disturb_a_training():
    class Drawing(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 2)

        def forward(self, x):
            return self.head(nn.functional.dropout(x, 0.5))

    def noisy():
        return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    def train():
        return short(TorchBackbone(noisy), batch_size=4).fit(X, Y).predict_proba(X)

    def disturb(stop, module):
        n_rounds = 0
        while not stop.is_set() or n_rounds == 0:
            TorchBackbone(module).fit(X).transform(X)
            n_rounds += 1
        return n_rounds

    modules = noisy, Drawing, noisy()
    state, expected = torch.get_rng_state(), train()
    stop = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(disturb, stop, module) for module in modules]
        try:
            found = [train() for _ in range(4)]
        finally:
            stop.set()
        assert min(other.result() for other in others) >= 1
    for one in found:
        np.testing.assert_array_equal(one, expected)
    assert torch.equal(state, torch.get_rng_state())


def test_columns_follow_the_classes_that_a_fold_has():
    rows = Y != 2
    tuned = short().fit(X[rows], Y[rows])
    assert tuned.predict_proba(X).shape == (90, 2)
    all_known = short().partial_fit(X[rows], Y[rows], classes=[0, 1, 2])
    assert all_known.predict_proba(X).shape == (90, 3)
    assert np.isfinite(log_loss(Y, all_known.predict_proba(X), labels=[0, 1, 2]))


def test_a_frame_of_vectors_keeps_its_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    tuned = short().fit(frame, Y, X_val=frame[:20], y_val=Y[:20])
    assert tuned.feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_array_equal(tuned.partial_fit(frame, Y).predict(frame), tuned.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        tuned.predict(frame.rename(columns={"a": "z"}))
    names = make_pipeline(ColumnTransformer([("two", "passthrough", ["a", "c"])]))
    head = short(names, train="head").fit(frame, Y)
    assert head.net_.module_.head.in_features == 2
    assert not hasattr(tuned.fit(X, Y), "feature_names_in_")


def test_texts_as_features_of_any_transformer():
    texts = np.array(["good day", "bad night", "good night", "bad day"] * 5, dtype=object)
    y = ["good" in text for text in texts]
    tuned = short(TfidfVectorizer(), train="head", max_epochs=60, head_lr=0.1).fit(texts, y)
    assert tuned.score(texts, y) == 1
    with pytest.raises(ValueError, match="must give features of shape"):
        short(FunctionTransformer(lambda x: x), train="head").fit(IMAGES, LABELS)
    with pytest.raises(ValueError, match="contain NaN or infinite"):
        short(FunctionTransformer(lambda x: x * np.inf), train="head").fit(X, Y)


def test_routed_weights_and_callbacks_of_scikit_learn():
    import sklearn

    weights = RNG.uniform(0.5, 2, size=90)
    expected = short().fit(X, Y, sample_weight=weights).predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(
            FunctionTransformer(),
            short().set_fit_request(sample_weight=True),
        )
        routed.fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(routed.predict_proba(X), expected)

    seen = []

    class Count:
        def setup(self, estimator, context):
            seen.append("setup")

        def on_fit_task_begin(self, estimator, context, **kwargs):
            seen.append(context.task_name)

        def on_fit_task_end(self, estimator, context, **kwargs):
            seen.append(f"end of {context.task_name}")

        def teardown(self, estimator, context):
            seen.append("teardown")

    tuned = short().set_callbacks(Count()).fit(X, Y)
    epoch = ["epoch", "end of epoch"]
    assert seen == ["setup", "fit", *epoch * 3, "end of fit", "teardown"]
    tuned.set_callbacks()
    assert "report" not in dict(tuned.net_.callbacks_)
    pickle.dumps(tuned)


def test_verbose_prints_a_line_per_epoch(capsys):
    short().fit(X, Y)
    assert capsys.readouterr().out == ""
    short(verbose=1).fit(X, Y)
    assert len(capsys.readouterr().out.splitlines()) == 2 + 3


def test_a_device_that_is_not_there_and_one_that_is():
    assert short(device="cpu").fit(X, Y).device_ == torch.device("cpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="'device' parameter asks for 'cuda"):
            short(device="cuda").fit(X, Y)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_pickle_of_a_gpu_is_read_without_one(tmp_path):
    tuned = short(ZOO, device="cuda").partial_fit(IMAGES, LABELS)
    path = tmp_path / "tuned.pkl"
    path.write_bytes(pickle.dumps(tuned))
    code = (
        "import pickle, sys, numpy as np;"
        "tuned = pickle.load(open(sys.argv[1], 'rb'));"
        "assert tuned.device_.type == 'cpu';"
        "print(tuned.predict_proba(np.zeros((2, 28, 28), dtype=np.uint8)).shape)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={"CUDA_VISIBLE_DEVICES": "", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "(2, 10)"
    assert torch.cuda.is_available()
    assert pickle.loads(path.read_bytes()).device_.type == "cuda"


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("train", "tail"),
        ("lr", 0),
        ("head_lr", -1.0),
        ("batch_size", 1),
        ("validation_fraction", 1.0),
        ("early_stopping", "yes"),
        ("patience", 0),
        ("callbacks", "progress"),
        ("class_weight", "even"),
        ("lr_schedule", None),
    ],
)
def test_parameters_are_checked(parameter, value):
    with pytest.raises(ValueError, match=f"The '{parameter}' parameter of FineTuneClassifier"):
        short(**{parameter: value}).fit(X, Y)
