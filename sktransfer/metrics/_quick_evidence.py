"""The largest evidence of many problems that are alike, without a certificate.

For one score the search of :mod:`._evidence` proves that no other precisions are better. Hundreds
of resamples of the same data don't need the proof each: the profiled evidence is looked at on a
grid as fine as its slowest change, every fall of its slope through zero is followed to the top, and
the highest is taken. What could be missed is a second top between neighbouring points of the grid.
"""

import numpy as np

from ._profiled_evidence import ProfiledEvidence

_STEP = 1.0
_MOST_ROUNDS = 64
# In log(tau). The evidence is flat at the top unless the bound of the noise makes an edge there.
_PRECISION = 1e-8
_FLAT = 1e-13
# How close to an edge its sides are looked at.
_BESIDE = 1e-9


def quick_score(metric, moments):
    """Score by LogME, and find nothing else.

    Parameters
    ----------
    metric : LogME
        The metric.
    moments : FeatureMoments
        Moments with the weights of the metric's classes.

    Returns
    -------
    score : float
        What ``metric.fit_moments(moments).score_`` is; NaN if no output has evidence.
    """
    evidence = quick_evidence(moments.spectrum, noise_floor=metric.noise_floor)
    defined = np.isfinite(evidence)
    return float(evidence[defined].mean()) if defined.any() else float("nan")


def quick_evidence(spectrum, *, noise_floor):
    """Find the maximum of the evidence over both precisions, for all outputs at once.

    Parameters
    ----------
    spectrum : CenteredSpectrum
        The decomposed features and targets.
    noise_floor : float
        Lower bound of the noise variance relative to the mean square of each output.

    Returns
    -------
    evidence : ndarray of shape (n_outputs,)
        Log evidence per sample of each output; NaN for an output that is zero throughout.
    """
    evidence = ProfiledEvidence(spectrum, noise_floor)
    best = np.full(len(evidence.square), np.nan)
    outputs = np.flatnonzero(evidence.square > 0)
    if len(outputs):
        best[outputs] = evidence.pure_noise(outputs)
        if evidence.n_directions:
            _climb(evidence, outputs, best)
    return best - np.log(spectrum.target_unit)


def _climb(evidence, outputs, best):
    low, high = evidence.range()
    grid = np.linspace(low, high, int(np.ceil((high - low) / _STEP)) + 1)
    value, slope, *_ = evidence.on_grid(grid, outputs)
    best[outputs] = np.maximum(best[outputs], value.max(axis=1))
    of, at = np.nonzero((slope[:, :-1] > 0) & (slope[:, 1:] <= 0))
    if not len(of):
        return
    # A top can't be higher than where the tangents at both ends meet.
    left, right, rise, fall = grid[at], grid[at + 1], slope[of, at], slope[of, at + 1]
    meet = (value[of, at + 1] - value[of, at] + rise * left - fall * right) / (rise - fall)
    roof = value[of, at] + rise * (np.clip(meet, left, right) - left)
    # For the evidence, which need not be concave in between, twice as much is left.
    chord = np.maximum(value[of, at], value[of, at + 1])
    kept = chord + 2 * np.maximum(roof - chord, 0) >= best[outputs[of]]
    of, left, right, rise, fall = (part[kept] for part in (of, left, right, rise, fall))
    _climb_edges(evidence, outputs[of], left, right, rise, fall, best)
    u = _zero(lambda u: evidence.slope(u, outputs[of]), left, right, rise, fall)
    np.maximum.at(best, outputs[of], evidence(u, outputs[of])[0])


def _climb_edges(evidence, output, left, right, rise, fall, best):
    """Visit the edges where the noise variance leaves its lower bound, which may be tops.

    The slope jumps there; intervals are cut to the side that holds the top, in place.
    """

    def above_floor(u, output):
        return np.log(evidence.solve(u, output)["energy"] / evidence.floor[output])

    at_left, at_right = above_floor(left, output), above_floor(right, output)
    edged = np.flatnonzero((at_left < 0) & (at_right > 0))
    if not len(edged):
        return
    which = output[edged]
    u = _zero(
        lambda u: -above_floor(u, which),
        left[edged],
        right[edged],
        -at_left[edged],
        -at_right[edged],
    )
    np.maximum.at(best, which, evidence(u, which)[0])
    for side in (-_BESIDE, _BESIDE):
        beside = u + side
        slope = evidence.slope(beside, which)
        inside = (left[edged] < beside) & (beside < right[edged])
        to_right = edged[inside & (slope > 0)]
        left[to_right], rise[to_right] = beside[inside & (slope > 0)], slope[inside & (slope > 0)]
        to_left = edged[inside & (slope <= 0)]
        right[to_left], fall[to_left] = beside[inside & (slope <= 0)], slope[inside & (slope <= 0)]


def _zero(function, left, right, at_left, at_right):
    """Find where functions of one variable fall through zero, by the Illinois method."""
    left, right, at_left, at_right = (part.copy() for part in (left, right, at_left, at_right))
    u = right
    for _ in range(_MOST_ROUNDS):
        if (right - left <= _PRECISION).all():
            break
        last, u = u, left + (right - left) * at_left / (at_left - at_right)
        at_u = function(u)
        if ((np.abs(u - last) <= _PRECISION) | (np.abs(at_u) <= _FLAT)).all():
            break
        above = at_u > 0
        # Halving what stands still keeps the other end from standing still for ever.
        at_right = np.where(above, np.where(last < u, at_right / 2, at_right), at_u)
        at_left = np.where(above, at_u, np.where(last > u, at_left / 2, at_left))
        left, right = np.where(above, u, left), np.where(above, right, u)
    return u
