"""The global maximum of the evidence of a Bayesian linear model, in one dimension.

The model is t = F w + noise with w ~ N(0, I / alpha) and noise ~ N(0, I / beta). For a fixed ratio
tau = alpha / beta the best beta is known in closed form, so the evidence is a function of
u = log(tau) alone. It may have several local maxima and may rise towards either end of the range.

Why the maximum found here is the global one. Per sample, and with s the eigenvalues of the raw
scatter matrix F'F, the derivative of the profiled evidence is (gamma / n - g) / 2, where
gamma = sum s / (s + tau) is the effective number of parameters and g = tau |m|^2 / E lies in [0, 1]
(E is the penalised residual, m the posterior mean). Both are averages of logistic functions of u:
-gamma' <= gamma (1 - gamma / R) for R nonzero eigenvalues, |g'| <= g (1 - g), and each of gamma,
R - gamma, g, 1 - g changes at most by a factor e^h over a distance h. The second derivative is
hence bounded from below on any interval by values at its ends, and with it the function from
above, by its chord plus a bump of height (bound) h^2 / 8. Intervals whose upper bound does not
exceed the best value found by more than the tolerance are discarded, the others are halved.
"""

from dataclasses import dataclass

import numpy as np

from ._profiled_evidence import ProfiledEvidence

# Width of the first intervals in u = log(tau).
_FIRST_STEP = 1.0

# Precisions to about ten digits; the evidence is flat there and exact.
_PRECISION = 1e-11
# A derivative that is all rounding.
_FLAT = 1e-15
_MOST_ROUNDS = 64


@dataclass(frozen=True)
class EvidenceMaximum:
    """Where the evidence of each output is largest.

    Parameters
    ----------
    evidence : ndarray of shape (n_outputs,)
        Log evidence per sample in nats at the maximum; NaN for an output that is all zero.
    alpha, beta : ndarray of shape (n_outputs,)
        Precisions of weights and noise, in units of the original features and targets. `alpha` is
        infinite where no direction of the features is worth its cost.
    gamma : ndarray of shape (n_outputs,)
        Effective number of parameters.
    at_noise_floor : ndarray of shape (n_outputs,), dtype bool
        Whether the noise variance is at its lower bound.
    floor_share : ndarray of shape (n_outputs,)
        Share of the samples' directions whose variance is the lower bound itself: half of it is
        what the evidence gains when the bound is divided by e. 0 where it does not bind, and near 0
        where the evidence has a finite limit anyway (full row rank).
    along : ndarray of shape (r, n_outputs)
        Posterior mean along the centred directions.
    mean_factor : ndarray of shape (n_outputs,)
        Posterior mean along the part of the feature mean outside these directions.
    n_iter : int
        Rounds of halving until the tolerance was certified.
    """

    evidence: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    gamma: np.ndarray
    at_noise_floor: np.ndarray
    floor_share: np.ndarray
    along: np.ndarray
    mean_factor: np.ndarray
    n_iter: int


def _bump(evidence, width, left, right):
    """Height that the evidence can rise above its chord on intervals of a given width."""
    n, total = evidence.n, evidence.n_directions
    growth = np.exp(width)

    def bound(name, most):
        low = np.minimum(left[name], right[name]) * growth
        high = np.minimum(most - left[name], most - right[name]) * growth
        return np.clip(np.minimum(low, high), 0.0, most / 4), np.clip(low, 0.0, most)

    gamma_bound, _ = bound("gamma", total)
    g_bound, g_growth = bound("g", 1.0)
    # With the noise variance held at its bound the curvature of E itself counts.
    fall = np.where(left["floored"] | right["floored"], g_growth, g_bound)
    return 0.5 * (gamma_bound / n + fall) * width**2 / 8


def maximize_evidence(spectrum, *, tol, noise_floor):
    """Find the global maximum of the evidence over both precisions, for all outputs at once.

    Parameters
    ----------
    spectrum : CenteredSpectrum
        The decomposed features and targets.
    tol : float
        Certified bound, in nats per sample, of what a better maximum elsewhere could add.
    noise_floor : float
        Lower bound of the noise variance relative to the mean square of each output.

    Returns
    -------
    maximum : EvidenceMaximum
        Precisions, evidence and posterior mean of each output.
    """
    evidence = ProfiledEvidence(spectrum, noise_floor)
    return _describe(evidence, spectrum, *_maximize(evidence, tol))


