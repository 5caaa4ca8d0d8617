"""Candidates of the user's own, imported from modules in the current folder or elsewhere."""

import contextlib
import importlib
import os
import sys

__all__ = ["current_folder_importable", "import_candidate", "is_transformer", "named_errors"]


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


def import_candidate(specification, path, *, build=True):
    """Import a candidate of the user's: a transformer, a network, or a function that makes one.

    Parameters
    ----------
    specification : str
        The argument of the command line, for messages.
    path : str
        ``MODULE:OBJECT``.
    build : bool, default=True
        Whether what is no candidate, but can be called, is called to make one. Otherwise it is
        handed out as it is: a checkpoint wants the function.

    Returns
    -------
    candidate : object
        The transformer or network, or with ``build=False`` what makes it.

    Raises
    ------
    ValueError
        If there is no such object, it is no candidate, or whatever the module raised.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise ValueError(
            f"--candidates: {specification!r} must have the form python:MODULE:OBJECT."
        )
    with named_errors(specification, "imported"):
        found = getattr(importlib.import_module(module_name), attribute)
    if not build and callable(found):
        return found
    made = found
    if callable(found) and not _is_candidate(found):
        with named_errors(specification, "built"):
            made = found()
    if not _is_candidate(made):
        raise ValueError(
            f"--candidates: {specification!r} is a {type(made).__name__}, neither a transformer "
            "with fit and transform nor a torch.nn.Module."
        )
    return made


@contextlib.contextmanager
def named_errors(specification, done):
    """Say in one line whose code failed: whatever a user's module raises is a wrong input.

    Parameters
    ----------
    specification : str
        The argument of the command line.
    done : str
        What can't be done to it, such as "imported".
    """
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


def is_transformer(found):
    """Tell whether an object is an instance with ``fit`` and ``transform``.

    Parameters
    ----------
    found : object
        What was imported.

    Returns
    -------
    answer : bool
        False for classes.
    """
    return not isinstance(found, type) and hasattr(found, "fit") and hasattr(found, "transform")


def _is_candidate(found):
    if isinstance(found, type):
        return False
    if is_transformer(found):
        return True
    return any(base.__module__ == "torch.nn.modules.module" for base in type(found).__mro__)
