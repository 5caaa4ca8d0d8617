"""Neighbourhood components analysis, with matrices that are made once."""

import numpy as np
from scipy.optimize import minimize
from sklearn.decomposition import PCA

# Rows that are worked on at a time: few enough to stay in a processor's cache.
_BLOCK = 128
_TOLERANCE = 1e-5
# Weights below exp(-300) of the nearest neighbour's are nothing in any sum, and processors take
# several times as long for numbers that underflow, or whose products do.
_LEAST_EXPONENT = -300.0


def neighbourhood_components(X, codes, n_components, *, max_iter, random_state):
    """Learn a projection in which neighbours at random have the same label as often as possible.

    The result is that of :class:`sklearn.neighbors.NeighborhoodComponentsAnalysis`, started from
    the principal components, or from the identity for as many components as features.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float64
        The samples.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    n_components : int
        Dimensions of the projection, at most the number of features and of samples.
    max_iter : int
        Largest number of iterations.
    random_state : int
        Seed of the principal components where there are many features.

    Returns
    -------
    projection : ndarray of shape (n_components, n_features)
        The projection.
    converged : bool
        Whether it took fewer than `max_iter` iterations.
    """
    if n_components == X.shape[1]:
        start = np.eye(n_components)
    else:
        start = PCA(n_components, random_state=random_state).fit(X).components_
    found = minimize(
        _LossAndGradient(X, codes),
        np.ravel(start),
        method="L-BFGS-B",
        jac=True,
        tol=_TOLERANCE,
        options={"maxiter": max_iter},
    )
    return found.x.reshape(-1, X.shape[1]), bool(found.nit < max_iter)


class _LossAndGradient:
    """Minus the expected number of samples whose random neighbour has their label.

    A plain evaluation makes a dozen matrices of n x n. Here there is one, whose memory is taken
    once, and what can be done in blocks is; the order of all sums is that of scikit-learn, so that
    the numbers are the same to the last bit.

    Parameters
    ----------
    X, codes : ndarray
        As in :func:`neighbourhood_components`.
    """

    def __init__(self, X, codes):
        n_samples = len(X)
        self.X = X
        self.same = codes[:, None] == codes
        self.weights = np.empty((n_samples, n_samples))
        self.shared = np.empty((min(_BLOCK, n_samples), n_samples))
        self.blocks = [
            slice(start, min(start + _BLOCK, n_samples)) for start in range(0, n_samples, _BLOCK)
        ]

    def __call__(self, projection):
        """Compute loss and gradient.

        Parameters
        ----------
        projection : ndarray of shape (n_components * n_features,)
            The projection.

        Returns
        -------
        loss : float
            The loss.
        gradient : ndarray of shape (n_components * n_features,)
            Its gradient.
        """
        X, weights = self.X, self.weights
        embedded = X @ projection.reshape(-1, X.shape[1]).T
        squares = np.einsum("ij,ij->i", embedded, embedded)
        np.matmul(embedded, embedded.T, out=weights)
        right = np.concatenate([self._weigh(block, squares) for block in self.blocks])
        columns = weights.sum(axis=0)
        self._add_transposed()
        np.fill_diagonal(weights, -columns)
        gradient = 2 * embedded.T.dot(weights).dot(X)
        return -np.sum(right), -gradient.ravel()

    def _add_transposed(self):
        """Add the transposed weights to them, in place."""
        for place, first in enumerate(self.blocks):
            own = self.weights[first, first]
            own += own.T.copy()
            for second in self.blocks[place + 1 :]:
                above, below = self.weights[first, second], self.weights[second, first]
                above += below.T
                below[...] = above.T

    def _weigh(self, block, squares):
        """Turn inner products of some rows into their weights in the gradient.

        Returns the probability of each row that a random neighbour has its label.
        """
        rows = self.weights[block]
        # Minus the squared distances.
        rows *= 2
        rows -= squares[block, None]
        rows -= squares
        np.minimum(rows, 0, out=rows)
        rows[np.arange(len(rows)), np.arange(block.start, block.stop)] = -np.inf
        rows -= rows.max(axis=1)[:, None]
        np.maximum(rows, _LEAST_EXPONENT, out=rows)
        np.exp(rows, out=rows)
        rows /= rows.sum(axis=1)[:, None]
        shared = np.multiply(rows, self.same[block], out=self.shared[: len(rows)])
        right = shared.sum(axis=1, keepdims=True)
        rows *= right
        np.subtract(shared, rows, out=rows)
        return right
