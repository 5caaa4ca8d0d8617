"""Files of MedMNIST in a folder, found by their names: targets, and checkpoints of the sources."""

import re
from functools import partial
from pathlib import Path

from sktransfer.datasets._medmnist_reference import load_medmnist_reference

__all__ = ["find_medmnist_targets", "load_medmnist_sources", "medmnist_name"]

_NAMES = {
    f"{name.lower()}mnist": name
    for name in ("Breast", "Retina", "Pneumonia", "Derma", "Blood", "OrganC", "OrganS", "OrganA")
    + ("Chest", "Path", "OCT", "Tissue")
}
_NAME = re.compile(rf"(?<![a-z0-9])({'|'.join(_NAMES)})(?![a-z0-9])", re.IGNORECASE)
_SUFFIXES = {".pth", ".pt", ".ckpt", ".safetensors"}
_SIZE = re.compile(r"_(\d+)$")
_NETWORK = re.compile(r"resnet_?(\d+)", re.IGNORECASE)
# The networks for 28 pixels are of another kind than torchvision's.
_SMALL = re.compile(r"resnet_?18_28(?!\d)", re.IGNORECASE)
_RUN = re.compile(r"_(\d)$")
_PIXELS = 224


def medmnist_name(path):
    """Tell which data set of MedMNIST a file is, or belongs to.

    Parameters
    ----------
    path : str or path
        The file or folder; the last part of the path that has such a name tells.

    Returns
    -------
    name : str or None
        As in :func:`load_medmnist_reference`, such as "Breast" for ``breastmnist_224.npz``; None
        for any other.
    """
    path = Path(path)
    for part in (path.stem, *reversed(path.parent.parts)):
        if found := _NAME.search(part):
            return _NAMES[found[1].lower()]
    return None


def find_medmnist_targets(folder):
    """Find the files of the eight targets of the published study in a folder.

    They are Breast, Pneumonia, Derma, Blood, OrganC, OrganS, OrganA and OCT; the other data sets
    of MedMNIST are sources only. Nothing is downloaded.

    Parameters
    ----------
    folder : str or path
        Where files such as ``breastmnist_224.npz`` are.

    Returns
    -------
    targets : dict of str to pathlib.Path
        Files of those that are there, by name, in the order of their numbers of training images;
        of several sizes the one of 224 pixels, or else the largest.

    Raises
    ------
    ValueError
        If there is no such folder, or none of the files in it.

    See Also
    --------
    load_npz_target : Loads one of them.
    load_medmnist_sources : Networks to rank.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sktransfer.datasets import find_medmnist_targets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("bloodmnist.npz", "bloodmnist_224.npz", "breastmnist_64.npz"):
    ...         (Path(folder) / name).touch()
    ...     targets = find_medmnist_targets(folder)
    >>> {name: path.name for name, path in targets.items()}
    {'Breast': 'breastmnist_64.npz', 'Blood': 'bloodmnist_224.npz'}
    """
    folder = _existing(folder)
    found = {}
    for path in sorted(folder.glob("*.npz")):
        stem, size = path.stem, _SIZE.search(path.stem)
        flag = stem[: size.start()] if size else stem
        if name := _NAMES.get(flag.lower()):
            pixels = int(size[1]) if size else 28
            found.setdefault(name, {})[pixels] = path
    targets = {
        name: found[name].get(_PIXELS) or found[name][max(found[name])]
        for name in load_medmnist_reference(as_frame=False).targets
        if name in found
    }
    if not targets:
        raise ValueError(
            f"The folder {str(folder)!r} has no file of a target of MedMNIST, such as "
            "breastmnist_224.npz."
        )
    return targets


