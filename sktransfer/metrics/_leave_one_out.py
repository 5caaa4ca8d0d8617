"""Leave-one-out predictions of weighted ridge regression in closed form, and how right they are."""

import numpy as np
from scipy import linalg

from ._discriminant import weighted_mean

_EPS = np.finfo(np.float64).eps

# A part of the leverage outside the directions that is smaller is rounding.
_SMALLEST_OUTSIDE = 1e-12

# Predictions that differ by less, relative to what they are made of, are equal but for rounding.
_TIE = 1e-9

# Elements of a block of pairs (8 MiB).
_BLOCK_ELEMENTS = 2**20


class Probe:
    """Directions of the centred features and what the leverages need of them.

    With weights w that sum to n, the rows less their weighted mean are multiplied by the roots of
    the weights before they are decomposed; the leverage of a row is then w / n plus what its
    directions give, and its residual in the model of all others follows as without weights.

    Parameters
    ----------
    left : ndarray of shape (n_samples, r)
        Left singular vectors of the weighted centred rows. Changed in place by nobody.
    eigenvalues : ndarray of shape (r,)
        Squares of their singular values, in squared units, descending.
    unit : float
        Unit of the features.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive weights that sum to n_samples.
    """

    def __init__(self, left, eigenvalues, unit, sample_weight=None):
        n_samples = len(left)
        self.left, self.eigenvalues, self.unit = left, eigenvalues, unit
        self.rank = len(eigenvalues)
        self.weight = sample_weight
        self.left_square = np.square(self.left)
        # The share of a row in the mean of all.
        self.share = 1 / n_samples if sample_weight is None else sample_weight / n_samples
        self.outside = 1 - self.share - self.left_square.sum(axis=1)
        if self.rank >= n_samples - 1:
            self.outside[:] = 0.0
        self.outside[self.outside < _SMALLEST_OUTSIDE] = 0.0

    @classmethod
    def of_features(cls, X, spectrum, sample_weight=None):
        """Take the shared decomposition of weighted features.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The features.
        spectrum : CenteredSpectrum
            Their decomposition.
        sample_weight : ndarray of shape (n_samples,), default=None
            The weights of the decomposition.

        Returns
        -------
        probe : Probe
            The probe.
        """
        left = spectrum.coordinates(X, spectrum.directions(None))
        left /= np.sqrt(spectrum.eigenvalues)
        if sample_weight is not None:
            sample_weight = sample_weight * (len(X) / sample_weight.sum())
            left *= np.sqrt(sample_weight)[:, None]
        return cls(left, spectrum.eigenvalues, spectrum.unit, sample_weight)

    def reweighted(self, sample_weight):
        """Decompose the same rows with other weights.

        Parameters
        ----------
        sample_weight : ndarray of shape (n_samples,)
            Positive weights.

        Returns
        -------
        probe : Probe
            A probe of the same features, in the same unit.
        """
        n_samples = len(self.left)
        weight = sample_weight * (n_samples / sample_weight.sum())
        rows = self.left * np.sqrt(self.eigenvalues)
        if self.weight is not None:
            rows /= np.sqrt(self.weight)[:, None]
        rows -= weight @ rows / n_samples
        rows *= np.sqrt(weight)[:, None]
        wide = n_samples <= self.rank
        gram = rows @ rows.T if wide else rows.T @ rows
        eigenvalues, vectors = linalg.eigh(gram, check_finite=False)
        eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
        noise = 4 * _EPS * max(len(gram), 16) * eigenvalues.max(initial=0.0)
        rank = min(int(np.count_nonzero(eigenvalues > noise)), n_samples - 1)
        eigenvalues, vectors = eigenvalues[:rank], vectors[:, :rank]
        left = vectors if wide else rows @ vectors / np.sqrt(eigenvalues)
        return Probe(left, eigenvalues, self.unit, weight)

    def total(self, values, axis=0):
        """Weighted sums over the rows; with axis None over the columns too."""
        if self.weight is None:
            return values.sum(axis=axis)
        sums = self.weight @ values
        return sums if axis == 0 else sums.sum()

    def fit(self, columns):
        """Return the leave-one-out predictions of target columns, for any penalty.

        Parameters
        ----------
        columns : ndarray of shape (n_samples, n_outputs)
            Target columns.

        Returns
        -------
        fit : Fit
            The predictions.
        """
        return Fit(self, columns)


