"""LPFU: label prediction by neighbours of the features, times the ratio of early gradients."""

from numbers import Integral

import numpy as np

from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.finetune._fu import GradientRatio
from sktransfer.finetune._network import undisturbed
from sktransfer.metrics import LP
from sktransfer.metrics._pool import scaled_parts
from sktransfer.utils._announce import announce
from sktransfer.utils._sklearn import Interval, StrOptions

__all__ = ["LPFU"]


class LPFU(GradientRatio):
    """Feature quality (LP) combined with the ratio of early gradients (FU).

    LP says how well a network's features predict the labels as they are, FU how little the target
    asks of the first layer [1]_. Both are better when higher; both parts are in `components_`.

    As published, the parts are scaled to [0, 1] by their least and largest value among the
    candidates and multiplied. That is what ``pool_scores``, and so a
    :class:`~sktransfer.model_selection.TransferabilitySelector`, ranks by. It makes the score
    *relative to the candidates compared*: leaving one out can change the order of the others, and
    the candidate that is last on one part scores 0 even if it is first on the other.

    `score_` knows nothing of other candidates: LP with chance taken out times the share
    FU / (1 + FU) of the second layer in both gradients. A candidate that is last on one part is
    not zeroed. ``pool="absolute"`` ranks by it.

    Read more in the :ref:`User Guide <lpfu>`.

    Parameters
    ----------
    backbone : torch backbone, default=None
        The network, as in :class:`FU`.
    layers : "auto" or (str, str), default="auto"
        The two layers, as in :class:`FU`.
    margin : float, default=0.05
        Margin of the triplet loss.
    batch_size : int, default=64
        Rows per batch, as in :class:`FU`.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches of FU and of LP.
    batches : {"stratified", "published"}, default="stratified"
        As in :class:`FU`.
    n_components : int, default=50
        Dimensions of the projection of :class:`~sktransfer.metrics.LP`.
    n_neighbors : int, default=5
        Neighbours of LP.
    in_sample : bool, default=False
        Whether LP is fitted and scored on the same samples, as published.
    pool : {"product", "absolute", "reversed_product"}, default="product"
        How candidates are compared: by the published product, by each `score_`, or by the product
        (1 - LP) (1 - FU) of the scaled parts, which is how the original compares architectures and
        is the other way round: the worst on both parts scores highest.

    Attributes
    ----------
    score_ : float
        max(0, (LP - c) / (1 - c)) FU / (1 + FU) with c the chance level of LP: in [0, 1], higher is
        better. Where FU is undefined, its share is 1/2.
    chance_level_ : float
        The score of features whose LP is at its chance level: 0.
    saturated_ : bool
        Whether there is no score (NaN), or LP can't be told from chance.
    components_ : dict of str to float
        The parts "lp" and "fu" as they are; "fu" is NaN where it is undefined.
    lp_chance_level_ : float
        Chance level of LP.
    layers_ : tuple of str
        Names of the two layers.
    gradient_norms_ : ndarray of shape (n_batches_, 2)
        Length of the gradient of each layer in each batch.
    n_batches_ : int
        Number of batches.
    n_triplets_ : int
        Number of triplets in all batches.
    n_active_triplets_ : int
        Number of those that violate the margin.
    seed_ : int
        Seed that was used.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Numbers per row of X. Not there after a fit on files.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, when X is a data frame with string names.

    Raises
    ------
    ValueError
        As in :class:`FU`.

    Warns
    -----
    UninformativeScoreWarning
        If FU is undefined, so that LP alone decides, or there is no score (NaN), since there is
        no triplet; and where LP warns.

    See Also
    --------
    FU : The second part alone.
    sktransfer.metrics.LP : The first part alone.

    Notes
    -----
    In a pool, a part that is the same for all candidates is 1/2 for all, and so is each part in a
    pool of one. A candidate that failed, or whose `score_` is NaN, is NaN and left out of the
    scaling. Where only FU is undefined, because the features leave no triplet within the margin,
    its factor is 1/2.

    Invariances and memory are those of :class:`FU` and :class:`~sktransfer.metrics.LP`; the cost
    is that of both and one more forward pass.

    References
    ----------
    .. [1] D. Juodelyte et al., "On dataset transferability in medical image classification", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from sktransfer.backbones import TorchBackbone
    >>> from sktransfer.datasets import load_digits_target
    >>> from sktransfer.finetune import LPFU
    >>> def network():
    ...     return nn.Sequential(
    ...         nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten()
    ...     )
    >>> digits = load_digits_target()
    >>> X, y = digits.images_train[:100], digits.y_train[:100]
    >>> pool = [
    ...     LPFU(TorchBackbone(network, input_size=size, mean=0.5, std=0.5), random_state=0)
    ...     for size in (6, 9)
    ... ]
    >>> scores = LPFU.pool_scores([metric.fit(X, y) for metric in pool])
    >>> sorted(pool[0].components_)
    ['fu', 'lp']
    """

    bounds = (0.0, 1.0)
    relative_to_pool = True

    _parameter_constraints: dict = {
        **GradientRatio._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "in_sample": ["boolean"],
        "pool": [StrOptions({"product", "absolute", "reversed_product"})],
    }

    def __init__(
        self,
        backbone=None,
        layers="auto",
        margin=0.05,
        batch_size=64,
        random_state=None,
        *,
        batches="stratified",
        n_components=50,
        n_neighbors=5,
        in_sample=False,
        pool="product",
    ):
        self.backbone = backbone
        self.layers = layers
        self.margin = margin
        self.batch_size = batch_size
        self.random_state = random_state
        self.batches = batches
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.in_sample = in_sample
        self.pool = pool

    def _fit(self, X, target, sample_weight):
        inputs = self._prepare(X, target)
        fu, reason = self._gradient_ratio(inputs)
        lp = self._label_prediction(inputs)
        self.lp_chance_level_ = lp.chance_level_
        self.components_ = {"lp": lp.score_, "fu": fu}
        if self.n_triplets_ == 0:
            self.score_ = self.chance_level_ = float("nan")
            consequence = "LPFU has no score (NaN)"
        else:
            known = not np.isnan(self.lp_chance_level_)
            chance = self.lp_chance_level_ if known else 0.0
            above_chance = max(lp.score_ - chance, 0.0) / max(1.0 - chance, 1e-300)
            share = 0.5 if np.isnan(fu) else fu / (1.0 + fu)
            self.score_ = float(min(above_chance, 1.0) * share)
            self.chance_level_ = 0.0 if known else float("nan")
            consequence = "LPFU is decided by LP alone, FU being undefined"
        # LP has announced it if that is so.
        self.saturated_ = lp.saturated_ or self.n_triplets_ == 0
        if reason is not None:
            announce(f"{consequence}: {reason}.", UninformativeScoreWarning)

    def _label_prediction(self, inputs):
        """Fit LP on features that are computed in canonical order, so always the same batches."""
        rows = np.concatenate(inputs.classes)
        labels = np.repeat(np.arange(len(inputs.classes)), [len(r) for r in inputs.classes])
        with undisturbed(inputs.backbone.device_, self.seed_):
            features = inputs.features(rows).float().numpy()
        lp = LP(
            n_components=self.n_components,
            n_neighbors=self.n_neighbors,
            in_sample=self.in_sample,
            random_state=self.seed_,
        )
        return lp.fit(features, labels)

    @classmethod
    def pool_scores(cls, fitted_metrics):
        """Combine the parts of all candidates by the rule that the parameter ``pool`` names.

        Parameters
        ----------
        fitted_metrics : sequence of fitted LPFU or None
            One per candidate; None for a candidate that failed.

        Returns
        -------
        scores : ndarray of shape (n_candidates,), dtype float64
            In [0, 1]; NaN for a candidate that failed or has no score.
        """
        rule = next((metric.pool for metric in fitted_metrics if metric is not None), "absolute")
        if rule == "absolute":
            return super().pool_scores(fitted_metrics)
        parts = scaled_parts(fitted_metrics, ("lp", "fu"), undefined={"fu"})
        if rule == "reversed_product":
            return (1.0 - parts["lp"]) * (1.0 - parts["fu"])
        return parts["lp"] * parts["fu"]
