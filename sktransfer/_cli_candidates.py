"""Candidates named on the command line."""

import fnmatch
import importlib

__all__ = ["parse_candidates"]


def parse_candidates(specifications, *, exclude_families=(), batch_size=64, device="auto"):
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

    Returns
    -------
    candidates : list of (str, transformer)
        Names and candidates, each once, in the order given.

    Raises
    ------
    ValueError
        If a specification is not understood or names nothing.
    """
    candidates = {}
    for specification in specifications:
        kind, _, rest = specification.partition(":")
        if kind == "tiny":
            found = _tiny(specification, rest, exclude_families, batch_size, device)
        elif kind == "python":
            found = [_python(specification, rest, batch_size, device)]
        else:
            raise ValueError(
                f"--candidates: {specification!r} is neither tiny, tiny:NAME nor "
                "python:MODULE:OBJECT."
            )
        for name, candidate in found:
            candidates.setdefault(name, candidate)
    return list(candidates.items())


def _tiny(specification, pattern, exclude_families, batch_size, device):
    from .datasets import load_tiny_zoo

    zoo = load_tiny_zoo(
        exclude_families=tuple(exclude_families), batch_size=batch_size, device=device
    )
    if not pattern:
        return zoo
    found = [pair for pair in zoo if fnmatch.fnmatchcase(pair[0], pattern)]
    if not found:
        names = ", ".join(name for name, _ in zoo)
        raise ValueError(f"--candidates: no bundled network matches {specification!r}: {names}.")
    return found


def _python(specification, rest, batch_size, device):
    """Import a candidate of the user's: a transformer, a network, or a function that makes one."""
    module_name, _, attribute = rest.partition(":")
    if not module_name or not attribute:
        raise ValueError(
            f"--candidates: {specification!r} must have the form python:MODULE:OBJECT."
        )
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--candidates: {specification!r} can't be imported: {error}.") from error
    made = found() if callable(found) and not _is_candidate(found) else found
    if not _is_candidate(made):
        raise ValueError(
            f"--candidates: {specification!r} is a {type(made).__name__}, neither a transformer "
            "with fit and transform nor a torch.nn.Module."
        )
    if not hasattr(made, "transform"):
        from .backbones import TorchBackbone

        made = TorchBackbone(made, batch_size=batch_size, device=device)
    return attribute, made


def _is_candidate(found):
    if isinstance(found, type):
        return False
    if hasattr(found, "fit") and hasattr(found, "transform"):
        return True
    return any(base.__module__ == "torch.nn.modules.module" for base in type(found).__mro__)
