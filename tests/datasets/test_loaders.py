"""Data of one's own: image folders and .npz files."""

import zipfile

import numpy as np
import pytest
from PIL import Image

from sktransfer.datasets import load_image_folder, load_npz_target

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, size=(12, 28, 28), dtype=np.uint8)
LABELS = np.arange(12) % 3


# -- image folders ---------------------------------------------------------------------------------


def make_folder(root, **classes):
    for label, names in classes.items():
        (root / label).mkdir(exist_ok=True)
        for name in names:
            path = root / label / name
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(IMAGES[0]).save(path)
    return root


def test_labels_are_the_names_of_the_sub_folders(tmp_path):
    folder = make_folder(tmp_path, dog=["b.png", "a.JPG"], cat=["deep/1.png", "2.tiff"])
    (folder / "cat" / "notes.txt").write_text("no image")
    (folder / "cat" / ".hidden.png").write_text("no image")
    (folder / "cat" / "._2.tiff").write_text("no image")
    (folder / ".cache").mkdir()
    (folder / "__MACOSX").mkdir()
    (folder / "readme.md").write_text("no class")
    for path in (folder, str(folder)):
        target = load_image_folder(path)
        assert target.y.tolist() == ["cat", "cat", "dog", "dog"]
        names = [name.rsplit("/", 1)[-1] for name in target.X]
        assert names == ["2.tiff", "1.png", "a.JPG", "b.png"]
        assert target.target_names.tolist() == ["cat", "dog"]
        assert target.n_ignored == 1
        assert target.ignored_suffixes == (".txt",)
        assert target.n_outside == 0
        assert target.X.ndim == 1
    Image.fromarray(IMAGES[0]).save(folder / "stray.png")
    target = load_image_folder(folder)
    assert (target.n_outside, target.n_ignored, len(target.X)) == (1, 1, 4)


def test_nothing_below_a_hidden_folder_is_read(tmp_path):
    folder = make_folder(tmp_path, dog=["1.png"], cat=["2.png", "deep/3.png"])
    seen = load_image_folder(folder)
    for hidden in (".ipynb_checkpoints", "__MACOSX", "deep/.thumbs/small"):
        (folder / "cat" / hidden).mkdir(parents=True)
        Image.fromarray(IMAGES[0]).save(folder / "cat" / hidden / "2.png")
    again = load_image_folder(folder)
    assert again.X.tolist() == seen.X.tolist()
    assert again.n_ignored == 0
    # Only what lies below the class counts, not where the folder itself is.
    elsewhere = make_folder_below(tmp_path / ".data" / "set", cat=["1.png"], dog=["2.png"])
    assert len(load_image_folder(elsewhere).X) == 2


def make_folder_below(root, **classes):
    root.mkdir(parents=True)
    return make_folder(root, **classes)


def test_what_is_left_out_is_counted_and_named(tmp_path):
    folder = make_folder(tmp_path, dog=["1.png"], cat=["2.png"])
    for name in ("3.jfif", "4.JFIF", "5.heic", "deep/6"):
        (folder / "dog" / name).parent.mkdir(exist_ok=True)
        (folder / "dog" / name).write_bytes(b"an image of another kind")
    (folder / "cat" / "7.png").symlink_to(folder / "nowhere.png")
    target = load_image_folder(folder)
    assert len(target.X) == 2
    assert target.n_ignored == 5
    assert target.ignored_suffixes == (".heic", ".jfif", "broken link", "no suffix")


def test_a_backbone_reads_the_folder(tmp_path):
    from sktransfer.backbones import TinyZooBackbone

    for row, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
        (tmp_path / f"class {label}").mkdir(exist_ok=True)
        Image.fromarray(image).save(tmp_path / f"class {label}" / f"{row:02d}.png")
    target = load_image_folder(tmp_path)
    features = TinyZooBackbone("fashion").fit(target.X).transform(target.X)
    order = np.argsort(LABELS, kind="stable")
    expected = TinyZooBackbone("fashion").fit(IMAGES).transform(IMAGES[order])
    np.testing.assert_allclose(features, expected, atol=1e-5)


def test_wrong_folders(tmp_path):
    with pytest.raises(ValueError, match="There is no folder '.*nowhere'"):
        load_image_folder(tmp_path / "nowhere")
    make_folder(tmp_path, cat=["1.png"])
    with pytest.raises(ValueError, match=r"at least two; it has \['cat'\]"):
        load_image_folder(tmp_path)
    with pytest.raises(ValueError, match="it has none"):
        load_image_folder(tmp_path / "cat")
    (tmp_path / "dog").mkdir()
    (tmp_path / "dog" / "dog.raw").write_text("no image")
    (tmp_path / "owl").mkdir()
    with pytest.raises(ValueError, match=r"have no images: \['dog', 'owl'\]"):
        load_image_folder(tmp_path)


