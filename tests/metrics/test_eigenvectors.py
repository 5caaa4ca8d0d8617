"""Eigenvectors that are computed as far as they are asked for."""

import numpy as np
import pytest
from scipy import linalg

from sktransfer.metrics import _eigenvectors
from sktransfer.metrics._eigenvectors import Eigenvectors


def symmetric(n, eigenvalues=None, seed=0):
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.sort(rng.uniform(-1, 3, n) if eigenvalues is None else eigenvalues)[::-1]
    return (vectors * values) @ vectors.T, values


def decompose(matrix):
    # The upper triangle must not count.
    return Eigenvectors(np.asfortranarray(np.tril(matrix) + np.triu(np.full_like(matrix, 7.0), 1)))


CASES = {
    "one": (1, None),
    "two": (2, None),
    "three": (3, None),
    "one block": (_eigenvectors._TOGETHER, None),
    "blocks": (300, None),
    "equal": (140, np.repeat([3.0, 1.0], 70)),
    "low rank": (200, np.r_[np.zeros(190), np.arange(1.0, 11)]),
    "spread": (150, np.logspace(-12, 0, 150)),
    "zero": (9, np.zeros(9)),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@each_case
def test_eigenvalues_and_vectors(case):
    matrix, values = symmetric(*case)
    n, size = len(values), max(np.abs(values).max(), 1e-300)
    found = decompose(matrix)
    vectors = found.leading(n)
    np.testing.assert_allclose(found.eigenvalues, values, atol=1e-13 * size)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=1e-11)
    np.testing.assert_allclose(vectors * found.eigenvalues @ vectors.T, matrix, atol=1e-12 * size)
    assert vectors.flags.f_contiguous


@each_case
def test_projections_are_those_on_the_vectors(case):
    matrix, values = symmetric(*case)
    n = len(values)
    rng = np.random.default_rng(1)
    for rank in {n, n // 2 + 1, 1, 0}:
        found = decompose(matrix)
        found.keep(rank)
        for shape in [(n,), (n, 3), (n, 0)]:
            columns = rng.normal(size=shape)
            along = found.along(columns)
            given = rng.normal(size=(rank, *shape[1:]))
            combined = found.combine(given)
            vectors = decompose(matrix).leading(n)[:, :rank]
            np.testing.assert_allclose(along, vectors.T @ columns, atol=1e-12)
            np.testing.assert_allclose(combined, vectors @ given, atol=1e-12)
        # When all vectors are there they serve in place of their factors.
        assert found.leading(rank).shape == (n, rank)
        np.testing.assert_allclose(found.combine(given), combined, atol=1e-12)


@pytest.mark.parametrize("n", [5, 300])
def test_a_vector_does_not_depend_on_how_many_are_wanted(n):
    matrix, _ = symmetric(n)
    every = decompose(matrix).leading(n)
    found = decompose(matrix)
    for k in (1, 3, n - 1, 2, n):
        assert found.leading(k).tobytes() == every[:, :k].tobytes()
    leading = found.leading(2)
    leading[:] = 0
    assert found.leading(2).tobytes() == every[:, :2].tobytes()


def test_the_memory_of_the_matrix_is_taken_over():
    matrix = np.asfortranarray(symmetric(200)[0])
    found = Eigenvectors(matrix)
    assert np.shares_memory(found._factors[1], matrix)


def test_a_method_that_gives_up_is_followed_by_one_that_does_not(monkeypatch):
    matrix, values = symmetric(40)
    tridiagonal, drivers = linalg.eigh_tridiagonal, []

    def unsure(*args, lapack_driver, **kwargs):
        drivers.append(lapack_driver)
        if len(drivers) == 1:
            raise linalg.LinAlgError("a cluster")
        return tridiagonal(*args, lapack_driver=lapack_driver, **kwargs)

    monkeypatch.setattr(_eigenvectors.linalg, "eigh_tridiagonal", unsure)
    found = decompose(matrix)
    assert drivers == ["stemr", "stev"]
    np.testing.assert_allclose(found.eigenvalues, values, atol=1e-13)
    vectors = found.leading(40)
    np.testing.assert_allclose(vectors * values @ vectors.T, matrix, atol=1e-13)