def largest_evidence(spectrum, *, tol, noise_floor):
    """Find what :func:`maximize_evidence` does, and return nothing but the evidence.

    Parameters
    ----------
    spectrum : CenteredSpectrum
        The decomposed features and targets.
    tol : float
        Certified bound, in nats per sample, of what a better maximum elsewhere could add.
    noise_floor : float
        Lower bound of the noise variance relative to the mean square of each output.

    Returns
    -------
    evidence : ndarray of shape (n_outputs,)
        Log evidence per sample of each output.
    """
    best, _, _ = _maximize(ProfiledEvidence(spectrum, noise_floor), tol)
    return best - np.log(spectrum.target_unit)


def _maximize(evidence, tol):
    """Return the largest values, where they are, and the rounds that certified them."""
    usable = np.flatnonzero(evidence.square > 0)
    best_u = np.full(len(evidence.square), np.inf)
    best = np.full(len(evidence.square), np.nan)
    best[usable] = evidence.pure_noise(usable)
    n_iter = 0
    if evidence.n_directions and len(usable):
        n_iter = _search(evidence, usable, best, best_u, tol)
        _polish(evidence, best, best_u, n_iter)
        # A gain of rounding size over pure noise is none: such a maximum lies at infinity.
        noise = evidence.pure_noise(usable)
        idle = usable[best[usable] <= noise + 1e-12 * np.maximum(1.0, np.abs(noise))]
        best[idle], best_u[idle] = evidence.pure_noise(idle), np.inf
    return best, best_u, n_iter


def _search(evidence, outputs, best, best_u, tol):
    """Branch and bound; updates ``best`` and ``best_u`` and returns the number of rounds."""
    low, high = evidence.range()
    grid = np.linspace(low, high, int(np.ceil((high - low) / _FIRST_STEP)) + 1)
    output = np.repeat(outputs, len(grid))
    names = ("value", "slope", "gamma", "g", "floored")
    ends = dict(zip(names, evidence.on_grid(grid, outputs), strict=True))
    ends["u"] = np.broadcast_to(grid, (len(outputs), len(grid)))
    _improve(best, best_u, output, ends["u"].ravel(), ends["value"].ravel())
    output = np.repeat(outputs, len(grid) - 1)
    left = {name: part[:, :-1].ravel() for name, part in ends.items()}
    right = {name: part[:, 1:].ravel() for name, part in ends.items()}
    n_iter = 0
    while True:
        width = right["u"] - left["u"]
        height = np.maximum(left["value"], right["value"]) + _bump(evidence, width, left, right)
        active = height > best[output] + tol
        if not active.any():
            return n_iter
        n_iter += 1
        output = output[active]
        left = {name: part[active] for name, part in left.items()}
        right = {name: part[active] for name, part in right.items()}
        u = 0.5 * (left["u"] + right["u"])
        middle = dict(zip(names, evidence(u, output), strict=True)) | {"u": u}
        _improve(best, best_u, output, u, middle["value"])
        output = np.concatenate([output, output])
        left, right = (
            {name: np.concatenate([left[name], middle[name]]) for name in left},
            {name: np.concatenate([middle[name], right[name]]) for name in right},
        )


def _improve(best, best_u, output, u, value):
    order = np.lexsort((u, -value, output))
    first = order[np.r_[True, np.diff(output[order]) > 0]]
    better = value[first] > best[output[first]]
    best[output[first[better]]] = value[first[better]]
    best_u[output[first[better]]] = u[first[better]]


