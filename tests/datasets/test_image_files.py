"""Image files that can't be read: all of them named, or left out with their labels."""

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="decodes images")

from sktransfer.datasets import check_image_files, load_image_folder
from sktransfer.exceptions import SkippedFilesWarning

rng = np.random.default_rng(0)
LABELS = np.array(["cat", "dog", "owl"])[np.arange(100) % 3]


@pytest.fixture
def files(tmp_path):
    """A hundred files, of which one is missing and one is cut off."""
    paths = [str(tmp_path / f"{row:02d}.png") for row in range(100)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (9, 9), dtype=np.uint8)).save(path)
    content = (tmp_path / "42.png").read_bytes()
    (tmp_path / "42.png").write_bytes(content[:-40])
    (tmp_path / "77.png").unlink()
    return paths


def broken(n_rows):
    return [row for row in range(n_rows) if row not in (42, 77)]


@pytest.mark.parametrize("n_workers", [0, 3])
def test_all_are_named_in_one_error(files, n_workers):
    with pytest.raises(ValueError, match="2 of 100 image files cannot be read") as caught:
        check_image_files(files, LABELS, n_workers=n_workers)
    assert f"row 42: {files[42]} (" in str(caught.value)
    assert f"row 77: {files[77]} (no such file)" in str(caught.value)


@pytest.mark.parametrize("n_workers", [0, 3])
def test_they_are_left_out_with_their_labels(files, n_workers):
    with pytest.warns(SkippedFilesWarning, match="2 of 100 .*left out, with their labels") as said:
        target = check_image_files(files, LABELS, on_error="skip", n_workers=n_workers)
    assert f"row 42: {files[42]} (" in str(said[0].message)
    assert f"row 77: {files[77]} (no such file)." in str(said[0].message)
    assert target.X.tolist() == [files[row] for row in broken(100)]
    assert target.y.tolist() == LABELS[broken(100)].tolist()
    assert target.skipped.tolist() == [42, 77]
    assert target.reasons[1] == "no such file"
    with pytest.warns(SkippedFilesWarning, match="2 of 100 image files cannot be read and were"):
        assert check_image_files(files, on_error="skip").y is None


def test_rows_belong_to_their_labels_afterwards(files):
    """Each image has its row as its only value."""
    pytest.importorskip("torch", reason="reads the images by a backbone")
    from torch import nn

    from sktransfer.backbones import TorchBackbone

    for row in broken(100):
        Image.new("L", (9, 9), row).save(files[row])
    with pytest.warns(SkippedFilesWarning):
        target = check_image_files(files, np.arange(100), on_error="skip")
    backbone = TorchBackbone(nn.Flatten(), mean=0.0, std=1.0, batch_size=7, n_workers=3)
    features = backbone.fit_transform(target.X)
    np.testing.assert_allclose(features[:, 0] * 255, target.y, atol=1e-4)


def test_labels_of_any_kind_keep_it(files):
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(LABELS, index=np.arange(100)[::-1])
    frame = pandas.DataFrame({"path": files})
    matrix = rng.integers(0, 2, (100, 14))
    for y, expected in (
        (series, series.iloc[broken(100)]),
        (list(LABELS), LABELS[broken(100)].tolist()),
        (matrix, matrix[broken(100)]),
    ):
        with pytest.warns(SkippedFilesWarning):
            target = check_image_files(frame, y, on_error="skip")
        assert type(target.y) is type(y)
        np.testing.assert_array_equal(target.y, expected)


def test_nothing_is_said_where_nothing_is_wrong(files):
    good = files[:40]
    for on_error in ("raise", "skip"):
        target = check_image_files(good, LABELS[:40], on_error=on_error)
        assert target.X.tolist() == good
        assert target.skipped.tolist() == target.reasons == []
    images = [Image.open(path) for path in good]
    assert images == check_image_files(images).X


def test_wrong_arguments(files):
    with pytest.raises(ValueError, match="'on_error' parameter must be 'raise' or 'skip', got 'i"):
        check_image_files(files, on_error="ignore")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        check_image_files(files, LABELS[:5])
    with pytest.raises(ValueError, match="paths or Pillow images only, got int"):
        check_image_files([3])
    with pytest.raises(ValueError, match="2 of 2 image files cannot be read"):
        check_image_files([files[42], files[77]], on_error="skip")
    with (
        pytest.warns(SkippedFilesWarning, match="row 19: none 19 .*; and 10 more.$"),
        pytest.raises(ValueError, match="inconsistent"),
    ):
        skipped = check_image_files([f"none {i}" for i in range(30)] + files[:1], on_error="skip")
        check_image_files(skipped.X, [0, 1])


# -- folders ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    for label in ("cat", "dog", "owl"):
        (tmp_path / label).mkdir()
        for row in range(3):
            Image.new("L", (5, 5), 40 * row).save(tmp_path / label / f"{row}.png")
    (tmp_path / "dog" / "1.png").write_text("no image")
    return tmp_path


def test_a_folder_is_listed_unopened_or_refused_or_thinned_out(folder):
    target = load_image_folder(folder)
    assert (len(target.X), target.skipped.tolist(), target.reasons) == (9, [], [])
    with pytest.raises(ValueError, match=r"1 of 9 image files .* row 4: .*1.png \(not an image\)"):
        load_image_folder(folder, on_error="raise")
    with pytest.warns(SkippedFilesWarning, match=r"1 of 9 .* row 4: .*1.png \(not an image\)"):
        target = load_image_folder(folder, on_error="skip", n_workers=2)
    assert target.y.tolist() == ["cat"] * 3 + ["dog"] * 2 + ["owl"] * 3
    assert target.skipped.tolist() == [str(folder / "dog" / "1.png")]
    assert target.reasons == ["not an image"]
    assert len(target.X) == 8
    with pytest.raises(ValueError, match="'on_error' parameter"):
        load_image_folder(folder, on_error="drop")


def test_a_class_without_readable_images_is_no_class(folder):
    for row in range(3):
        (folder / "owl" / f"{row}.png").write_text("no image")
    with pytest.warns(SkippedFilesWarning, match="4 of 9"):
        target = load_image_folder(folder, on_error="skip")
    assert target.target_names.tolist() == ["cat", "dog"]
    for row in range(3):
        (folder / "cat" / f"{row}.png").write_text("no image")
    with (
        pytest.warns(SkippedFilesWarning, match="7 of 9"),
        pytest.raises(ValueError, match="images that can be read in 1 class only"),
    ):
        load_image_folder(folder, on_error="skip")


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_rows_without_a_path_are_left_out_with_their_labels(folder, nothing):
    paths = [str(folder / "cat" / "0.png"), nothing, str(folder / "owl" / "0.png")]
    with pytest.warns(SkippedFilesWarning, match=r"1 of 3 .* row 1"):
        target = check_image_files(paths, [7, 8, 9], on_error="skip")
    assert (target.X.tolist(), list(target.y)) == ([paths[0], paths[2]], [7, 9])
    assert target.skipped.tolist() == [1]
    with pytest.raises(ValueError, match="1 of 3 paths are missing"):
        check_image_files(paths, [7, 8, 9])
