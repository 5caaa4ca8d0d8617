"""Multinomial logistic regression with a quadratic penalty, solved to its optimum."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

# Up to this many parameters the Newton system is solved directly.
_DIRECT = 400

# Newton's method stops when a step promises less than this share of the objective.
_TOLERANCE = 1e-12
_SUFFICIENT = 1e-4


@dataclass(frozen=True)
class LogisticOptimum:
    """The minimum of the penalised mean log loss.

    Parameters
    ----------
    weights : ndarray of shape (r, n_classes)
        Coefficients.
    intercept : ndarray of shape (n_classes,)
        Intercepts, which sum to zero.
    loss : float
        Mean log loss.
    penalty : float
        Half the penalty weight times the sum of the squared coefficients.
    curvature : ndarray of shape (n_samples,)
        Sum over the classes of p (1 - p) for each sample.
    n_iter : int
        Newton steps.
    converged : bool
        Whether the minimum was reached.
    """

    weights: np.ndarray
    intercept: np.ndarray
    loss: float
    penalty: float
    curvature: np.ndarray
    n_iter: int
    converged: bool


def minimize_logistic(Z, codes, penalty, max_iter):
    """Minimise mean log loss + penalty / 2 x sum of squared coefficients, intercepts free.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, r)
        Uncorrelated columns of ordinary size.
    codes : ndarray of shape (n_samples,)
        Class of each row, all of 0, ..., n_classes - 1.
    penalty : float
        Positive weight of the penalty.
    max_iter : int
        Largest number of Newton steps.

    Returns
    -------
    optimum : LogisticOptimum
        The minimum, unique up to a constant in the intercepts.
    """
    n_samples, r = Z.shape
    sizes = np.bincount(codes)
    # Without features these are the optimal intercepts.
    parameters = np.zeros((r + 1, len(sizes)))
    parameters[r] = np.log(sizes / n_samples)
    parameters[r] -= parameters[r].mean()
    problem = _Problem(Z, codes, penalty)
    state = problem.at(parameters)
    converged = False
    n_iter = 0
    while n_iter < max_iter:
        direction, promised = problem.newton_direction(state)
        if promised <= _TOLERANCE * state.value:
            converged = True
            break
        n_iter += 1
        step, following = 1.0, None
        while step > 1e-12:
            following = problem.at(state.parameters + step * direction)
            if following.value <= state.value - _SUFFICIENT * step * promised:
                break
            step /= 2
        else:
            # Rounding hides what is left to gain.
            converged = promised <= 1e-9 * state.value
            break
        state = following
    return LogisticOptimum(
        weights=state.parameters[:r],
        intercept=state.parameters[r],
        loss=state.loss,
        penalty=state.value - state.loss,
        curvature=(state.probabilities * state.complement).sum(axis=1),
        n_iter=n_iter,
        converged=converged,
    )


@dataclass(frozen=True)
class _State:
    parameters: np.ndarray
    value: float
    loss: float
    probabilities: np.ndarray
    complement: np.ndarray  # one minus the probabilities, exact also where these are nearly one
    gradient: np.ndarray


class _Problem:
    def __init__(self, Z, codes, penalty):
        self.Z, self.penalty = Z, penalty
        self.n_samples = len(codes)
        self.own = np.arange(len(codes)), codes
        self.variance = np.einsum("ij,ij->j", Z, Z) / len(codes)

    def at(self, parameters):
        """Evaluate the objective and its gradient."""
        scores = self.Z @ parameters[:-1] + parameters[-1]
        scores -= scores[self.own][:, None]  # relative to the true class
        largest = scores.max(axis=1)
        terms = np.exp(scores - largest[:, None])
        own = terms[self.own]
        terms[self.own] = 0.0
        others = terms.sum(axis=1)
        # log1p keeps the digits of losses that are nearly zero.
        rest = np.where(largest == 0, np.log1p(others), np.log(np.maximum(own + others, 1e-300)))
        loss = float(np.sort(largest + rest).sum() / self.n_samples)
        total = own + others
        probabilities = terms / total[:, None]
        probabilities[self.own] = own / total
        complement = 1 - probabilities
        complement[self.own] = others / total
        residual = probabilities.copy()
        residual[self.own] = -others / total
        gradient = np.vstack([self.Z.T @ residual, residual.sum(axis=0)]) / self.n_samples
        gradient[:-1] += self.penalty * parameters[:-1]
        square = 0.5 * self.penalty * float(np.square(parameters[:-1]).sum())
        return _State(parameters, loss + square, loss, probabilities, complement, gradient)

    def newton_direction(self, state):
        """Direction of the Newton step, and half of what it gains to first order."""
        if state.gradient.size <= _DIRECT:
            direction = self._solve_directly(state)
        else:
            direction = self._solve_by_conjugate_gradients(state)
        return direction, -0.5 * float((direction * state.gradient).sum())

    def _solve_directly(self, state):
        size, n_classes = state.gradient.shape
        P = state.probabilities
        rows = np.hstack([self.Z, np.ones((self.n_samples, 1))])
        hessian = np.empty((size, n_classes, size, n_classes))
        for j in range(n_classes):
            for k in range(j, n_classes):
                weight = P[:, j] * state.complement[:, j] if j == k else -P[:, j] * P[:, k]
                block = (rows * weight[:, None]).T @ rows / self.n_samples
                hessian[:, j, :, k] = block
                hessian[:, k, :, j] = block.T
        hessian = hessian.reshape(state.gradient.size, -1)
        diagonal = np.einsum("ii->i", hessian).reshape(size, n_classes)
        diagonal[:-1] += self.penalty
        # A constant in all intercepts changes nothing; this keeps their sum.
        top = float(diagonal.max())
        hessian.reshape(size, n_classes, size, n_classes)[-1, :, -1, :] += top
        scale = 1 / np.sqrt(np.maximum(diagonal.ravel(), top * 1e-300 + 1e-320))
        scaled = hessian * scale * scale[:, None]
        scaled_diagonal = np.einsum("ii->i", scaled)
        for ridge in (0.0, 1e-14, 1e-12, 1e-9):
            scaled_diagonal += ridge
            try:
                factor = linalg.cho_factor(scaled, lower=True, check_finite=False)
            except linalg.LinAlgError:
                continue
            solution = linalg.cho_solve(factor, state.gradient.ravel() * scale)
            return -(solution * scale).reshape(size, n_classes)
        return -state.gradient / top

    def _solve_by_conjugate_gradients(self, state):
        P = state.probabilities
        curvature = (P * state.complement).mean(axis=0)
        preconditioner = np.vstack(
            [np.outer(self.variance, curvature) + self.penalty, np.maximum(curvature, 1e-300)]
        )

        def hessian(direction):
            along = self.Z @ direction[:-1] + direction[-1]
            # Relative to the true class, whose probability may be all but one.
            along -= along[self.own][:, None]
            along -= (P * along).sum(axis=1, keepdims=True)
            along *= P
            product = np.vstack([self.Z.T @ along, along.sum(axis=0)]) / self.n_samples
            product[:-1] += self.penalty * direction[:-1]
            return product

        residual = -state.gradient
        solution = np.zeros_like(residual)
        whitened = residual / preconditioner
        direction = whitened
        squared = float((residual * whitened).sum())
        # The closer to the optimum, the more exact the step.
        enough = squared * min(0.1, np.sqrt(squared / max(state.value, 1e-300))) ** 2
        for _ in range(200):
            if squared <= enough:
                break
            product = hessian(direction)
            curved = float((direction * product).sum())
            if curved <= 0:
                break
            length = squared / curved
            solution += length * direction
            residual = residual - length * product
            whitened = residual / preconditioner
            following = float((residual * whitened).sum())
            direction = whitened + following / squared * direction
            squared = following
        solution[-1] -= solution[-1].mean()
        return solution