class Fit:
    """Leave-one-out residuals of some columns for any penalty.

    Both the residual and one minus the leverage are sums over the directions, with the share
    alpha / (s² + alpha) of each, plus what no direction reaches. Written like this, nothing cancels
    when the model can fit every sample.

    Parameters
    ----------
    probe : Probe
        The features.
    columns : ndarray of shape (n_samples, n_outputs)
        Target columns.
    """

    def __init__(self, probe, columns):
        self.probe = probe
        self.columns = columns
        if probe.weight is None:
            self.t = self._scaled = columns - columns.mean(axis=0)
        else:
            self.t = columns - probe.weight @ columns / len(columns)
            self._root = np.sqrt(probe.weight)[:, None]
            self._scaled = self._root * self.t
        self.loadings = probe.left.T @ self._scaled
        self.unreached = self._scaled - probe.left @ self.loadings
        self.unreached[probe.outside == 0.0] = 0.0

    def baseline(self, axis=0):
        """Sum of the squared errors of the mean of the others; with axis None over all columns.

        That mean differs from a row by 1 / (1 - its share in the mean of all) times the row's own
        deviation.
        """
        if self.probe.weight is None:
            n_samples = len(self.t)
            return np.square(self.t).sum(axis=axis) * (n_samples / (n_samples - 1)) ** 2
        return self.probe.total(np.square(self.t / (1 - self.probe.share)[:, None]), axis)

    def residual(self, penalty):
        """Return the residuals, and of each row the variance it gets from permuted columns.

        The variance holds for rows without weights.
        """
        probe = self.probe
        share = penalty / (probe.eigenvalues + penalty)
        remaining = self._remaining(share)
        numerator = probe.left @ (share[:, None] * self.loadings) + self.unreached
        if probe.weight is not None:
            numerator /= self._root
        variance = probe.left_square @ share**2 + probe.outside
        with np.errstate(over="ignore"):
            return numerator / remaining[:, None], variance / remaining / remaining

    def _remaining(self, share):
        """One minus the leverages."""
        remaining = self.probe.left_square @ share + self.probe.outside
        return np.maximum(remaining, np.finfo(float).tiny)

    def pair_order(self, penalty, output, rows, others):
        """Compare the predictions of two rows by the model of all but these two.

        With the hat matrix H = s sᵀ + G, where s sᵀ is the mean's part and G that of the features,
        the residuals of rows u that are left out together are (I - H_uu)⁻¹ r_u, and their
        predictions (I - H_uu)⁻¹ (f - H_uu t)_u. The former have the digits where the model can fit
        every sample; the latter, less what both rows have from the mean, for a large penalty.

        Parameters
        ----------
        penalty : float
            The penalty.
        output : int
            The target column.
        rows, others : ndarray of int
            Rows to be paired, each with each.

        Returns
        -------
        order : ndarray of shape (len(rows), len(others))
            1 where the prediction of the row is larger than that of the other, -1 where it is
            smaller, 0 where they are equal but for rounding.
        """
        probe = self.probe
        n_samples = len(probe.left)
        share = penalty / (probe.eigenvalues + penalty)
        kept = probe.eigenvalues / (probe.eigenvalues + penalty)
        root = np.ones(n_samples) if probe.weight is None else np.sqrt(probe.weight)
        t = self._scaled[:, output]
        fitted = probe.left @ (kept * self.loadings[:, output])
        residual = probe.left @ (share * self.loadings[:, output]) + self.unreached[:, output]
        inside, remaining = probe.left_square @ kept, self._remaining(share)

        # Of the pair (i, j): i down, j across. Residuals and I - H may be tiny together.
        i, j = rows[:, None], others[None, :]
        both = (probe.left[rows] * kept) @ probe.left[others].T
        if probe.rank >= n_samples - 1:
            cross = -(probe.left[rows] * share) @ probe.left[others].T
        else:
            cross = root[i] * root[j] / n_samples + both
        unit = remaining.max()
        residual, remaining, cross = residual / unit, remaining / unit, cross / unit
        determinant = remaining[i] * remaining[j] - cross**2
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            left_i = (remaining[j] * residual[i] + cross * residual[j]) / root[i] / determinant
            left_j = (cross * residual[i] + remaining[i] * residual[j]) / root[j] / determinant
            own = t[i] / root[i] - t[j] / root[j]
            difference = own - (left_i - left_j)
            size = np.abs(own) + np.abs(left_i) + np.abs(left_j)

            ratio = root[j] / root[i]
            shift = -(root[i] * t[i] + root[j] * t[j]) / n_samples
            parts = (
                (shift, inside[i] - inside[j] + both * (ratio - 1 / ratio)),
                (
                    fitted[i] - inside[i] * t[i] - both * t[j],
                    remaining[j] / root[i] - cross / root[j],
                ),
                (
                    fitted[j] - inside[j] * t[j] - both * t[i],
                    cross / root[i] - remaining[i] / root[j],
                ),
            )
            # What these are made of, whatever cancels.
            largest = np.abs(fitted).max() + np.abs(t).max() * inside.max()
            other_size = np.abs(shift) * (inside[i] + inside[j] + np.abs(both))
            other_size = other_size / unit + largest * (np.abs(parts[1][1]) + np.abs(parts[2][1]))
            scale = determinant * unit
            other_size = other_size / scale
            better = other_size < size
            total = parts[0][0] * parts[0][1] / unit
            total = total + parts[1][0] * parts[1][1] + parts[2][0] * parts[2][1]
            difference[better] = (total / scale)[better]
        return np.sign(difference) * (np.abs(difference) > _TIE * np.minimum(size, other_size))


