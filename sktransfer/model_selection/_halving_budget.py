"""The budget of a race, in the unit of fine-tuning every candidate once, and what it suffices for.

A row that is trained on costs the weight of its candidate, and one that is only passed through a
third of it: forward, and backward to activations and to weights, are about as long each.
"""

import math

__all__ = ["Budget"]

_FORWARD = 1 / 3
#: Steps of a first round, below which a network shows nothing of what it can become.
_FEWEST_STEPS = 16


class Budget:
    """Counts what a race costs.

    Parameters
    ----------
    share : float
        The budget, as a share of fine-tuning every candidate once.
    weights : dict of int to float
        Cost of a row, by candidate.
    n_samples : int
        Rows of the target that are fine-tuned on.
    n_epochs : int
        Epochs of the template.
    parts : list of (int, int)
        Numbers of rows to train on and to judge by.
    batch_size : int
        Rows per step.
    passes_count : bool
        Whether passes that train nothing cost anything. Where the head alone is trained, features
        are computed once in any case, and all that is counted are epochs of the head.
    n_scored : int, default=None
        Rows of which the metrics take features; None for as many.

    Attributes
    ----------
    share : float
        As given.
    whole : float
        Cost of fine-tuning every candidate once.
    spent : float
        What was spent, in the same unit.
    """

    def __init__(
        self,
        share,
        weights,
        n_samples,
        n_epochs,
        parts,
        batch_size,
        passes_count,
        n_scored=None,
    ):
        self.weights = weights
        self.n_epochs = n_epochs
        self.whole = sum(weights.values()) * n_samples * n_epochs
        self.share = share
        self.allowed = share * self.whole
        self._forward = _FORWARD if passes_count else 0.0
        self._n_scored = n_samples if n_scored is None else n_scored
        self.spent = sum(map(self.cost_of_metrics, weights))
        self._n_train = sum(train for train, _ in parts)
        self._n_judge = sum(judge for _, judge in parts)
        steps = min((math.ceil(train / batch_size) for train, _ in parts), default=1)
        self.fewest_epochs = min(n_epochs, max(1, math.ceil(_FEWEST_STEPS / max(1, steps))))

    @property
    def share_spent(self):
        """What was spent, as a share of fine-tuning every candidate once."""
        spent = self.spent / self.whole
        # Rounding is no overspending, see `epochs`.
        return self.share if self.share < spent <= self.share * (1 + 1e-9) else spent

    def cost_of_metrics(self, candidate):
        """Give the cost of the features that the metrics are computed from.

        Parameters
        ----------
        candidate : int
            Which.

        Returns
        -------
        cost : float
            One pass over all rows.
        """
        return self.weights[candidate] * self._n_scored * self._forward

    def cost(self, candidate, n_epochs):
        """Give the cost of a round of one candidate.

        Parameters
        ----------
        candidate : int
            Which.
        n_epochs : int
            Epochs of the round.

        Returns
        -------
        cost : float
            Training and judging, on all parts.
        """
        return self.weights[candidate] * (n_epochs * self._n_train + self._forward * self._n_judge)

    def epochs(self, candidates, n_rounds, n_done):
        """Say how many epochs the next round may have.

        Parameters
        ----------
        candidates : list of int
            Who takes part.
        n_rounds : int
            Rounds that are to come, which share what is left.
        n_done : int
            Epochs that they have had.

        Returns
        -------
        n_epochs : int
            None may have more in all than the template has; zero if there is nothing left.
        """
        weight = sum(self.weights[c] for c in candidates)
        left = (self.allowed - self.spent) / max(1, n_rounds)
        left -= weight * self._forward * self._n_judge
        if self._n_train == 0 or left <= 0:
            return 0
        # Rounding must not cost an epoch that is paid for to the last digit.
        n_epochs = math.floor(left / (weight * self._n_train) * (1 + 1e-12))
        return max(0, min(n_epochs, self.n_epochs - n_done))

    def least(self, candidates):
        """Say from which budget on two candidates are trained and judged.

        Parameters
        ----------
        candidates : list of int
            Who would start.

        Returns
        -------
        share : float
            As a share of fine-tuning every candidate once.
        """
        first_round = sum(self.cost(c, self.fewest_epochs) for c in candidates[:2])
        return (self.spent + first_round) / self.whole

    def affordable(self, candidates, factor):
        """Say how many may start, so that each can show something in the first round.

        Parameters
        ----------
        candidates : list of int
            Who would start, in the order of the metric.
        factor : float
            By what number of candidates is divided after a round.

        Returns
        -------
        n_start : int
            How many of the first of them; zero if the budget is too small for two.
        n_rounds : int
            How many rounds it takes until two are left and have been compared.
        """
        for n_start in range(len(candidates), 1, -1):
            n_rounds = rounds_until_two(n_start, factor)
            if self.epochs(candidates[:n_start], n_rounds, 0) >= self.fewest_epochs:
                return n_start, n_rounds
        return 0, 0


def rounds_until_two(n_candidates, factor):
    """Count rounds, the last one with two candidates.

    Parameters
    ----------
    n_candidates : int
        Two at least.
    factor : float
        By what their number is divided after a round.

    Returns
    -------
    n_rounds : int
        One at least.
    """
    n_rounds = 1
    while n_candidates > 2:
        n_candidates = next_number(n_candidates, factor)
        n_rounds += 1
    return n_rounds


def next_number(n_candidates, factor):
    """Say how many go on after a round.

    Parameters
    ----------
    n_candidates : int
        How many took part.
    factor : float
        By what their number is divided.

    Returns
    -------
    n_kept : int
        Two at least, and fewer than before if there were more than two.
    """
    return max(2, min(n_candidates - 1, math.ceil(n_candidates / factor)))
