"""Triplet margin loss over all triplets of a batch, with its gradient in closed form."""

from typing import NamedTuple

import torch

__all__ = ["TripletLoss", "count_triplets", "triplet_loss"]

# Entries of a block of distances, anchors times rows: 8 MiB, of which a few exist at a time.
_BLOCK_ELEMENTS = 2**20


class TripletLoss(NamedTuple):
    """The loss of one batch.

    Parameters
    ----------
    value : float
        Mean over the triplets that violate the margin; 0 if none does.
    gradient : tensor of shape (n, D), float64, on the CPU
        Derivative of the value by the features, before they are normalised.
    n_active : int
        Number of triplets that violate the margin.
    """

    value: float
    gradient: torch.Tensor
    n_active: int


def count_triplets(codes):
    """Count the valid triplets (anchor, positive, negative) of a batch.

    Parameters
    ----------
    codes : ndarray of shape (n,), integer
        Classes as numbers from 0.

    Returns
    -------
    n_triplets : int
        Number of ordered triplets: two different rows of one class and a row of another.
    """
    counts = torch.bincount(torch.as_tensor(codes))
    return int((counts * (counts - 1) * (len(codes) - counts)).sum())


def triplet_loss(features, codes, margin):
    """Mean of margin + d(a, p) - d(a, n) over all triplets where that is positive.

    Distances are Euclidean, between rows scaled to length one. The value is linear in the
    distances as long as the same triplets are active, so that only the number of active triplets
    of each pair of rows is needed, never a list of triplets: memory grows with the number of rows
    times the number of anchors in a block, whose size is limited.

    Parameters
    ----------
    features : tensor of shape (n, D)
        Features, which may be on any device; rows of zeros have no direction and no gradient.
    codes : ndarray of shape (n,), integer
        Classes as numbers from 0.
    margin : float
        The margin.

    Returns
    -------
    loss : TripletLoss
        Value, gradient and number of active triplets.
    """
    x = features.detach().double().cpu()
    codes = torch.as_tensor(codes)
    # The largest entry is taken out first: squares of tiny or huge features leave the range.
    length = x.abs().amax(dim=1, keepdim=True)
    length[length == 0] = 1.0
    unit = x / length
    norm = torch.linalg.vector_norm(unit, dim=1, keepdim=True)
    directed = norm > 0
    norm[~directed] = 1.0
    unit /= norm

    n = len(unit)
    total, n_active = 0.0, 0
    # dL/dunit of sum_ij w_ij |unit_i - unit_j|^2 / 2, row and column parts.
    gradient = torch.zeros_like(unit)
    step = max(1, _BLOCK_ELEMENTS // n)
    for start in range(0, n, step):
        anchors = torch.arange(start, min(start + step, n))
        distance = torch.cdist(unit[anchors], unit, compute_mode="donot_use_mm_for_euclid_dist")
        same = codes[anchors, None] == codes
        same_other = same.clone()
        same_other[torch.arange(len(anchors)), anchors] = False
        reach = distance + margin
        # Active is what has d(a, n) < d(a, p) + margin, with the same rounding on both sides.
        negatives = distance.masked_fill(same, torch.inf).sort(dim=1).values
        positives = reach.masked_fill(~same_other, -torch.inf).sort(dim=1).values
        n_nearer = torch.searchsorted(negatives, reach)
        n_farther = n - torch.searchsorted(positives, distance, right=True)
        weight = torch.where(same_other, n_nearer, 0) - torch.where(same, 0, n_farther)
        n_active += int(torch.where(same_other, n_nearer, 0).sum())
        weight = weight.double()
        total += float((weight * distance).sum())
        # Rows in one place attract and repel in no direction.
        weight = torch.where(distance > 0, weight / distance, 0.0)
        gradient[anchors] += weight.sum(dim=1, keepdim=True) * unit[anchors] - weight @ unit
        gradient += weight.sum(dim=0)[:, None] * unit - weight.T @ unit[anchors]
    if n_active == 0:
        return TripletLoss(0.0, torch.zeros_like(unit), 0)
    gradient /= n_active
    # Through the scaling to length one: what points along the row is lost.
    gradient -= (gradient * unit).sum(dim=1, keepdim=True) * unit
    gradient = torch.where(directed, gradient / norm / length, 0.0)
    return TripletLoss(margin + total / n_active, gradient, n_active)
