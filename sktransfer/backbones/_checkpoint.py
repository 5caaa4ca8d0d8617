"""Read files of weights without running anything that is in them."""

import re
import zipfile
from collections.abc import Mapping
from os import fspath
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

__all__ = ["read_checkpoint"]

# Where training scripts keep the weights among other things, in the order of preference.
_CONTAINERS = (
    *("state_dict", "model_state_dict", "model", "net", "network", "module", "model_state"),
    *("weights", "params", "backbone", "encoder", "teacher", "student", "model_ema", "ema"),
)
# What has tensors by name too, but no weights.
_NO_WEIGHTS = re.compile(r"optim|sched|scaler|rng|momentum", re.IGNORECASE)
_MAX_DEPTH = 3

_ZIP, _OLD_TORCH = b"PK\x03\x04", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_REFUSED_CLASS = re.compile(r"(?:GLOBAL|class) (\S+)")


def read_checkpoint(path):
    """Read the state dict in a file, whatever wrote it.

    Parameters
    ----------
    path : str or path
        A file in the format of safetensors or of ``torch.save``. The contents tell which.

    Returns
    -------
    state : dict of str to tensor
        Weights on the CPU, by name. They may be a view of the file.
    container : str
        Dotted keys under which the weights were found, such as "net"; "" if the file holds nothing
        but weights.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, has no weights or several sets of them, or holds objects other than
        tensors and plain Python data: rebuilding those could run any code, so it is not done.
    """
    path = Path(fspath(path)).expanduser()
    if path.is_dir():
        raise ValueError(f"The checkpoint '{path}' is a folder; pass the file of weights in it.")
    if not path.is_file():
        raise FileNotFoundError(f"There is no checkpoint '{path}' (looked for in {Path.cwd()}).")
    with path.open("rb") as file:
        start = file.read(16)
    if start[8:9] == b"{":
        state = _read_safetensors(path)
    elif start.startswith((_ZIP, _OLD_TORCH)):
        state = _read_torch(path, is_zip=start.startswith(_ZIP))
    else:
        raise ValueError(
            f"The checkpoint '{path}' is {'empty' if not start else 'no file of weights'}: it "
            "begins neither like a file of safetensors nor like one of torch.save."
        )
    return _weights_in(state, path)


def _read_safetensors(path):
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error) from error


def _read_torch(path, is_zip):
    if is_zip:
        _check_archive(path)
    try:
        # Mapped into memory: what is not used of a large file is never read.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip or None)
    except UnpicklingError as error:
        found = _REFUSED_CLASS.search(str(error))
        if found is None:
            raise _damaged(path, error) from error
        raise ValueError(
            f"The checkpoint '{path}' holds more than weights ({found[1]}), and rebuilding such "
            "objects could run any code: save the state_dict() of the network alone, or let torch "
            "know that you trust this class by torch.serialization.add_safe_globals."
        ) from error
    except Exception as error:  # what torch raises for a broken file can be anything
        raise _damaged(path, error) from error


def _check_archive(path):
    """Look for damage that torch does not look for, and for programs."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            broken = [name for name in names if not _is_intact(archive, name)]
    except Exception as error:  # so can what zipfile raises
        raise _damaged(path, error) from error
    if any(name.split("/", 1)[-1] == "constants.pkl" for name in names):
        raise ValueError(
            f"The checkpoint '{path}' is a TorchScript program: load it by torch.jit.load and pass "
            "the module, or save its state_dict()."
        )
    tensors = [name for name in names if "/data/" in name]
    # torch can be told to write no checksums at all, and then none is right.
    if broken and len(broken) < max(2, len(tensors)):
        raise _damaged(path, f"wrong checksum of {broken[0]}")


def _is_intact(archive, name):
    try:
        with archive.open(name) as file:
            while file.read(2**22):
                pass
    except zipfile.BadZipFile:
        return False
    return True


def _damaged(path, reason):
    lines = str(reason).strip().splitlines() or [type(reason).__name__]
    return ValueError(
        f"The checkpoint '{path}' is damaged or cut off: {lines[0].rstrip('.')[:200]}. "
        "Copy or download it again."
    )


def _weights_in(content, path):
    """Find the state dict in what a file holds."""
    if not isinstance(content, Mapping):
        raise ValueError(
            f"The checkpoint '{path}' holds a {type(content).__name__}, not weights by name."
        )
    found = dict(_state_dicts(content))
    if not found:
        raise ValueError(
            f"The checkpoint '{path}' holds no weights by name; its keys are {_listed(content)}."
        )
    direct = found.pop("", None)
    if direct is not None and len(direct) >= max(map(len, found.values()), default=0):
        return direct, ""
    if len(found) > 1:
        order = [name for known in _CONTAINERS for name in found if name.split(".")[-1] == known]
        if not order:
            raise ValueError(
                f"The checkpoint '{path}' holds several sets of weights, {_listed(found)}: save "
                "the one that is meant in a file of its own."
            )
        return found[order[0]], order[0]
    name, state = found.popitem()
    return state, name


def _state_dicts(content, name="", depth=0):
    tensors = {
        key: value
        for key, value in content.items()
        if isinstance(key, str)
        and (isinstance(value, torch.Tensor) or key.endswith("_extra_state"))
    }
    if tensors:
        yield name, tensors
    if depth < _MAX_DEPTH:
        for key, value in content.items():
            if isinstance(value, Mapping) and not _NO_WEIGHTS.search(str(key)):
                yield from _state_dicts(value, f"{name}.{key}".lstrip("."), depth + 1)


def _listed(names, limit=10):
    names = [str(name) for name in names]
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{names[:limit]}{more}"
