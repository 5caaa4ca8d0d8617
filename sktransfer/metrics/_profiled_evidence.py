"""The evidence of a Bayesian linear model with the noise variance at its best."""

import numpy as np

_LOG_2PI = np.log(2 * np.pi)
_TINY = np.finfo(np.float64).tiny

# Points evaluated at once times directions: 128 KiB per temporary array, so that all stay in cache.
_CHUNK_ELEMENTS = 2**14

# What a point costs for all outputs together, beside that of a single output by products of
# matrices, and what it costs for one output alone; measured.
_GRID_COST = 15
_POINT_COST = 30


class ProfiledEvidence:
    """The evidence per sample as a function of log(tau), for several outputs.

    Parameters
    ----------
    spectrum : CenteredSpectrum
        The decomposed features and targets.
    noise_floor : float
        Lower bound of the noise variance, relative to the mean square of each output.
    """

    def __init__(self, spectrum, noise_floor):
        self.n = spectrum.n_samples
        self.eigenvalues = spectrum.eigenvalues
        self.sigma = np.sqrt(spectrum.eigenvalues)
        self.loadings = spectrum.loadings
        self.residual = spectrum.target_residual
        self.target_mean = spectrum.target_sum / self.n
        self.z = spectrum.mean_coordinates
        self.outside = spectrum.mean_residual
        self.square = spectrum.target_square
        self.target_unit = spectrum.target_unit
        self.floor = noise_floor * self.square
        self.noise_floor = noise_floor
        self.n_directions = spectrum.rank + (self.outside > 0)
        self.trace = float(self.eigenvalues.sum() + self.n * (self.z @ self.z + self.outside))

    def range(self):
        """Return the ends of u outside which the evidence is monotone, or flat to 1e-12.

        Below the lower end, gamma exceeds half the number of directions while n g is less than
        that (g <= tau / (smallest eigenvalue * noise_floor)). Above the upper end the features
        explain a 1e-12th of what they could, and the evidence is that of pure noise.
        """
        n, lam = self.n, self.eigenvalues
        # 1 / trace(inverse) is a lower bound of the smallest raw eigenvalue.
        inverse = float((1 / lam).sum())
        if self.outside > 0:
            inverse += (1 + n * float((self.z**2 / lam).sum())) / (n * self.outside)
        low = np.log(self.noise_floor) - np.log(inverse) + np.log(self.n_directions / (2 * n))
        high = np.log(self.trace) + 28.0
        return float(min(low, high - 1.0)), float(high)

    def __call__(self, u, output):
        """Evaluate at points ``u`` for the outputs of the same position.

        Returns
        -------
        value, slope : ndarray of shape (n_points,)
            Evidence per sample in nats and its derivative by u.
        gamma, g : ndarray of shape (n_points,)
            Effective number of parameters, and tau |m|² / E.
        floored : ndarray of shape (n_points,), dtype bool
            Whether the noise variance is at its lower bound.
        """
        points, at = np.unique(u, return_inverse=True)
        outputs, of = np.unique(output, return_inverse=True)
        # Outputs that are asked for at the same points share what does not depend on them.
        if len(points) * (_GRID_COST + len(outputs)) < _POINT_COST * len(u):
            return tuple(part[of, at] for part in self.on_grid(points, outputs))
        parts = [np.empty(len(u)) for _ in range(4)] + [np.empty(len(u), dtype=bool)]
        for rows in self._chunks(len(u)):
            for part, values in zip(parts, self._evaluate(u[rows], output[rows]), strict=True):
                part[rows] = values
        return tuple(parts)

    def _evaluate(self, u, output):
        solved = self.solve(u, output)
        solved["log_det"] = self._log_det(np.exp(u)[:, None], solved["update"])
        return self._profile(u, output, solved)

    def slope(self, u, output):
        """Return the derivative by u at points, for the outputs of the same position."""
        slope = np.empty(len(u))
        for rows in self._chunks(len(u)):
            solved = self.solve(u[rows], output[rows])
            slope[rows] = self._slope(u[rows], output[rows], solved)
        return slope

    def _chunks(self, n_points):
        step = max(1, _CHUNK_ELEMENTS // max(1, len(self.eigenvalues)))
        return [slice(start, start + step) for start in range(0, n_points, step)]

    def _slope(self, u, output, solved):
        pull = np.exp(u) * solved["norm"] / np.maximum(solved["energy"], self.floor[output])
        return 0.5 * (solved["gamma"] / self.n - pull)

    def _profile(self, u, output, solved):
        """Evidence with the best noise variance, its slope, and what bounds its curvature."""
        n, energy = self.n, solved["energy"]
        noise = np.maximum(energy, self.floor[output]) / n
        value = 0.5 * (-np.log(noise) - energy / (n * noise) - _LOG_2PI - solved["log_det"] / n)
        g = np.exp(u) * solved["norm"] / np.maximum(energy, _TINY)
        slope = self._slope(u, output, solved)
        return value, slope, solved["gamma"], np.clip(g, 0.0, 1.0), solved["floored"]

    def on_grid(self, grid, outputs):
        """Evaluate every output at every point of a grid, by matrix products.

        Parameters
        ----------
        grid : ndarray of shape (n_points,)
            Points u.
        outputs : ndarray of shape (n_outputs,)
            The outputs.

        Returns
        -------
        parts : tuple of ndarray of shape (n_outputs, n_points)
            As for a call.
        """
        blocks = []
        for rows in self._chunks(len(grid)):
            u = grid[rows]
            solved = self._solve_grid(u, outputs)
            blocks.append(self._profile(u[:, None], outputs[None, :], solved))
        return tuple(np.concatenate(parts).T for parts in zip(*blocks, strict=True))

    def _common(self, tau):
        """Compute what does not depend on the output, for a column of tau."""
        n, z, outside = self.n, self.z, self.outside
        shrink = 1.0 / (self.eigenvalues + tau)
        update = n * (shrink @ z**2 + outside / tau[:, 0])
        update_slope = n * ((tau * shrink**2) @ z**2 + outside / tau[:, 0])
        gamma = shrink @ self.eigenvalues + update_slope / (1 + update)
        return shrink, update, gamma

    def _log_det(self, tau, update):
        return np.log1p(self.eigenvalues / tau).sum(axis=1) + np.log1p(update)

    def _solve_grid(self, u, outputs):
        n, z, tau = self.n, self.z, np.exp(u)[:, None]
        shrink, update, gamma = self._common(tau)
        x = self.loadings[:, outputs]
        weighted = self.sigma[:, None] * x
        error = self.target_mean[outputs] - shrink @ (weighted * z[:, None])
        factor = n * error / (1 + update)[:, None]
        energy = (tau * shrink) @ x**2 + self.residual[outputs] + factor * error
        squares = shrink**2
        norm = (
            squares @ weighted**2
            + 2 * factor * (squares @ (weighted * z[:, None]))
            + factor**2 * ((squares @ z**2) + self.outside / tau[:, 0] ** 2)[:, None]
        )
        return {
            "energy": energy,
            "floored": energy <= self.floor[outputs],
            "log_det": self._log_det(tau, update)[:, None],
            "gamma": np.broadcast_to(gamma[:, None], energy.shape),
            "norm": np.maximum(norm, 0.0),
        }

    def solve(self, u, output):
        """Ridge solution at each point, from the centred directions.

        The uncentred problem is the centred one with one more observation, sqrt(n) times the mean:
        its residual, determinant and solution are those of a rank-one update, each a sum of
        positive terms.
        """
        n, z, outside = self.n, self.z, self.outside
        tau = np.exp(u)[:, None]
        x = self.loadings.T[output]
        shrink, update, gamma = self._common(tau)
        centred = self.sigma * x * shrink
        error = self.target_mean[output] - centred @ z
        energy = (
            (x**2 * (tau * shrink)).sum(axis=1)
            + self.residual[output]
            + n * error**2 / (1 + update)
        )
        mean_factor = n * error / (1 + update)
        along = centred + z * shrink * mean_factor[:, None]
        mean_factor = mean_factor / tau[:, 0]
        norm = np.einsum("pr,pr->p", along, along) + outside * mean_factor**2
        return {
            "energy": energy,
            "floored": energy <= self.floor[output],
            "update": update,
            "gamma": gamma,
            "norm": norm,
            "along": along,
            "mean_factor": mean_factor,
        }

    def pure_noise(self, output):
        """Evidence per sample when the features are not used at all (tau to infinity)."""
        return -0.5 * (np.log(self.square[output] / self.n) + 1 + _LOG_2PI)