def credits(fit, residual, codes):
    """Say of each row whether its class has the largest prediction; equal classes share the row.

    Parameters
    ----------
    fit : Fit
        The fit of the classes' columns.
    residual : ndarray of shape (n_samples, n_classes)
        Leave-one-out residuals.
    codes : ndarray of shape (n_samples,)
        Class of each row.

    Returns
    -------
    credits : ndarray of shape (n_samples,)
        In [0, 1].
    """
    predicted = fit.columns - residual
    largest = predicted.max(axis=1, keepdims=True)
    winning = predicted >= largest - _TIE * np.maximum(1.0, np.abs(largest))
    return winning[np.arange(len(codes)), codes] / winning.sum(axis=1)


def accuracy(fit, penalty, codes, balanced=False):
    """Leave-one-out accuracy.

    Parameters
    ----------
    fit : Fit
        The fit of the classes' columns.
    penalty : float
        The penalty.
    codes : ndarray of shape (n_samples,)
        Class of each row.
    balanced : bool, default=False
        Whether it is the mean of the accuracies of the classes.

    Returns
    -------
    accuracy : float
        Weighted with the weights of the probe.
    """
    credit, weight = credits(fit, fit.residual(penalty)[0], codes), fit.probe.weight
    if balanced:
        sizes = np.bincount(codes, weight)
        within = (np.ones(len(codes)) if weight is None else weight) / sizes[codes]
        return min(float(np.sort(within * credit).sum() / len(sizes)), 1.0)
    return min(weighted_mean(credit, weight), 1.0)


def balanced_accuracy(fit, penalty, codes):
    """Leave-one-out balanced accuracy; as :func:`accuracy`."""
    return accuracy(fit, penalty, codes, balanced=True)


def roc_auc_ovr(fit, penalty, codes):
    """Mean over the classes of the leave-pair-out area under the ROC curve of one against the rest.

    Every pair of a member and a sample of another class is ordered by the model of all the others,
    in which the two stand alike. A class of a single sample can't be learned from others: its area
    is 1/2.

    Parameters
    ----------
    fit : Fit
        The fit of the classes' columns.
    penalty : float
        The penalty.
    codes : ndarray of shape (n_samples,)
        Class of each row.

    Returns
    -------
    area : float
        In [0, 1]. Pairs weigh the product of the weights of the probe.
    """
    weight = np.ones(len(codes)) if fit.probe.weight is None else fit.probe.weight
    sizes = np.bincount(codes)
    areas = np.full(len(sizes), 0.5)
    for code in np.flatnonzero(sizes > 1):
        members, others = np.flatnonzero(codes == code), np.flatnonzero(codes != code)
        step = max(1, _BLOCK_ELEMENTS // len(others))
        won = np.concatenate(
            [
                fit.pair_order(penalty, code, members[start : start + step], others)
                @ weight[others]
                for start in range(0, len(members), step)
            ]
        )
        balance = (weight[members] @ won) / (weight[members].sum() * weight[others].sum())
        areas[code] = (1 + balance) / 2
    return float(np.clip(np.mean(np.sort(areas)), 0.0, 1.0))


MEASURES = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "roc_auc_ovr": roc_auc_ovr,
}
