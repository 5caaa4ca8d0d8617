"""Borrow torch's global generators: one thread at a time, and as they were afterwards."""

import os
from contextlib import contextmanager
from threading import RLock

import torch

__all__ = ["borrowed_generators"]


def _make_lock():
    # Networks draw from generators that all threads share, when they are built, trained, or run
    # with random layers. Whoever draws, or puts a state back, has to be the only one. Reentrant,
    # as a user's function may build one network out of another.
    global _generators_lock
    _generators_lock = RLock()


_make_lock()
if hasattr(os, "register_at_fork"):
    # Another thread may hold it at the moment of a fork.
    os.register_at_fork(after_in_child=_make_lock)


def _states():
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *devices]


@contextmanager
def borrowed_generators(seed=None):
    """Let the code inside draw from torch's generators, and put their states back afterwards.

    Parameters
    ----------
    seed : int or None, default=None
        Seed of the generator of the CPU inside; None leaves its state.

    Yields
    ------
    have_drawn : callable
        Tells whether anything has been drawn since.
    """
    with _generators_lock:
        before = _states()
        try:
            if seed is not None:
                torch.default_generator.manual_seed(seed)
            start = _states()

            def have_drawn():
                now = _states()
                return len(now) != len(start) or not all(map(torch.equal, start, now))

            yield have_drawn
        finally:
            torch.set_rng_state(before[0])
            for number, state in enumerate(before[1:]):
                torch.cuda.set_rng_state(state, number)
