"""What is global in a process, and may be changed by no metric."""

import random
import sys
import warnings
from contextlib import contextmanager

import numpy as np
from threadpoolctl import threadpool_info


def global_state():
    """Everything global that a metric could change by mistake."""
    numpy_state = np.random.get_state()  # noqa: NPY002 - that of the user
    state = {
        "NumPy's global random generator": (numpy_state[1].tobytes(), numpy_state[2:]),
        "Python's global random generator": random.getstate(),
        "the warning filters": list(warnings.filters),
        "NumPy's error state": np.geterr(),
        "the number of threads": [
            (pool["filepath"], pool["num_threads"]) for pool in threadpool_info()
        ],
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        state |= {
            "torch's global random generator": torch.random.get_rng_state().tolist(),
            "torch's settings": (
                torch.get_num_threads(),
                torch.is_grad_enabled(),
                torch.get_default_dtype(),
                torch.are_deterministic_algorithms_enabled(),
            ),
        }
    return state


@contextmanager
def unusual_global_state():
    """Bring what is global into a state that no metric would set, and restore it afterwards."""
    torch = sys.modules.get("torch")
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    torch_state = None if torch is None else torch.random.get_rng_state()
    try:
        np.random.set_state(np.random.RandomState(20201).get_state())  # noqa: NPY002
        random.setstate(random.Random(20201).getstate())
        if torch is not None:
            torch.random.set_rng_state(torch.Generator().manual_seed(20201).get_state())
        with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
            warnings.simplefilter("ignore")
            warnings.filterwarnings("ignore", message="this message has never been seen")
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
        if torch is not None:
            torch.random.set_rng_state(torch_state)
