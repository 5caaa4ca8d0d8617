"""Labels of torch data sets, in the order of the rows."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="data sets of torch")

from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data import TensorDataset as Tensors

from sktransfer.datasets import load_torch_dataset

IMAGES = torch.arange(12, dtype=torch.uint8)[:, None, None].expand(12, 4, 4).contiguous()
LABELS = [row % 3 for row in range(12)]


class Named(Dataset):
    """As torchvision's: labels in an attribute, and a change of them on the way out."""

    def __init__(self, labels=LABELS, name="targets", target_transform=None, given=None):
        setattr(self, name, labels)
        self._labels = labels if given is None else given
        self.target_transform = target_transform
        self.classes = ["cat", "dog", "owl"]
        self.n_read = 0

    def __len__(self):
        return len(IMAGES)

    def __getitem__(self, row):
        self.n_read += 1
        label = self._labels[row]
        return IMAGES[row], label if self.target_transform is None else self.target_transform(label)


@pytest.mark.parametrize("labels", [LABELS, tuple(LABELS), np.array(LABELS), torch.tensor(LABELS)])
@pytest.mark.parametrize("name", ["targets", "labels"])
def test_labels_that_a_data_set_keeps(labels, name):
    dataset = Named(labels, name)
    target = load_torch_dataset(dataset)
    assert target.X is dataset
    assert target.y.tolist() == LABELS
    assert target.task == "classification"
    assert target.target_names.tolist() == ["cat", "dog", "owl"]
    assert dataset.n_read < 12  # a few are compared


def test_labels_changed_on_the_way_out():
    dataset = Named(target_transform=lambda label: 10 * label)
    assert load_torch_dataset(dataset).y.tolist() == [10 * label for label in LABELS]


def test_labels_that_belong_to_other_rows_are_not_believed():
    dataset = Named(LABELS, given=LABELS[::-1])
    assert load_torch_dataset(dataset).y.tolist() == LABELS[::-1]
    assert load_torch_dataset(Named(LABELS[:5], given=LABELS)).y.tolist() == LABELS


def test_parts_and_unions():
    for dataset, expected in (
        (Subset(Named(), [11, 0, 5]), [2, 0, 2]),
        (Subset(Subset(Named(), [11, 0, 5]), [2, 1]), [2, 0]),
        (ConcatDataset([Subset(Named(), [1, 2]), Named()]), [1, 2, *LABELS]),
        (Tensors(IMAGES, torch.tensor(LABELS)), LABELS),
        (ConcatDataset([Tensors(IMAGES, torch.tensor(LABELS)), Named()]), LABELS * 2),
    ):
        assert load_torch_dataset(dataset).y.tolist() == expected


class Read(Dataset):
    def __init__(self, item, n=12):
        self.item = item
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, row):
        return self.item(row)


@pytest.mark.parametrize(
    ("label", "expected", "task"),
    [
        (lambda row: LABELS[row], LABELS, "classification"),
        (lambda row: np.array([LABELS[row]]), LABELS, "classification"),
        (lambda row: torch.tensor(LABELS[row]), LABELS, "classification"),
        (lambda row: "abc"[LABELS[row]], ["abc"[label] for label in LABELS], "classification"),
        (lambda row: [row % 2, 1], [[row % 2, 1] for row in range(12)], "multilabel"),
        (lambda row: row + 0.5, [row + 0.5 for row in range(12)], "regression"),
        (
            lambda row: torch.tensor(row + 0.5, dtype=torch.bfloat16),
            [row + 0.5 for row in range(12)],
            "regression",
        ),
    ],
)
def test_labels_that_are_read_item_by_item(label, expected, task):
    target = load_torch_dataset(Read(lambda row: (IMAGES[row], label(row))))
    assert target.y.tolist() == expected
    assert target.task == task
    assert target.target_names is None


def test_rows_of_features_belong_to_their_labels():
    from sktransfer.backbones import TorchBackbone

    dataset = Subset(Read(lambda row: (IMAGES[row], row)), [7, 2, 11, 0, 5])
    target = load_torch_dataset(dataset)
    backbone = TorchBackbone(nn.Flatten(), mean=0.0, std=1.0, batch_size=2, n_workers=2)
    features = backbone.fit_transform(target.X)
    np.testing.assert_allclose(features[:, 0] * 255, target.y, atol=1e-4)


def test_a_data_set_is_ranked():
    from sktransfer.backbones import TinyZooBackbone
    from sktransfer.datasets import load_digits_target
    from sktransfer.model_selection import TransferabilitySelector

    digits = load_digits_target()
    images, labels = digits.images_train[:100], digits.y_train[:100]
    dataset = Tensors(torch.from_numpy(images[:, None] / 255).float(), torch.from_numpy(labels))
    target = load_torch_dataset(dataset)
    candidates = [(name, TinyZooBackbone(name)) for name in ("fashion", "mnist")]
    for cv in (None, 2):
        found = TransferabilitySelector(candidates, cv=cv).fit(target.X, target.y)
        expected = TransferabilitySelector(candidates, cv=cv).fit(images, labels)
        assert found.scores_ == pytest.approx(expected.scores_, rel=1e-4)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(IMAGES)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (DataLoader(Named()), "pass its data set"),
        (Stream(), "iterable data set"),
        (Read(lambda row: row, n=0), r"0 sample\(s\)"),
        (Read(lambda row: IMAGES[row]), "Row 0 of the data set Read is a Tensor without a label"),
        (Read(lambda row: (IMAGES[row],)), "is a tuple without a label"),
        (Read(lambda row: (IMAGES[row], [0] * row)), "can't be made one array"),
        (Read(lambda row: (IMAGES[row], [[[row]]])), "one or two axes"),
        (Read(lambda row: (IMAGES[row], {"box": row})), "numbers or strings .* got dtype object"),
        (Read(lambda row: (IMAGES[row], np.nan)), "finite labels"),
        (Read(lambda row: (IMAGES[row], [0][row])), r"failed at row 1 \(IndexError"),
        (5, "map-style data set of torch, got a int"),
    ],
)
def test_data_sets_without_usable_labels(dataset, message):
    with pytest.raises(ValueError, match=message):
        load_torch_dataset(dataset)


def test_a_data_set_of_medmnist(tmp_path):
    medmnist = pytest.importorskip("medmnist", reason="medmnist is not installed")
    rng = np.random.default_rng(0)
    made = {
        f"{split}_{what}": rng.integers(0, 2, (n, *shape), dtype=np.uint8)
        for split, n in (("train", 546), ("val", 78), ("test", 156))
        for what, shape in (("images", (28, 28)), ("labels", (1,)))
    }
    np.savez_compressed(tmp_path / "breastmnist.npz", **made)
    target = load_torch_dataset(medmnist.BreastMNIST("val", root=str(tmp_path)))
    assert target.y.tolist() == made["val_labels"].ravel().tolist()
