"""Which means over seeds can be told apart: one definition for all kinds of rows."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

__all__ = ["Means", "means_of"]


@dataclass(frozen=True)
class _Pool:
    """Seed variance, pooled over rows of one kind."""

    variance: float
    degrees: int


@dataclass(frozen=True)
class Means:
    """Means over seeds, and which of them differ by more than seeds do.

    Rows of one kind (candidates; architectures from scratch) have one seed variance: the mean of
    the variances of all of them. Two rows are tied if their means differ by no more than the
    quantile of Student's t times the standard error of the difference. For two candidates that is
    one least significant difference, the same for all pairs; between a candidate and a row from
    scratch, degrees of freedom are those of Welch and Satterthwaite.

    Parameters
    ----------
    mean, sd : dict of str to float
        By row. The standard deviation is NaN for one seed, and for rows that have failed.
    n_seeds : int
        Number of seeds.
    pools : dict of bool to _Pool
        Pooled variances, by whether rows are from scratch.
    from_scratch : dict of str to bool
        The kind of each row.
    level : float
        Level of confidence.
    failed : set of str
        Rows that lack a measured value for some seed. They are tied with nothing.
    """

    mean: dict
    sd: dict
    n_seeds: int
    pools: dict
    from_scratch: dict
    level: float
    failed: frozenset

    def least_difference(self, from_scratch=(False, False)):
        """Give the largest difference of two means at which they are tied.

        Parameters
        ----------
        from_scratch : (bool, bool), default=(False, False)
            The kinds of the two rows.

        Returns
        -------
        difference : float
            NaN for one seed, or where there is no row.
        """
        pools = [self.pools[kind] for kind in from_scratch]
        parts = [pool.variance / self.n_seeds for pool in pools]
        degrees = [pool.degrees for pool in pools]
        if 0 in degrees:
            return math.nan
        total = sum(parts)
        if total == 0.0:
            return 0.0
        if from_scratch[0] == from_scratch[1]:
            degrees = degrees[0]
        else:
            shares = [part / total for part in parts]
            degrees = 1 / sum(share**2 / d for share, d in zip(shares, degrees, strict=True))
        return float(student_t.ppf(0.5 + self.level / 2, degrees) * math.sqrt(total))

    def tied(self, first, second):
        """Tell whether two rows are tied.

        Parameters
        ----------
        first, second : str
            Names of rows.

        Returns
        -------
        tied : bool or None
            None if that is not known: for one seed, and for rows that have failed.
        """
        limit = self.least_difference((self.from_scratch[first], self.from_scratch[second]))
        if math.isnan(limit) or not self.failed.isdisjoint((first, second)):
            return None
        return bool(abs(self.mean[first] - self.mean[second]) <= limit)

    def groups(self, names):
        """Divide rows into groups: the best of those left leads, and who is tied with it joins.

        Parameters
        ----------
        names : list of str
            Rows of one kind.

        Returns
        -------
        groups : dict of str to int or None
            1 for the group of the best; None if ties are not known.
        """
        groups = dict.fromkeys(names)
        left = sorted(
            (name for name in names if self.tied(name, name) is not None),
            key=lambda name: -self.mean[name],
        )
        number = 0
        while left:
            number += 1
            members = [name for name in left if self.tied(left[0], name)]
            groups.update(dict.fromkeys(members, number))
            left = [name for name in left if name not in set(members)]
        return groups


def means_of(values, failed, from_scratch, level):
    """Compute means and spreads over seeds.

    Parameters
    ----------
    values : dict of str to dict of int to float
        By row and seed.
    failed : collection of str
        Rows of which some values have not been measured, but stand for a failure. So does NaN.
    from_scratch : dict of str to bool
        The kind of each row.
    level : float
        Level of confidence.

    Returns
    -------
    means : Means
        The means.
    """
    mean, sd, variances = {}, {}, {False: [], True: []}
    failed = frozenset(failed).union(
        n for n, v in values.items() if any(map(math.isnan, v.values()))
    )
    n_seeds = max(map(len, values.values()))
    for name, by_seed in values.items():
        numbers = list(by_seed.values())
        # Correctly rounded, so that equal values have equal means in whatever order.
        mean[name] = math.fsum(numbers) / n_seeds
        if n_seeds == 1 or name in failed:
            sd[name] = math.nan
            continue
        deviations = [(number - mean[name]) ** 2 for number in numbers]
        variance = math.fsum(deviations) / (n_seeds - 1)
        if numbers.count(numbers[0]) == n_seeds:
            variance = 0.0  # and not what rounding of the mean leaves
        sd[name] = math.sqrt(variance)
        variances[from_scratch[name]].append(variance)
    pools = {
        kind: _Pool(
            float(np.mean(sorted(found))) if found else math.nan, len(found) * (n_seeds - 1)
        )
        for kind, found in variances.items()
    }
    return Means(mean, sd, n_seeds, pools, from_scratch, level, failed)