def _polish(evidence, best, best_u, n_iter):
    """Find the zero of the derivative around each best point: the precisions are exact too."""
    output = np.flatnonzero(np.isfinite(best_u))
    if not len(output):
        return
    centre = best_u[output]
    # As far as to the neighbours that were evaluated in the last round, or further.
    for step in _FIRST_STEP * 2.0 ** np.arange(-n_iter, 1, 2):
        ends = np.stack([centre - step, centre + step])
        slopes = evidence.slope(ends.ravel(), np.tile(output, 2)).reshape(2, -1)
        bracketed = (slopes[0] > 0) & (slopes[1] < 0)
        if bracketed.all():
            break
    output = output[bracketed]
    if not len(output):
        return
    u = _falling_zero(
        lambda u: evidence.slope(u, output), *ends[:, bracketed], *slopes[:, bracketed]
    )
    value = evidence(u, output)[0]
    kept = value >= best[output] - 1e-12
    best_u[output[kept]] = u[kept]
    best[output[kept]] = np.maximum(value[kept], best[output[kept]])


def _falling_zero(function, left, right, at_left, at_right):
    """Find where functions of one variable each fall through zero, by Ridders' method.

    Each round at least halves the intervals; near the zero the number of digits doubles. A point
    that hardly moved is believed when there is a change of sign right beside it.
    """

    def narrow(point, value):
        nonlocal left, right, at_left, at_right
        above = (value > 0) & (point > left)
        left, at_left = np.where(above, point, left), np.where(above, value, at_left)
        below = (value <= 0) & (point < right)
        right, at_right = np.where(below, point, right), np.where(below, value, at_right)

    last = np.full(len(left), np.inf)
    for _ in range(_MOST_ROUNDS):
        middle = 0.5 * (left + right)
        at_middle = function(middle)
        root = np.sqrt(at_middle**2 - at_left * at_right)
        part = np.divide(at_middle, root, out=np.zeros(len(root)), where=root > 0)
        u = np.clip(middle + (middle - left) * part, left, right)
        at_u = function(u)
        narrow(middle, at_middle)
        narrow(u, at_u)
        if (np.abs(u - last) <= _PRECISION).any():
            beside = np.clip(u + np.copysign(_PRECISION, at_u), left, right)
            narrow(beside, function(beside))
        if ((right - left <= 2 * _PRECISION) | (np.abs(at_u) <= _FLAT)).all():
            break
        last = u
    return u


def _describe(evidence, spectrum, best, best_u, n_iter):
    """Express the maximum in units of the original features and targets."""
    n, n_outputs = evidence.n, len(best)
    defined = np.isfinite(best)
    alpha = np.where(defined, np.inf, np.nan)
    beta = np.full(n_outputs, np.nan)
    beta[defined] = n / evidence.square[defined]
    log_alpha = np.full(n_outputs, np.inf)
    gamma = np.where(defined, 0.0, np.nan)
    at_floor = np.zeros(n_outputs, dtype=bool)
    floor_share = np.zeros(n_outputs)
    along = np.zeros((spectrum.rank, n_outputs))
    mean_factor = np.zeros(n_outputs)
    outputs = np.flatnonzero(np.isfinite(best_u))
    if len(outputs):
        solved = evidence.solve(best_u[outputs], outputs)
        beta[outputs] = n / np.maximum(solved["energy"], evidence.floor[outputs])
        log_alpha[outputs] = best_u[outputs] + np.log(beta[outputs])
        gamma[outputs] = solved["gamma"]
        at_floor[outputs] = solved["floored"]
        residual = solved["energy"] - np.exp(best_u[outputs]) * solved["norm"]
        share = 1 - (solved["gamma"] + beta[outputs] * residual) / n
        floor_share[outputs] = np.where(solved["floored"], np.maximum(share, 0.0), 0.0)
        along[:, outputs] = solved["along"].T
        mean_factor[outputs] = solved["mean_factor"]
    # From units to the original features and targets; what leaves the float range becomes 0 or inf.
    log_unit = np.log(evidence.target_unit)
    with np.errstate(over="ignore", under="ignore"):
        finite = np.isfinite(log_alpha)
        alpha[finite] = np.exp(log_alpha + 2 * (np.log(spectrum.unit) - log_unit))[finite]
        beta = np.exp(np.log(beta) - 2 * log_unit)
    best = best - log_unit
    return EvidenceMaximum(
        best, alpha, beta, gamma, at_floor, floor_share, along, mean_factor, n_iter
    )
