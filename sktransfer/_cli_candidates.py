"""Candidates named on the command line."""

import contextlib
import fnmatch
import importlib
import inspect
import os
import sys

__all__ = ["current_folder_importable", "parse_candidates"]


def parse_candidates(
    specifications,
    *,
    exclude_families=(),
    batch_size=64,
    device="auto",
    mean=None,
    std=None,
    for_images=True,
):
    """Turn specifications such as ``tiny:fashion*`` into candidates.

    Parameters
    ----------
    specifications : sequence of str
        What was given on the command line.
    exclude_families : sequence of str, default=()
        Families of the bundled networks to leave out.
    batch_size : int, default=64
        Images per forward pass.
    device : str, default="auto"
        Where the networks run.
    mean, std : list of float or None, default=None
        Normalisation of images for the user's plain networks.
    for_images : bool, default=True
        Whether the data are images, so that plain networks need mean and std.

    Returns
    -------
    candidates : list of (str, transformer)
        Names and candidates, each once, in the order given. Different candidates never share a
        name: where an object's name is taken or not allowed, its module's is put before it.

    Raises
    ------
    ValueError
        If a specification is not understood, names nothing or can't be built, whatever the user's
        module raised.
    """
    _check_families(exclude_families)
    if mean is None and std is not None or mean is not None and std is None:
        raise ValueError("--mean and --std must be given together.")
    tiny, own, order = {}, {}, []
    uses_normalisation = False
    for specification in specifications:
        kind, _, rest = specification.partition(":")
        if kind == "tiny":
            for name, candidate in _tiny(specification, rest, exclude_families, batch_size, device):
                if name not in tiny:
                    tiny[name] = candidate
                    order.append((name, None))
        elif kind == "python":
            if rest in own:
                continue
            made = _python(specification, rest)
            if not hasattr(made, "transform"):
                made = _wrap(specification, made, mean, std, for_images, batch_size, device)
                uses_normalisation = True
            own[rest] = made
            order.append((rest.rpartition(":")[2], rest))
        else:
            raise ValueError(
                f"--candidates: {specification!r} is neither tiny, tiny:NAME nor "
                "python:MODULE:OBJECT."
            )
    if mean is not None and not uses_normalisation:
        raise ValueError(
            "--mean and --std are for plain torch modules given as python:MODULE:OBJECT, and "
            "there is none among the candidates."
        )
    return _named(tiny, own, order)


def _named(tiny, own, order):
    """Give the candidates names, those of the user's with their module where they need it."""
    from .model_selection import TransferabilitySelector

    taken = [name for name, _ in order]
    reserved = inspect.signature(TransferabilitySelector).parameters
    return [
        (name, tiny[name])
        if rest is None
        else (rest if taken.count(name) > 1 or name in reserved else name, own[rest])
        for name, rest in order
    ]


def _check_families(families):
    if not families:
        return
    from .datasets import load_tiny_zoo

    known = sorted({backbone.card.family for _, backbone in load_tiny_zoo()})
    if unknown := [family for family in families if family not in known]:
        raise ValueError(
            f"--exclude-family: there is no family {unknown[0]!r}; there are {', '.join(known)}."
        )


def _tiny(specification, pattern, exclude_families, batch_size, device):
    from .datasets import load_tiny_zoo

    everything = load_tiny_zoo(batch_size=batch_size, device=device)
    matching = [pair for pair in everything if not pattern or fnmatch.fnmatchcase(pair[0], pattern)]
    if not matching:
        names = ", ".join(name for name, _ in everything)
        raise ValueError(f"--candidates: no bundled network matches {specification!r}: {names}.")
    found = [pair for pair in matching if pair[1].card.family not in exclude_families]
    if not found:
        raise ValueError(
            f"--candidates: all that matches {specification!r} is left out by --exclude-family "
            f"{' '.join(exclude_families)}."
        )
    return found


@contextlib.contextmanager
def current_folder_importable(specifications):
    """Let modules of the current folder be imported, as ``python -m sktransfer`` does.

    An installed command has the folder of the command on the path instead.

    Parameters
    ----------
    specifications : sequence of str
        Candidates of the command line; without one of the user's nothing is done.
    """
    if not any(specification.startswith("python:") for specification in specifications):
        yield
        return
    folder = os.getcwd()
    if "" in sys.path or folder in sys.path:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the user's module may have removed it
            sys.path.remove(folder)


def _python(specification, rest):
    """Import a candidate of the user's: a transformer, a network, or a function that makes one."""
    module_name, _, attribute = rest.partition(":")
    if not module_name or not attribute:
        raise ValueError(
            f"--candidates: {specification!r} must have the form python:MODULE:OBJECT."
        )
    with _named_errors(specification, "imported"):
        found = getattr(importlib.import_module(module_name), attribute)
    made = found
    if callable(found) and not _is_candidate(found):
        with _named_errors(specification, "built"):
            made = found()
    if not _is_candidate(made):
        raise ValueError(
            f"--candidates: {specification!r} is a {type(made).__name__}, neither a transformer "
            "with fit and transform nor a torch.nn.Module."
        )
    return made


@contextlib.contextmanager
def _named_errors(specification, done):
    """Say in one line whose code failed: whatever a user's module raises is a wrong input."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit):
            reason = f"it ended the program, sys.exit({error.code!r})"
        elif isinstance(error, ImportError | AttributeError) and str(error):
            reason = str(error)
        else:
            reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"--candidates: {specification!r} can't be {done}: {reason.rstrip('.')}."
        ) from error


def _wrap(specification, module, mean, std, for_images, batch_size, device):
    from .backbones import TorchBackbone

    if for_images and mean is None:
        raise ValueError(
            f"--candidates: {specification!r} is a plain network, and images need the "
            "normalisation it was trained with: give --mean and --std (--mean 0 --std 1 for pixels "
            "between 0 and 1), or make the object a TorchBackbone that knows them."
        )
    if mean is not None:
        mean, std = (v[0] if len(v) == 1 else v for v in (mean, std))
    return TorchBackbone(module, mean=mean, std=std, batch_size=batch_size, device=device)


def _is_candidate(found):
    if isinstance(found, type):
        return False
    if hasattr(found, "fit") and hasattr(found, "transform"):
        return True
    return any(base.__module__ == "torch.nn.modules.module" for base in type(found).__mro__)
