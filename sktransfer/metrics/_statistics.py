"""Small statistics and the seeds of metrics, used by several of them."""

from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state


def entropy(shares):
    """Entropy in nats of a discrete distribution."""
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def drawn_seed(random_state):
    """Return the seed that a random state stands for, drawing one if it is not a number."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
