"""One thread for numerical libraries while something is computed that must be the same everywhere.

Two threads add up sums in another order than one, so that eigenvectors, and whatever is computed
from them, differ in their last bits.
"""

import sys
import threading
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]

_LOCK = threading.Lock()


class _Process:
    """What belongs to the whole process: set by the first thread inside, restored by the last."""

    n_inside = 0
    libraries: dict = {}
    torch_threads = None
    # To find the libraries takes milliseconds, and new ones come with new modules.
    found_with = None
    controllers: tuple = ()


@contextmanager
def one_thread():
    """Limit BLAS, OpenMP and torch to one thread. Several threads may be inside at once.

    It holds for libraries that are loaded by then; torch is not imported. Afterwards all limits are
    what they were.
    """
    own = _enter()
    try:
        yield
    finally:
        _leave(own)


def _enter():
    """Set all limits, and return what OpenMP had for this thread, which has limits of its own."""
    own = []
    with _LOCK:
        _Process.n_inside += 1
        before = [
            (library, n_threads)
            for library in _libraries()
            if (n_threads := library.num_threads) is not None and n_threads != 1
        ]
        torch = sys.modules.get("torch")
        if torch is not None and (n_threads := torch.get_num_threads()) != 1:
            if _Process.torch_threads is None:
                _Process.torch_threads = n_threads
            # Beside OpenMP this limits a copy of MKL inside torch that nobody else sees.
            torch.set_num_threads(1)
        for library, n_threads in before:
            if library.user_api == "openmp":
                own.append((library, n_threads))
            else:
                _Process.libraries.setdefault(library.filepath, (library, n_threads))
            _set(library, 1)
    return own


def _leave(own):
    with _LOCK:
        _Process.n_inside -= 1
        if _Process.n_inside == 0:
            if _Process.torch_threads is not None:
                sys.modules["torch"].set_num_threads(_Process.torch_threads)
                _Process.torch_threads = None
            for library, n_threads in _Process.libraries.values():
                _set(library, n_threads)
            _Process.libraries.clear()
        for library, n_threads in own:
            _set(library, n_threads)


def _libraries():
    if len(sys.modules) != _Process.found_with:
        _Process.found_with = len(sys.modules)
        _Process.controllers = tuple(ThreadpoolController().lib_controllers)
    return _Process.controllers


def _set(library, n_threads):
    # The limit of OpenBLAS is that of the process. Of several threads threadpoolctl lets only the
    # first one set it, and the others in silence not; here they take turns.
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(n_threads)
    if release is not None:
        release(force=True)