def load_medmnist_sources(
    folder,
    *,
    target=None,
    run=1,
    input_size=_PIXELS,
    imagenet=True,
    batch_size=64,
    n_workers=0,
    device="auto",
):
    """Give the ResNet-18 networks that were trained on MedMNIST, ready to be ranked.

    With torchvision's network trained on ImageNet, these are the thirteen sources of the published
    study. Their checkpoints are those of MedMNIST's authors, ``{"net": state_dict}``, or of the
    same form; nothing but ImageNet is downloaded.

    Parameters
    ----------
    folder : str or path
        Where the checkpoints are, at any depth. The name of the data set is in the name of the
        file or of a folder around it, as in ``weights_bloodmnist/resnet18_224_1.pth``. Files of
        other networks, such as ``resnet50_224_1.pth`` and ``resnet18_28_1.pth``, are left out.
    target : str, path or None, default=None
        The target: its own source is left out. A name such as "Breast", or the path of a file
        that is called like one of MedMNIST's.
    run : int, default=1
        Which of the networks, where several were trained on one source.
    input_size : int, default=224
        Height and width that images are resized to, as they were in training.
    imagenet : bool, default=True
        Whether ImageNet is among them, with torchvision's own preprocessing.
    batch_size : int, default=64
        Images per forward pass.
    n_workers : int, default=0
        Threads that read and prepare batches ahead.
    device : str or torch.device, default="auto"
        "auto" is a CUDA device where there is one, otherwise the CPU.

    Returns
    -------
    candidates : list of (str, backbone)
        Names, as in :func:`load_medmnist_reference`, and backbones that are not yet fitted, of
        those sources whose checkpoints are there.

    Raises
    ------
    ImportError
        If torch or torchvision is not installed.
    ValueError
        If there is no such folder, no checkpoint in it, several of a source that the names don't
        tell apart, one that can't be read or is of another network, or `target` is none of
        MedMNIST's.

    Warns
    -----
    HeadNotLoadedWarning
        In ``fit``, if a checkpoint was trained on another number of classes than its data set has.

    Notes
    -----
    Images get three channels, are resized by the nearest pixel and normalised with mean and
    standard deviation 0.5, as for the training of these checkpoints.

    The labels of Chest are fourteen findings that do not exclude each other. Its network gives a
    softmax over them here, which metrics of source probabilities take for one distribution.

    OrganA, OrganC and OrganS are slices of the same scans in three directions.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> from torchvision.models import resnet18
    >>> from sktransfer.datasets import load_medmnist_sources
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, n_classes in (("bloodmnist", 8), ("breastmnist", 2)):
    ...         weights = {"net": resnet18(num_classes=n_classes).state_dict()}
    ...         torch.save(weights, Path(folder) / f"{name}_resnet18_224_1.pth")
    ...     candidates = load_medmnist_sources(folder, target="breastmnist_224.npz")
    >>> [name for name, _ in candidates]
    ['Blood', 'ImageNet']
    """
    folder = _existing(folder)
    own = None
    if target is not None:
        own = target if target in _NAMES.values() else medmnist_name(Path(target).name)
        if own is None:
            raise ValueError(
                "The 'target' parameter of load_medmnist_sources must be the name of a data set "
                f"of MedMNIST, one of {list(_NAMES.values())}, or of its file. Got {target!r}."
            )
    published = load_medmnist_reference(as_frame=False)
    checkpoints = {}
    for path in sorted(folder.rglob("*")):
        name = medmnist_name(Path(folder.name, path.relative_to(folder)))
        if name is not None and path.suffix in _SUFFIXES and path.is_file() and _is_wanted(path):
            checkpoints.setdefault(name, []).append(path)
    if not checkpoints:
        raise ValueError(
            f"The folder {str(folder)!r} has no checkpoint of a ResNet-18 that is called like a "
            "data set of MedMNIST, such as weights_bloodmnist/resnet18_224_1.pth."
        )
    # Imported here, because the other loaders need no torch.
    from torchvision.models import resnet18

    from sktransfer.backbones import TorchBackbone, TorchvisionBackbone

    common = {"batch_size": batch_size, "n_workers": n_workers, "device": device}
    candidates = []
    for name in published.sources:
        if name == own:
            continue
        if name in checkpoints:
            backbone = TorchBackbone.from_checkpoint(
                partial(resnet18, num_classes=published.sizes[name]["n_classes"]),
                _chosen(name, checkpoints[name], run),
                mean=0.5,
                std=0.5,
                channels=3,
                input_size=input_size,
                interpolation="nearest",
                **common,
            )
            candidates.append((name, backbone))
        elif name == "ImageNet" and imagenet:
            candidates.append((name, TorchvisionBackbone("resnet18", **common)))
    return candidates


def _existing(folder):
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"There is no folder {str(folder)!r}.")
    return folder


def _is_wanted(path):
    network = _NETWORK.search(path.stem)
    if network and network[1] != "18":
        return False
    return not _SMALL.search(path.stem)


def _chosen(name, paths, run):
    """Choose the one of a run."""
    if len(paths) == 1:
        return paths[0]
    runs = [found and int(found[1]) for found in (_RUN.search(path.stem) for path in paths)]
    if runs.count(run) != 1:
        raise ValueError(
            f"There must be one checkpoint of run {run} for source {name!r}. Got "
            f"{[str(path) for path in paths]}."
        )
    return paths[runs.index(run)]
