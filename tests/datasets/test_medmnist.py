"""Files as MedMNIST has them: parts, sizes, kinds of labels, damage."""

import hashlib
import zipfile

import numpy as np
import pytest

from sktransfer.datasets import _npz, load_npz_target
from sktransfer.datasets._medmnist import MEDMNIST_MD5

rng = np.random.default_rng(0)


def arrays(size=28, channels=(), n_labels=1, n_classes=4, splits=(12, 5, 7)):
    """The six arrays of a file."""
    made = {}
    for split, n in zip(("train", "val", "test"), splits, strict=True):
        made[f"{split}_images"] = rng.integers(0, 256, (n, size, size, *channels), dtype=np.uint8)
        labels = rng.integers(0, n_classes, (n, n_labels))
        made[f"{split}_labels"] = labels.astype(np.uint8)
    return made


@pytest.mark.parametrize("size", [28, 64, 128, 224])
@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_every_part_of_every_size(tmp_path, size, channels, split):
    made = arrays(size, channels)
    path = tmp_path / ("some.npz" if size == 28 else f"some_{size}.npz")
    np.savez_compressed(path, **made)
    target = load_npz_target(path, split=split)
    np.testing.assert_array_equal(target.X, made[f"{split}_images"])
    np.testing.assert_array_equal(target.y, made[f"{split}_labels"].ravel())
    assert target.y.dtype == np.uint8
    assert target.array_names == (f"{split}_images", f"{split}_labels")
    assert target.task == "classification"


def test_kinds_of_labels(tmp_path):
    chest = arrays(n_labels=14, n_classes=2)
    np.savez_compressed(tmp_path / "chestmnist.npz", **chest)
    for split in ("train", "val", "test"):
        target = load_npz_target(tmp_path / "chestmnist.npz", split=split)
        assert target.task == "multilabel"
        np.testing.assert_array_equal(target.y, chest[f"{split}_labels"])
    healthy = {name: 0 * array if "labels" in name else array for name, array in chest.items()}
    np.savez_compressed(tmp_path / "healthy.npz", **healthy)
    assert load_npz_target(tmp_path / "healthy.npz").task == "multilabel"
    np.savez_compressed(tmp_path / "binary.npz", **arrays(n_classes=2))
    assert load_npz_target(tmp_path / "binary.npz").task == "classification"


def test_only_the_arrays_of_one_part_are_read(tmp_path, monkeypatch):
    made = arrays()
    np.savez_compressed(tmp_path / "t.npz", **made)
    content = bytearray((tmp_path / "t.npz").read_bytes())
    with zipfile.ZipFile(tmp_path / "t.npz") as archive:
        for name in ("test_images.npy", "val_images.npy", "val_labels.npy"):
            content[archive.getinfo(name).header_offset + 80] ^= 255
    (tmp_path / "t.npz").write_bytes(content)
    np.testing.assert_array_equal(load_npz_target(tmp_path / "t.npz").X, made["train_images"])
    for split in ("val", "test"):
        with pytest.raises(ValueError, match="is damaged or no .npz file"):
            load_npz_target(tmp_path / "t.npz", split=split)


def test_large_arrays_without_compression_are_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr(_npz, "_MAPPED_BYTES", 1000)
    made = arrays()
    made["val_images"] = np.asfortranarray(made["val_images"])
    np.savez(tmp_path / "stored.npz", **made)
    np.savez_compressed(tmp_path / "packed.npz", **made)
    for split in ("train", "val", "test"):
        target = load_npz_target(tmp_path / "stored.npz", split=split)
        assert isinstance(target.X, np.memmap)
        assert not target.X.flags.writeable
        np.testing.assert_array_equal(target.X, made[f"{split}_images"])
        target = load_npz_target(tmp_path / "packed.npz", split=split)
        assert not isinstance(target.X, np.memmap)
        np.testing.assert_array_equal(target.X, made[f"{split}_images"])
    content = bytearray((tmp_path / "stored.npz").read_bytes())
    content[5000] ^= 255  # mapped, but not before its check sum was compared
    (tmp_path / "changed.npz").write_bytes(content)
    with pytest.raises(ValueError, match="changed.npz' is damaged .*Bad CRC-32"):
        load_npz_target(tmp_path / "changed.npz")
    np.savez(tmp_path / "few.npz", X=np.zeros((3, 500)), y=[0, 1, 0])
    assert isinstance(load_npz_target(tmp_path / "few.npz").X, np.memmap)
    np.savez(tmp_path / "objects.npz", X=np.array([{}] * 300, dtype=object), y=[0] * 300)
    with pytest.raises(ValueError, match="cannot be read: Object arrays"):
        load_npz_target(tmp_path / "objects.npz")


