"""Tables of a reference ranking: ranks with ties, and candidates that transfer negatively."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from sktransfer.evaluation import competition_ranks
from sktransfer.evaluation._pairing import listed
from sktransfer.finetune._reference_ties import means_of

__all__ = [
    "NegativeTransferRow",
    "RankingRow",
    "ReferenceTable",
    "negative_transfer_table",
    "ranking_table",
]


class RankingRow(NamedTuple):
    """A candidate, or an architecture from scratch, in a ranking by one measure.

    Parameters
    ----------
    candidate : str
        Its name.
    rank : int or None
        Competition rank of the mean among candidates, 1 is best; None for rows from scratch.
    mean : float
        Mean over seeds; NaN (or with ``error_score``) if one has failed.
    sd : float
        Standard deviation over seeds; NaN for one seed, and if one has failed.
    tied_with_best : bool or None
        Whether it is within seed spread of the best candidate; None if that is not known.
    tie_group : int or None
        1 for candidates that are tied with the best, 2 for those that are tied with the best of
        the others, and so on; None if that is not known.
    gain : float or None
        Mean less that of the same architecture from scratch; NaN if one of the two has failed with
        some seed, None where there is no such row.
    gain_beyond_spread : bool or None
        Whether the gain is beyond seed spread, in either direction; None if that is not known.
    from_scratch : bool
        Whether its weights were random.
    """

    candidate: str
    rank: int | None
    mean: float
    sd: float
    tied_with_best: bool | None
    tie_group: int | None
    gain: float | None
    gain_beyond_spread: bool | None
    from_scratch: bool


class NegativeTransferRow(NamedTuple):
    """A candidate that is no better than its architecture from scratch.

    Parameters
    ----------
    candidate : str
        Its name.
    from_scratch : str
        Name of the row of the same architecture from scratch.
    difference : float
        Mean of the candidate less that of the row from scratch; zero or less.
    beyond_spread : bool or None
        Whether the difference is beyond seed spread; None for one seed.
    """

    candidate: str
    from_scratch: str
    difference: float
    beyond_spread: bool | None


class ReferenceTable(Sequence):
    """Rows that are named tuples, printed as a table.

    Parameters
    ----------
    kind : type
        Type of the rows.
    rows : list of kind
        The rows.
    title : str
        What is printed above.
    least_difference : float, default=nan
        Candidates whose means differ by no more than this are tied.
    """

    def __init__(self, kind, rows, title, least_difference=math.nan):
        self._kind = kind
        self._rows = tuple(rows)
        self.title = title
        self.least_difference = least_difference

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, key):
        if not isinstance(key, str):
            return self._rows[key]
        for row in self._rows:
            if row.candidate == key:
                return row
        raise KeyError(key)

    def to_frame(self):
        """Give the table as a data frame.

        Returns
        -------
        frame : pandas.DataFrame
            With the fields of the rows as columns.
        """
        return frame_of(self._kind, self._rows)

    def __repr__(self):
        names = self._kind._fields
        if "from_scratch" in names and self._kind is RankingRow:
            names = names[:-1]  # their names tell
        cells = [[_shown(name, getattr(row, name)) for name in names] for row in self._rows]
        heads = [_HEADS.get(name, name.replace("_", " ")) for name in names]
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        texts = {"candidate", "from_scratch"}
        lines = [
            "  ".join(
                text.ljust(width) if name in texts else text.rjust(width)
                for name, text, width in zip(names, line, widths, strict=True)
            ).rstrip()
            for line in [heads, *cells]
        ]
        return "\n".join([self.title, *(lines if self._rows else [])])


_HEADS = {
    "tied_with_best": "tied",
    "tie_group": "group",
    "gain_beyond_spread": "beyond spread",
    "from_scratch": "from scratch",
}
_SIGNED = {"gain", "difference"}
_FLAGS = {"tied_with_best", "gain_beyond_spread", "beyond_spread"}


def _shown(name, value):
    if name in _FLAGS:
        return {None: "?", True: "yes", False: "no"}[value]
    if value is None:
        return "-"
    if isinstance(value, float):
        return (
            "nan" if math.isnan(value) else f"{value:+.4f}" if name in _SIGNED else f"{value:.4f}"
        )
    # A line break in a name would break the table.
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))


def frame_of(kind, rows):
    """Make a data frame of named tuples.

    Parameters
    ----------
    kind : type
        Type of the rows.
    rows : sequence of kind
        The rows.

    Returns
    -------
    frame : pandas.DataFrame
        With their fields as columns.

    Raises
    ------
    ImportError
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("'to_frame' needs pandas; install it, or use the rows.") from None
    return pd.DataFrame([tuple(row) for row in rows], columns=list(kind._fields))


