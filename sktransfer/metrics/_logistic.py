"""Multinomial logistic regression with a quadratic penalty, solved to its optimum."""

from dataclasses import dataclass

import numpy as np

# Newton's method stops when a step promises less than this share of the objective.
_TOLERANCE = 1e-14
_ROUNDING = 1e-9
_SUFFICIENT = 1e-4
_SMALLEST_STEP = 1e-12
# Gains below this share of the objective are nothing, and their ratios leave the float range.
_NOTHING = 1e-40

# Rounds of conjugate gradients for one step; a step that is cut short still descends.
_ROUNDS = 500


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
        Mean log loss, weighted.
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


def minimize_logistic(Z, codes, penalty, max_iter, sample_weight=None):
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
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive weights, of which the ratios count.

    Returns
    -------
    optimum : LogisticOptimum
        The minimum, unique up to a constant in the intercepts.
    """
    n_samples, r = Z.shape
    if sample_weight is not None:
        sample_weight = sample_weight * (n_samples / sample_weight.sum())
    sizes = np.bincount(codes, sample_weight)
    # Without features these are the optimal intercepts.
    parameters = np.zeros((r + 1, len(sizes)))
    parameters[r] = np.log(sizes / n_samples)
    parameters[r] -= parameters[r].mean()
    problem = _Problem(Z, codes, penalty, sample_weight)
    state = problem.at(parameters)
    converged = False
    n_iter = 0
    while n_iter < max_iter:
        direction, promised = problem.newton_direction(state)
        following = problem.descend(state, direction, promised)
        # Without a lower value in sight rounding hides what is left to gain.
        if promised <= _TOLERANCE * state.value or following is None:
            converged = promised <= _ROUNDING * state.value
            break
        n_iter += 1
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
    def __init__(self, Z, codes, penalty, sample_weight):
        self.Z, self.penalty = Z, penalty
        self.n_samples = len(codes)
        self.own = np.arange(len(codes)), codes
        self.weight = np.ones(len(codes)) if sample_weight is None else sample_weight
        self.variance = np.einsum("i,ij,ij->j", self.weight, Z, Z) / len(codes)

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
        loss = float(np.sort(self.weight * (largest + rest)).sum() / self.n_samples)
        total = own + others
        probabilities = terms / total[:, None]
        probabilities[self.own] = own / total
        complement = 1 - probabilities
        complement[self.own] = others / total
        residual = probabilities.copy()
        residual[self.own] = -others / total
        residual *= self.weight[:, None]
        gradient = np.vstack([self.Z.T @ residual, residual.sum(axis=0)]) / self.n_samples
        gradient[:-1] += self.penalty * parameters[:-1]
        # Scaled first: without much of a penalty coefficients of separable classes are large.
        square = 0.5 * float(np.square(np.sqrt(self.penalty) * parameters[:-1]).sum())
        return _State(parameters, loss + square, loss, probabilities, complement, gradient)

    def descend(self, state, direction, promised):
        """Go down along a direction by halving the step; None if there is no way down."""
        step = 1.0
        while step > _SMALLEST_STEP:
            following = self.at(state.parameters + step * direction)
            if following.value <= state.value - _SUFFICIENT * step * promised:
                return following
            step /= 2
        return None

    def newton_direction(self, state):
        """Direction of the Newton step by conjugate gradients, and half its first-order gain."""
        P = state.probabilities
        curvature = (self.weight[:, None] * P * state.complement).mean(axis=0)
        preconditioner = np.vstack(
            [np.outer(self.variance, curvature) + self.penalty, np.maximum(curvature, 1e-300)]
        )

        def hessian(direction):
            along = self.Z @ direction[:-1] + direction[-1]
            # Relative to the true class, whose probability may be all but one.
            along -= along[self.own][:, None]
            along -= (P * along).sum(axis=1, keepdims=True)
            along *= P
            along *= self.weight[:, None]
            product = np.vstack([self.Z.T @ along, along.sum(axis=0)]) / self.n_samples
            product[:-1] += self.penalty * direction[:-1]
            return product

        def precondition(residual):
            whitened = residual / preconditioner
            # A constant in all intercepts changes nothing and must not build up.
            whitened[-1] -= whitened[-1].mean()
            return whitened

        residual = -state.gradient
        solution = np.zeros_like(residual)
        whitened = precondition(residual)
        direction = whitened
        squared = float((residual * whitened).sum())
        # The closer to the optimum, the more exact the step.
        enough = squared * np.clip(squared / max(state.value, 1e-300), 1e-24, 0.01)
        enough = max(enough, _NOTHING * state.value)
        for _ in range(_ROUNDS):
            if squared <= enough:
                break
            product = hessian(direction)
            curved = float((direction * product).sum())
            if curved <= 0:
                break
            length = squared / curved
            solution += length * direction
            residual = residual - length * product
            whitened = precondition(residual)
            following = float((residual * whitened).sum())
            direction = whitened + following / squared * direction
            squared = following
        return solution, -0.5 * float((solution * state.gradient).sum())
