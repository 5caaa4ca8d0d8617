"""The bounds of PACTran on a classifier that maps source classes to target classes."""

import numpy as np
from scipy import sparse
from scipy.special import digamma, gammaln, logsumexp

# What the published code adds to probabilities and parameters, and its number of rounds.
PUBLISHED_FLOOR = 1e-10
PUBLISHED_ROUNDS = 10


class _SourceBound:
    """What the two variational bounds share: the responsibilities q of the source classes.

    Weights, which sum to the number of samples, multiply the terms of the samples.
    """

    def __init__(self, theta, codes, prior, sample_weight=None):
        self.theta, self.codes = theta, codes
        self.prior = prior[:, None]
        n_samples = len(codes)
        self.weight = np.ones(n_samples) if sample_weight is None else sample_weight
        self.members = sparse.csr_array(
            (self.weight, (codes, np.arange(n_samples))), (len(prior), n_samples)
        )
        self.q = theta

    def counts(self):
        return self.prior + self.members @ self.q

    def update(self, expected_log):
        """Set q for given expectations of log M; return the sum of the log normalisers."""
        exponent = expected_log[self.codes]
        # Largest exponent of the source classes that a sample has: others have no say.
        exponent = np.where(self.theta > 0, exponent, -np.inf)
        largest = exponent.max(axis=1, keepdims=True)
        self.q = self.theta * np.exp(exponent - largest)
        total = self.q.sum(axis=1, keepdims=True)
        self.q /= total
        return self.total((largest + np.log(total))[:, 0])

    def total(self, terms):
        """Sum terms of the samples, in an order that only they decide."""
        return float(np.sort(self.weight * terms).sum())


class _DirichletBound(_SourceBound):
    def round(self):
        """Update M and q in turn; return minus expected log loss and divergence per sample."""
        a = self.counts()
        expected_log = digamma(a) - digamma(a.sum(axis=0))
        fit = self.update(expected_log)
        # Divergence of M's posterior, for which q was the best.
        divergence = _log_beta(self.prior).sum() * np.ones(a.shape[1]) - _log_beta(a)
        divergence += ((a - self.prior) * expected_log).sum(axis=0)
        n_samples = len(self.codes)
        return fit / n_samples, -float(np.sort(divergence).sum()) / n_samples


def _log_beta(a):
    """Logarithm of the multivariate beta function of each column."""
    return gammaln(a).sum(axis=0) - gammaln(a.sum(axis=0))


class _GammaBound(_SourceBound):
    def __init__(self, theta, codes, prior, sample_weight=None):
        super().__init__(theta, codes, prior, sample_weight)
        self.normaliser = np.full(len(codes), prior.sum())

    def round(self):
        """Update M, then q and the normalisers; return minus log loss and divergence."""
        a = self.counts()
        b = 1 + (self.weight[:, None] * self.theta / self.normaliser[:, None]).sum(axis=0)
        expected_log = digamma(a) - np.log(b)
        mass = a.sum(axis=0) / b
        self.normaliser = self.theta @ mass
        fit = self.update(expected_log) - self.total(np.log(self.normaliser))
        divergence = (a - self.prior) * digamma(a) - gammaln(a) + gammaln(self.prior)
        divergence = divergence.sum(axis=0) + self.prior.sum() * np.log(b) + mass * (1 - b)
        n_samples = len(self.codes)
        return fit / n_samples, -float(np.sort(divergence).sum()) / n_samples


BOUNDS = {"dirichlet": _DirichletBound, "gamma": _GammaBound}


def _published_dirichlet(theta, codes, prior, sample_weight=None):
    bound = _SourceBound(theta, codes, prior, sample_weight)
    log_source = np.log(theta + PUBLISHED_FLOOR)
    for _ in range(PUBLISHED_ROUNDS):
        a = bound.counts()
        expected_log = digamma(a) - digamma(a.sum(axis=0))
        divergence = _published_round(bound, log_source, expected_log)
    value = (_log_beta(a) - _log_beta(bound.prior)).sum() - divergence
    return value / (len(codes) * len(prior))


def _published_gamma(theta, codes, prior, sample_weight=None):
    bound = _SourceBound(theta, codes, prior, sample_weight)
    log_source = np.log(theta + PUBLISHED_FLOOR)
    for _ in range(PUBLISHED_ROUNDS):
        a = bound.counts()
        normaliser = theta @ a.sum(axis=0)
        divergence = _published_round(bound, log_source, digamma(a))
    value = (gammaln(bound.prior) - gammaln(a)).sum() + divergence
    value += (bound.weight * (np.log(normaliser) - 1)).sum()
    return -(value / (len(codes) * len(prior)) + 1)


def _published_round(bound, log_source, expected_log):
    """Set q; return the sum of its divergences from the source probabilities."""
    exponent = log_source + expected_log[bound.codes]
    log_q = exponent - logsumexp(exponent, axis=1, keepdims=True)
    bound.q = np.exp(log_q)
    return (bound.weight[:, None] * bound.q * (log_q - log_source)).sum()


PUBLISHED = {"dirichlet": _published_dirichlet, "gamma": _published_gamma}