# -- npz files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [("X", "y"), ("train_images", "train_labels")])
@pytest.mark.parametrize("labels", [LABELS, LABELS[:, None].astype(np.uint8), LABELS.astype(str)])
def test_arrays_under_either_pair_of_names(tmp_path, keys, labels):
    images, name = keys
    path = tmp_path / "target.npz"
    np.savez(path, **{images: IMAGES, name: labels, "test_images": IMAGES[:2]})
    target = load_npz_target(path)
    np.testing.assert_array_equal(target.X, IMAGES)
    np.testing.assert_array_equal(target.y, labels.ravel())
    assert target.y.dtype == labels.dtype
    assert target.task == "classification"
    assert target.array_names == keys
    assert target.n_constant == 0


def test_several_labels_per_image(tmp_path):
    labels = rng.integers(0, 2, size=(12, 14), dtype=np.uint8)
    np.savez_compressed(tmp_path / "chest.npz", train_images=IMAGES, train_labels=labels)
    target = load_npz_target(str(tmp_path / "chest.npz"))
    assert target.y.shape == (12, 14)
    assert target.task == "multilabel"


@pytest.mark.parametrize("y", [rng.normal(size=12), rng.normal(size=(12, 2))])
def test_numbers_as_labels(tmp_path, y):
    np.savez(tmp_path / "t.npz", X=IMAGES.reshape(12, -1), y=y)
    assert load_npz_target(tmp_path / "t.npz").task == "regression"


def test_constant_images_are_counted(tmp_path):
    images = np.repeat(IMAGES, 500, axis=0)
    images[[0, 5000]] = 0
    images[17] = 255
    np.savez(tmp_path / "t.npz", X=images, y=np.repeat(LABELS, 500))
    assert load_npz_target(tmp_path / "t.npz").n_constant == 3


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES, "y": LABELS}, r"must hold 'X' and 'y' or .*holds \['images', 'y'\]"),
        ({"X": IMAGES, "y": LABELS[:5]}, r"got shapes \(12, 28, 28\) and \(5,\)"),
        ({"X": IMAGES[:0], "y": LABELS[:0]}, r"has no samples, got shapes \(0, 28, 28\)"),
        ({"X": IMAGES, "y": 3}, r"and \(\)\.$"),
        ({"X": IMAGES, "y": np.r_[np.nan, LABELS[1:]]}, "finite labels, got NaN .* 1 of 12"),
        ({"X": IMAGES, "y": np.full((12, 2), np.inf)}, "finite labels, got NaN .* 24 of 24"),
        ({"X": IMAGES, "y": LABELS + 1j}, "numbers or strings as labels, got dtype complex128.$"),
        ({"X": IMAGES, "y": LABELS.astype("S2")}, r"as labels, got dtype \|S2"),
        ({"X": IMAGES, "y": LABELS.astype("M8[D]")}, "as labels, got dtype datetime64"),
        ({"X": IMAGES, "y": np.zeros(12, dtype="i4,i4")}, "as labels, got dtype"),
        ({"X": LABELS, "y": LABELS}, r"got shapes \(12,\)"),
        ({"X": IMAGES, "y": LABELS.reshape(12, 1, 1)}, "one or two axes"),
        ({"X": IMAGES, "y": np.arange(36).reshape(12, 3)}, "got multiclass-multioutput labels"),
        ({"X": IMAGES[:1], "y": 3}, None),
    ],
)
def test_wrong_arrays(tmp_path, arrays, message):
    path = tmp_path / "t.npz"
    np.savez(path, **arrays)
    if message is None:
        assert load_npz_target(path).y.tolist() == [3]
        return
    with pytest.raises(ValueError, match=message) as caught:
        load_npz_target(path)
    assert str(path) in str(caught.value)


def test_python_objects_are_not_unpickled(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X=IMAGES, y=np.array([{"label": 1}] * 12))
    with pytest.raises(
        ValueError, match="cannot be read: Object arrays cannot be loaded"
    ) as caught:
        load_npz_target(path)
    assert str(path) in str(caught.value)


def test_damaged_files_name_themselves(tmp_path):
    path = tmp_path / "t.npz"
    np.savez_compressed(path, X=IMAGES, y=LABELS)
    content = path.read_bytes()
    changed = bytearray(content)
    changed[len(content) // 2] ^= 255
    wrong = {"cut": content[:-100], "empty": b"", "text": b"no archive", "changed": bytes(changed)}
    for name, bytes_ in wrong.items():
        path = tmp_path / f"{name}.npz"
        path.write_bytes(bytes_)
        with pytest.raises(ValueError, match=f"{name}.npz' is damaged or no .npz file"):
            load_npz_target(path)
    with pytest.raises(ValueError, match="There is no file '.*nowhere.npz'"):
        load_npz_target(tmp_path / "nowhere.npz")


def test_an_archive_of_other_things(tmp_path):
    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")
    with pytest.raises(ValueError, match=r"it holds \['a.txt'\]"):
        load_npz_target(path)
