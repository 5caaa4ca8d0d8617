"""What a metric on moments makes of a target without any relation to the features.

Moments hold no rows whose labels could be permuted. But a target that has nothing to do with the
features is one whose centred columns point anywhere in the n_samples - 1 dimensions of centred
columns, and its loadings on the directions of the features can be drawn without the rows. That
differs from permutations only where both the leverages of the samples and the target are far from
even (heavy tails and very small classes).
"""

from dataclasses import replace

import numpy as np
from scipy import linalg


def rotated_spectra(spectrum, labels, seed, n_draws):
    """Yield decompositions with the loadings of targets turned at random.

    Parameters
    ----------
    spectrum : CenteredSpectrum
        The decomposition.
    labels : bool
        Whether the target columns are those of class labels.
    seed : int
        Seed.
    n_draws : int
        How many.

    Yields
    ------
    spectrum : CenteredSpectrum
        The same with other `loadings` and `target_residual`. None if there are more outputs than
        dimensions to turn them in.
    """
    rng = np.random.default_rng(seed)
    total, n_samples = spectrum.target_sum, spectrum.n_samples
    centred = np.maximum(spectrum.target_square - total**2 / n_samples, 0.0)
    order = np.arange(len(total))
    if labels:
        # By size, so that the names of the classes do not matter.
        order = np.argsort(total, kind="stable")
        products = np.diag(total[order]) - np.outer(total[order], total[order]) / n_samples
    else:
        products = _products(spectrum.loadings, centred)
    # The symmetric root, which rounding does not turn.
    values, vectors = linalg.eigh(products)
    values[values < 1e-12 * values[-1]] = 0.0
    root = (vectors * np.sqrt(values)) @ vectors.T
    if len(root) > n_samples - 1:
        return
    # A direction may point either way; the mean tells which way it does.
    sign = np.where(spectrum.mean_coordinates < 0, -1.0, 1.0)[:, None]
    for _ in range(n_draws):
        frame = sign * _random_rows(spectrum.rank, n_samples - 1, len(root), rng)
        loadings = np.empty((len(frame), len(root)))
        loadings[:, order] = frame @ root
        reached = np.einsum("rc,rc->c", loadings, loadings)
        yield replace(
            spectrum, loadings=loadings, target_residual=np.maximum(centred - reached, 0.0)
        )


def side_by_side(spectra):
    """Gather the outputs of several decompositions of the same features in one.

    Parameters
    ----------
    spectra : list of CenteredSpectrum
        Decompositions that differ in what they say of the target.

    Returns
    -------
    spectrum : CenteredSpectrum
        One with all their outputs in turn.
    """
    of_outputs = ("loadings", "target_residual", "target_sum", "target_square", "target_unit")
    return replace(
        spectra[0],
        **{
            name: np.concatenate([getattr(spectrum, name) for spectrum in spectra], axis=-1)
            for name in of_outputs
        },
    )


def _products(loadings, centred):
    """Products of centred target columns, of which only the squares are known.

    The correlations of the loadings stand in for those of the columns.
    """
    products = loadings.T @ loadings
    size = np.sqrt(np.diagonal(products))
    scale = np.sqrt(centred) / np.where(size > 0, size, 1.0)
    products = products * scale * scale[:, None]
    np.fill_diagonal(products, centred)
    return products


def _random_rows(n_rows, dimension, n_columns, rng):
    """Draw the first rows of a random orthonormal matrix of some columns."""
    rows = rng.normal(size=(n_rows, n_columns))
    rest = dimension - n_rows
    below = rng.normal(size=(min(rest, n_columns), n_columns))
    if rest >= n_columns:
        # The triangular factor of so many more rows of normal numbers.
        below = np.triu(below, 1)
        below[np.diag_indices(n_columns)] = np.sqrt(rng.chisquare(rest - np.arange(n_columns)))
    triangle = np.linalg.qr(np.vstack([rows, below]), mode="r")
    return linalg.solve_triangular(triangle, rows.T, trans="T").T
