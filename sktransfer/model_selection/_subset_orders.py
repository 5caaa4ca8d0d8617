"""Orders of rows whose beginnings are miniatures of the whole: taking a longer one adds rows."""

import heapq

import numpy as np

__all__ = ["ClassOrders", "MixedOrders"]

# A share that is this close to a whole number is one: 0.1 * 30 is not 3 in binary numbers.
_ROUNDING = 1e-9
# Units of each kind that are looked at for the next place. More follow the shares more closely,
# fewer leave more to chance.
_LOOKED_AT = 32


class ClassOrders:
    """Orders of rows in whose beginnings every class is within one row of its share.

    A class of ``size`` rows may take its j-th row while its share is between j - 1 and j, which
    keeps it within one of its share. So may all classes together: the m-th row of all is taken
    while the sum of their shares is between m - 1 and m. Rows for which both times overlap always
    exist, since shares are such a plan in fractions of rows, and of these the one that has to be
    taken first is.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,), dtype intp
        Class of each row, 0 to n_classes - 1, none of them empty.
    rng : numpy.random.RandomState
        Draws who is first where classes have equal rights.
    floor : {0, 1}
        Rows of each class that are there from the start.
    """

    def __init__(self, codes, rng, *, floor):
        self.sizes = np.bincount(codes)
        self.floor = floor
        self.rows = np.argsort(codes, kind="stable")
        self.codes = codes[self.rows]
        starts = np.cumsum(self.sizes) - self.sizes
        self.places = np.arange(len(codes)) - starts[self.codes]  # of rows in their class
        self.turns = np.full(len(codes), -np.inf)
        later = np.flatnonzero(self.places >= floor)
        priority = rng.permutation(len(self.sizes))
        if len(later):
            self.turns[later] = self._find_turns(self.codes[later], self.places[later], priority)
        if not floor:
            # A beginning is never empty.
            self.turns[self.turns.argmin()] = -np.inf

    def draw(self, rng):
        """Draw which rows of a class come first.

        Parameters
        ----------
        rng : numpy.random.RandomState
            Draws them.

        Returns
        -------
        take : callable
            Gives the sorted numbers of the rows that a fraction, above 0 and at most 1, has.
        """
        drawn = rng.permutation(len(self.codes))
        drawn = drawn[np.argsort(self.codes[drawn], kind="stable")]
        # Rows stand sorted by class, so this stays within each class.
        rows = self.rows[drawn]

        def take(fraction):
            counts = self._counts(fraction)
            return np.sort(rows[self.places < counts[self.codes]])

        return take

    def _counts(self, fraction):
        shares = fraction * self.sizes
        whole = np.rint(shares)
        shares = np.where(np.abs(shares - whole) < _ROUNDING * whole, whole, shares)
        taken = self.turns <= np.maximum(shares - self.floor, 0).sum()
        # Rounding errors of the sums play no part in this.
        counts = np.bincount(self.codes[taken], minlength=len(self.sizes))
        return np.clip(counts, np.floor(shares), np.ceil(shares))

    def _find_turns(self, codes, places, priority):
        """Find for each row the sum of the shares at which it is taken."""
        sizes = self.sizes[codes]
        earliest, latest = self._all_shares(places, sizes), self._all_shares(places + 1, sizes)
        first, deadlines = earliest // sizes, (places + 1) / sizes
        waiting, ready = iter(np.argsort(first, kind="stable").tolist()), []
        first, deadlines, rights = first.tolist(), deadlines.tolist(), priority[codes].tolist()
        turns, upcoming = np.empty(len(codes)), next(waiting)
        for turn in range(len(codes)):
            while upcoming is not None and first[upcoming] <= turn:
                heapq.heappush(ready, (deadlines[upcoming], rights[upcoming], upcoming))
                upcoming = next(waiting, None)
            turns[heapq.heappop(ready)[-1]] = turn
        # As near to the rounding of the sum as the class allows.
        return np.clip(turns + 0.5, earliest / sizes, latest / sizes)

    def _all_shares(self, numerators, sizes):
        """Sum the shares of all classes, less the floor, at fractions; times the denominators."""
        ascending = np.sort(self.sizes)
        from_here = np.concatenate([np.cumsum(ascending[::-1])[::-1], [0]])
        # Classes whose share at this fraction is above the floor.
        above = np.searchsorted(ascending, self.floor * sizes // np.maximum(numerators, 1), "right")
        return numerators * from_here[above] - self.floor * sizes * (len(ascending) - above)


class MixedOrders:
    """Orders of units that hold several things at once, in which all keep to their shares.

    A unit is a group of rows of several classes, or a row with several labels. The next one is
    that whose time has come first: the fraction from which the weighted sum of squared differences
    from the shares is smaller with the unit than without it,

        sum_c w_c g_c (k_c + g_c / 2) / sum_c w_c g_c n_c

    with n_c things of kind c in all, k_c taken so far and g_c in the unit. The weights are
    1 / sqrt(n_c), between equal rows and equal percentages.

    Parameters
    ----------
    counts : ndarray of shape (n_units, n_kinds), dtype float64
        How many of each kind a unit holds, none of which is empty. The last column is its rows.
    limit : float or None
        If a number, units are taken from the start so that there is one of each kind, unless they
        would hold more than this of another kind.
    until : float
        The largest fraction that will be taken.
    """

    def __init__(self, counts, *, limit, until):
        self.counts = counts
        self.limit, self.until = limit, until
        self.totals = counts.sum(axis=0)
        weights = np.zeros(len(self.totals))
        np.divide(1, np.sqrt(self.totals), out=weights, where=self.totals > 0)
        self.weighted = counts * weights
        self.ends = self.weighted @ self.totals
        self.halves = (self.weighted * counts).sum(axis=1) / 2
        # Those with the rarest kind in common wait in one queue, so that none is out of sight.
        self.queues = np.where(counts > 0, self.totals, np.inf).argmin(axis=1)

    def draw(self, rng):
        """Draw an order.

        Parameters
        ----------
        rng : numpy.random.RandomState
            Draws it.

        Returns
        -------
        take : callable
            Gives the numbers of the units that a fraction, above 0 and at most 1, has.
        """
        drawn = rng.permutation(len(self.counts))
        first = [] if self.limit is None else self._cover(drawn)
        later, turns = self._follow(first, drawn[~np.isin(drawn, first)])
        units = np.array(first + later, dtype=np.intp)
        turns = np.array([-np.inf] * len(first) + turns)
        turns[0] = -np.inf  # a beginning is never empty

        def take(fraction):
            if fraction == 1:
                return np.arange(len(self.counts))
            return units[: np.searchsorted(turns, fraction, side="right")]

        return take

    def _cover(self, drawn):
        """Choose units that together hold one of each kind, the rarest kind first."""
        chosen, held = [], np.zeros(len(self.totals) - 1)
        kinds = self.counts[:, :-1]
        for kind in np.argsort(self.totals[:-1], kind="stable"):
            if held[kind] or not self.totals[kind]:
                continue
            able = drawn[kinds[drawn, kind] > 0]
            able = able[(held + kinds[able] <= self.limit).all(axis=1)]
            if len(able):
                chosen.append(int(able[0]))
                held += kinds[able[0]]
        return chosen

    def _follow(self, first, rest):
        """Order the other units, as far as they are needed, and give their turns."""
        queues = [rest[self.queues[rest] == kind] for kind in np.unique(self.queues[rest])]
        seen = np.concatenate([queue[:_LOOKED_AT] for queue in queues] or [rest])
        origins = np.repeat(np.arange(len(queues)), [len(queue[:_LOOKED_AT]) for queue in queues])
        queues = [iter(queue[_LOOKED_AT:].tolist()) for queue in queues]
        weighted, ends, halves = self.weighted[seen], self.ends[seen], self.halves[seen]
        held = self.counts[first].sum(axis=0)
        units, turns, turn = [], [], 0.0
        for _ in range(len(rest)):
            # Rounded, so that the last bits of a sum don't decide among equals.
            times = np.round((weighted @ held + halves) / ends, 9)
            next_one = int(times.argmin())
            turn = max(turn, float(times[next_one]))
            if turn > self.until and (first or units):
                break
            unit = int(seen[next_one])
            units.append(unit)
            turns.append(turn)
            held += self.counts[unit]
            follower = next(queues[origins[next_one]], None)
            if follower is None:
                halves[next_one] = np.inf  # never again
            else:
                seen[next_one], weighted[next_one] = follower, self.weighted[follower]
                ends[next_one], halves[next_one] = self.ends[follower], self.halves[follower]
        return units, turns