def test_parts_that_are_not_there(tmp_path):
    np.savez(tmp_path / "own.npz", X=np.zeros((2, 3, 3)), y=[0, 1])
    with pytest.raises(ValueError, match=r"must hold 'val_images' and 'val_labels'; it holds"):
        load_npz_target(tmp_path / "own.npz", split="val")
    with pytest.raises(ValueError, match="'split' parameter must be one of .*got 'all'"):
        load_npz_target(tmp_path / "own.npz", split="all")


@pytest.mark.parametrize("shape", [(4, 28, 28, 28), (4, 28, 28, 28, 1), (4, 1, 28, 28, 28)])
def test_volumes_are_refused(tmp_path, shape):
    made = {"train_images": np.zeros(shape, np.uint8), "train_labels": np.arange(4)[:, None] % 2}
    np.savez_compressed(tmp_path / "organmnist3d.npz", **made)
    with pytest.raises(ValueError, match="organmnist3d.npz' holds volumes, not images, shape"):
        load_npz_target(tmp_path / "organmnist3d.npz")


def test_a_damaged_file_tells_the_digest_that_it_should_have(tmp_path):
    np.savez_compressed(tmp_path / "whole.npz", **arrays())
    content = (tmp_path / "whole.npz").read_bytes()[:-500]
    for name in ("pathmnist.npz", "chestmnist_224.npz", "own.npz"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}' is damaged or no .npz file") as caught:
            load_npz_target(tmp_path / name)
        message = str(caught.value)
        assert str(tmp_path / name) in message
        if name != "own.npz":
            assert f"has the MD5 digest {MEDMNIST_MD5[name]}" in message
            assert hashlib.md5(content).hexdigest() in message
            assert f"{len(content)} bytes" in message
        else:
            assert "MD5" not in message


def test_the_published_digests():
    assert len(MEDMNIST_MD5) == 12 * 4 + 6 * 2
    assert len(set(MEDMNIST_MD5.values())) == len(MEDMNIST_MD5)
    assert all(len(digest) == 32 and int(digest, 16) for digest in MEDMNIST_MD5.values())


def test_black_images_are_counted_in_the_part_that_is_read(tmp_path):
    made = arrays()
    made["train_images"][[2, 5, 7]] = 0
    made["test_images"][:] = 255
    np.savez_compressed(tmp_path / "t.npz", **made)
    found = [load_npz_target(tmp_path / "t.npz", split=s).n_constant for s in ("train", "val")]
    assert found == [3, 0]
    assert load_npz_target(tmp_path / "t.npz", split="test").n_constant == 7


def test_backbones_take_the_images_of_all_kinds(tmp_path):
    pytest.importorskip("torch", reason="the bundled networks need torch")
    from sktransfer.backbones import TinyZooBackbone

    for size, channels in ((28, ()), (28, (3,)), (64, (3,))):
        np.savez_compressed(tmp_path / "t.npz", **arrays(size, channels))
        target = load_npz_target(tmp_path / "t.npz", split="val")
        features = TinyZooBackbone("fashion").fit_transform(target.X)
        assert features.shape[0] == 5
        assert np.isfinite(features).all()