def _seeds(n_seeds):
    return "1 seed" if n_seeds == 1 else f"{n_seeds} seeds"


def ranking_table(values, failed, from_scratch, twins, measure, level):
    """Rank candidates by their means, and say which cannot be told apart.

    Parameters
    ----------
    values : dict of str to dict of int to float
        Values of the measure, by row and seed.
    failed : collection of str
        Rows of which some values have not been measured.
    from_scratch : dict of str to bool
        The kind of each row.
    twins : dict of str to str
        By candidate, the row of its architecture from scratch.
    measure : str
        Name of the measure.
    level : float
        Level of confidence of ties.

    Returns
    -------
    table : ReferenceTable of RankingRow
        Best first; rows without a mean are last.
    """
    means = means_of(values, failed, from_scratch, level)
    names = [name for name in values if not from_scratch[name]]
    order = competition_ranks([means.mean[name] for name in names]).tolist()
    ranks = dict(zip(names, order, strict=True))
    best = min((name for name in names if name not in means.failed), key=ranks.get, default=None)
    groups = means.groups(names)
    rows = []
    for name in values:
        gain = beyond = None
        if (twin := twins.get(name)) is not None:
            is_measured = means.failed.isdisjoint((name, twin))
            gain = means.mean[name] - means.mean[twin] if is_measured else math.nan
            tied = means.tied(name, twin)
            beyond = None if tied is None else not tied
        is_candidate = name in ranks
        rows.append(
            RankingRow(
                candidate=name,
                rank=ranks.get(name),
                mean=means.mean[name],
                sd=means.sd[name],
                tied_with_best=means.tied(name, best) if is_candidate and best else None,
                tie_group=groups.get(name),
                gain=gain,
                gain_beyond_spread=beyond,
                from_scratch=not is_candidate,
            )
        )
    rows.sort(key=lambda row: math.inf if math.isnan(row.mean) else -row.mean)
    limit = means.least_difference()
    if means.n_seeds == 1:
        note = "ties are not known from one seed"
    elif math.isnan(limit):
        note = "ties are not known, as no candidate has a value for every seed"
    else:
        note = f"candidates that differ by {limit:.2g} or less are tied"
    if means.failed:
        has = "has" if len(means.failed) == 1 else "have"
        note += f"; {listed(n for n in values if n in means.failed)} {has} failed with some seed"
    return ReferenceTable(RankingRow, rows, f"{measure}, {_seeds(means.n_seeds)}: {note}", limit)


def negative_transfer_table(values, failed, from_scratch, twins, measure, level):
    """Find candidates whose mean is no better than that of their architecture from scratch.

    Parameters
    ----------
    values : dict of str to dict of int to float
        Values of the measure, by row and seed.
    failed : collection of str
        Rows of which some values have not been measured.
    from_scratch : dict of str to bool
        The kind of each row.
    twins : dict of str to str
        By candidate, the row of its architecture from scratch.
    measure : str
        Name of the measure.
    level : float
        Level of confidence of ties.

    Returns
    -------
    table : ReferenceTable of NegativeTransferRow
        Worst first.
    """
    ranking = ranking_table(values, failed, from_scratch, twins, measure, level)
    rows = [
        NegativeTransferRow(row.candidate, twins[row.candidate], row.gain, row.gain_beyond_spread)
        for row in ranking
        if row.gain is not None and row.gain <= 0
    ]
    rows.sort(key=lambda row: row.difference)
    lost = [row.candidate for row in ranking if row.gain is not None and math.isnan(row.gain)]
    n_compared = sum(row.gain is not None for row in ranking) - len(lost)
    if n_compared:
        title = f"{len(rows)} of {n_compared} candidates are no better than from scratch"
    elif lost:
        title = "no candidate can be compared with its architecture from scratch"
    else:
        title = "no candidate has been trained from scratch too"
    if lost:
        title += f"; {listed(lost)} or the row from scratch failed with some seed"
    title = f"{measure}: {title}"
    return ReferenceTable(NegativeTransferRow, rows, title, ranking.least_difference)
