"""FU: how much of the gradient reaches the first layer, compared with the second."""

from numbers import Integral, Real

import numpy as np
import torch

from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.finetune._batches import consecutive_batches, stratified_batches
from sktransfer.finetune._layers import find_early_layers, layer_weights, learning
from sktransfer.finetune._network import NetworkMetric, undisturbed
from sktransfer.finetune._triplet import count_triplets, triplet_loss
from sktransfer.metrics._canonical import canonical_classes
from sktransfer.metrics._permutations import reason_to_doubt, scores_until_sure
from sktransfer.metrics._statistics import drawn_seed
from sktransfer.utils._announce import announce
from sktransfer.utils._sklearn import Interval, StrOptions

__all__ = ["FU", "GradientRatio"]


class GradientRatio(NetworkMetric):
    """What FU and LPFU share: the ratio of the gradients of two early layers."""

    _parameter_constraints: dict = {
        "backbone": [*NetworkMetric._backbone_constraint],
        "layers": [StrOptions({"auto"}), tuple, list],
        "margin": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 4, None, closed="left")],
        "batches": [StrOptions({"stratified", "published"})],
        "random_state": ["random_state"],
    }

    def _gradient_ratio(self, inputs):
        """Set layers and gradient norms; return their ratio, or NaN and the reason."""
        self.seed_ = drawn_seed(self.random_state)
        batches = self._batches(inputs, inputs.classes)
        with undisturbed(inputs.backbone.device_, self.seed_):
            self.layers_ = self._two_layers(inputs)
            self.gradient_norms_, self.n_triplets_, self.n_active_triplets_ = self._measure(
                inputs, inputs.codes, batches
            )
        self.n_batches_ = len(self.gradient_norms_)
        ratio = _ratio(self.gradient_norms_)
        if not np.isnan(ratio):
            return ratio, None
        if self.n_triplets_ == 0:
            reason = "there is no triplet, which takes two samples of one class and one of another"
        elif self.n_active_triplets_ == 0:
            reason = (
                f"no triplet violates the margin of {self.margin:g}, so there is no gradient: the "
                "features separate the classes already"
            )
        elif self.gradient_norms_[:, 1].any():
            reason = f"the gradient of layer {self.layers_[0]!r} is zero"
        else:
            reason = "the gradient of both layers is zero"
        return ratio, reason

    def _measure(self, inputs, codes, batches):
        """Return the norms of both layers' gradients in every batch, and counts of triplets."""
        first, second = (layer_weights(inputs.backbone.module_, name) for name in self.layers_)
        weights = [*first, *second]
        norms, n_triplets, n_active = [], 0, 0
        with learning(weights):
            for rows in batches:
                found = []

                def loss(features, rows=rows, found=found):
                    found.append(triplet_loss(features, codes[rows], self.margin))
                    return found[0].gradient

                gradients = inputs.gradients(rows, weights, loss)
                n_triplets += count_triplets(codes[rows])
                n_active += found[0].n_active
                parts = gradients[: len(first)], gradients[len(first) :]
                norms.append([_norm(part) for part in parts])
        return np.array(norms, dtype=np.float64).reshape(-1, 2), n_triplets, n_active

    def _permuted_ratios(self, inputs, n_permutations):
        """Yield the ratios of permuted labels, where there are any."""
        rng = np.random.default_rng(self.seed_)
        labels = np.repeat(np.arange(len(inputs.classes)), [len(rows) for rows in inputs.classes])
        codes = np.empty_like(labels)
        for _ in range(n_permutations):
            codes[np.argsort(inputs.keys, kind="stable")] = rng.permutation(labels)
            batches = self._batches(inputs, canonical_classes(inputs.keys, codes))
            with undisturbed(inputs.backbone.device_, self.seed_):
                ratio = _ratio(self._measure(inputs, codes, batches)[0])
            if not np.isnan(ratio):
                yield ratio

    def _batches(self, inputs, classes):
        if self.batches == "stratified":
            rng = np.random.default_rng(self.seed_)
            return stratified_batches(classes, self.batch_size, rng)
        if len(inputs) < 6:
            raise ValueError(
                "batches='published' makes batches of a sixth of the samples and needs 6 samples; "
                f"got {len(inputs)}."
            )
        return consecutive_batches(len(inputs), len(inputs) // 6)

    def _two_layers(self, inputs):
        module, layers = inputs.backbone.module_, self.layers
        x = inputs.tensor(np.arange(min(2, len(inputs))))
        if isinstance(layers, str):
            return find_early_layers(module, inputs.run, x)
        layers = tuple(layers)
        if len(layers) != 2 or layers[0] == layers[1]:
            raise ValueError(
                "The 'layers' parameter must be 'auto' or the names of two different layers; got "
                f"{self.layers!r}."
            )
        for name in layers:
            with learning(layer_weights(module, name)):
                if not inputs.run(x).requires_grad:
                    raise ValueError(
                        "The 'layers' parameter must name layers that the features depend on; "
                        f"they do not depend on {name!r}."
                    )
        return layers


def _ratio(norms):
    """Mean norm of the second layer by that of the first; NaN without any."""
    # Their unit cancels; without it a mean of huge norms would not be finite.
    norms = norms / max(norms.max(initial=0.0), 1e-300)
    first, second = norms.mean(axis=0) if len(norms) else (0.0, 0.0)
    return float(second / first) if first > 0 else float("nan")


def _norm(gradients):
    """Length of all gradients of a layer together, without squares that leave the range."""
    norms = torch.stack([torch.linalg.vector_norm(g / _size(g)) * _size(g) for g in gradients])
    return float(torch.linalg.vector_norm(norms))


def _size(gradient):
    return max(float(gradient.abs().max()), 1e-300)


class FU(GradientRatio):
    """Ratio of the gradients of two early layers under a triplet loss, for feature utilisation.

    A triplet margin loss on the penultimate features says how far they are from separating the
    target classes. Its gradient is taken by the weights of the first two learned layers, and the
    score is the length of the second layer's gradient divided by that of the first, each averaged
    over batches: FU = mean ||dL/dW_second|| / mean ||dL/dW_first|| [1]_. It is positive, higher is
    better: the target asks for little change of the first layer, whose features can be used as
    they are. No step is taken; the network is as it was.

    The loss of a batch is the mean of margin + d(a, p) - d(a, n) over all triplets of an anchor, a
    positive of its class and a negative of another where that is positive, with d the Euclidean
    distance of features scaled to length one.

    Read more in the :ref:`User Guide <fu>`.

    Parameters
    ----------
    backbone : torch backbone, default=None
        The network, such as a :class:`~sktransfer.backbones.TorchBackbone`; one that is fitted is
        used as it is, of another a clone is fitted. A
        :class:`~sktransfer.model_selection.TransferabilitySelector` sets it to each candidate.
    layers : "auto" or (str, str), default="auto"
        Names of the two layers, or of two parameters. "auto" finds the first convolution or patch
        embedding (or linear layer) that the input meets, and the next convolution, linear layer or
        attention projection that its output meets.
    margin : float, default=0.05
        Margin of the loss; distances lie between 0 and 2.
    batch_size : int, default=64
        Rows per batch, 4 or more; single batches may be larger by a row or two. The score depends
        on it, since it is the number of rows that triplets are made of.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches. With the same seed, the batches are the same for every network.
    batches : {"stratified", "published"}, default="stratified"
        Stratified batches are drawn by seed, whatever the order of the rows, and all hold
        triplets. "published" reproduces the original: the rows in the order given, a sixth of
        them (rounded down) in a batch, the remainder in another one; `batch_size` is not used.
    n_permutations : int, default=0
        Largest number of label permutations behind `chance_level_`; three are enough for a score
        far above them. Each costs as much as the score itself, so there are none by default.

    Attributes
    ----------
    score_ : float
        The ratio; NaN where it is 0 / 0, with a warning that says why.
    chance_level_ : float
        Mean score under permuted labels; NaN without permutations.
    saturated_ : bool
        Whether there is no score (NaN), or it can't be told from that of permuted labels.
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
        If there is no backbone or it holds no torch network, two layers are not found, or
        features or gradients are not finite.

    Warns
    -----
    UninformativeScoreWarning
        If there is no score (NaN): there is no triplet, none violates the margin, or the first
        layer has no gradient. With permutations, also if the score can't be told from theirs.

    See Also
    --------
    LPFU : FU together with the quality of the features.

    Notes
    -----
    FU alone does not tell useful features from useless ones: shuffled labels can score as high as
    true ones. `n_permutations` tells by how much, for as many more passes; LPFU weighs FU with the
    quality of the features.

    The score depends on the partition that labels make and on the content of the rows, not on
    their order or on the names of classes; it does not change when features are multiplied by a
    constant. It does change with a rescaling of weights that leaves the network's function alone,
    so it compares networks of one architecture better than different ones. The spread over seeds
    is that of random batches: see `gradient_norms_`.

    At least 3 samples are needed: two of one class and one of another. Rows of classes with one
    sample serve as negatives. Where few rows are outside of the largest class, rows of that class
    that would have no negative are left out.

    The cost is one forward and one backward pass over the data. Memory is that of a backward pass
    with the number of rows in the backbone's ``batch_size`` (64 by default); for larger batches
    features are computed twice. The loss itself never lists its triplets; it holds a few blocks of
    8 MiB.

    References
    ----------
    .. [1] D. Juodelyte et al., "On dataset transferability in medical image classification", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from sktransfer.backbones import TorchBackbone
    >>> from sktransfer.datasets import load_digits_target
    >>> from sktransfer.finetune import FU
    >>> def network():
    ...     return nn.Sequential(
    ...         nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten()
    ...     )
    >>> digits = load_digits_target()
    >>> X, y = digits.images_train[:100], digits.y_train[:100]
    >>> backbone = TorchBackbone(network, input_size=8, mean=0.5, std=0.5)
    >>> metric = FU(backbone, random_state=0).fit(X, y)
    >>> metric.layers_
    ('0', '2')
    >>> bool(metric.score_ > 0)
    True
    """

    bounds = (0.0, np.inf)

    _parameter_constraints: dict = {
        **GradientRatio._parameter_constraints,
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
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
        n_permutations=0,
    ):
        self.backbone = backbone
        self.layers = layers
        self.margin = margin
        self.batch_size = batch_size
        self.random_state = random_state
        self.batches = batches
        self.n_permutations = n_permutations

    def _fit(self, X, target, sample_weight):
        inputs = self._prepare(X, target)
        self.score_, reason = self._gradient_ratio(inputs)
        self.chance_level_ = float("nan")
        if reason is not None:
            self.saturated_ = True
            announce(f"FU has no score (NaN): {reason}.", UninformativeScoreWarning)
            return
        chance = scores_until_sure(self.score_, self._permuted_ratios(inputs, self.n_permutations))
        if chance:
            self.chance_level_ = float(np.mean(chance))
        self._judge(reason_to_doubt(self.score_, chance, np.inf))
