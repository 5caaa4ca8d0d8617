"""The untrained twin of a network: the same architecture with random weights."""

from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from torch import nn

from sktransfer.backbones._base import BaseTorchBackbone
from sktransfer.backbones._provenance import architecture_digest
from sktransfer.backbones._scratch import start_from_scratch

__all__ = ["UntrainedTwin", "architecture_key", "unwrapped", "without_classifier"]

# Attributes in which networks keep the number of their source classes.
_CLASS_COUNTS = ("num_classes", "n_classes", "num_labels")


class UntrainedTwin(TransformerMixin, BaseEstimator):
    """A torch backbone whose weights are random, to see what its pretraining is worth.

    Pixels are normalised from 0 to 1 to -1 to 1, and not as the pretrained weights expect them, so
    that all candidates of one architecture have the same twin.

    Parameters
    ----------
    backbone : torch backbone
        Its parameters are used; what it may have fitted is not, and its weights are replaced.
    seed : int, default=0
        Seed of the weights.

    Attributes
    ----------
    twin_ : torch backbone
        The fitted network.
    """

    stateless = True
    reads_names = False

    def __init__(self, backbone, seed=0):
        self.backbone = backbone
        self.seed = seed

    def fit(self, X, y=None):
        """Build the network; nothing is learned.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as the backbone takes them.
        y : ignored
            Present by convention.

        Returns
        -------
        self : UntrainedTwin
            Fitted.
        """
        inner = unwrapped(self.backbone)
        self.twin_ = _untrained(type(inner), self.seed)(**inner.get_params(deep=False)).fit(X)
        return self

    def transform(self, X):
        """Compute features.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in fit.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features), float32
            As the backbone's own, with random weights.
        """
        return self.extract(X)[0]

    def extract(self, X):
        """Compute features and source probabilities in one pass.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in fit.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features), float32
            The features.
        probabilities : ndarray of shape (n_samples, n_source_classes), float32, or None
            Of the source classes, if there is a head.
        """
        check_is_fitted(self)
        return self.twin_.extract(X)

    def fingerprint(self):
        """Give a digest of everything that decides the features, apart from the data.

        Returns
        -------
        fingerprint : str
            That of the network.
        """
        check_is_fitted(self)
        return self.twin_.fingerprint()

    @property
    def probe_features_(self):
        """Features of the first two rows that fit saw."""
        return self.twin_.probe_features_

    @property
    def _dtype(self):
        return self.twin_._dtype


def _untrained(kind, seed):
    """Make a class of backbones whose network has random weights."""

    def make_module(self):
        self.module_ = kind._make_module(self)
        start_from_scratch(self, seed)
        self.pretrained_, self.weights_ = False, "untrained"
        return self.module_

    def make_preprocessing(self):
        return replace(kind._make_preprocessing(self), mean=(0.5,), std=(0.5,))

    methods = {"_make_module": make_module, "_make_preprocessing": make_preprocessing}
    return type(kind.__name__, (kind,), {**methods, "__module__": kind.__module__})


def unwrapped(backbone):
    """Take a backbone out of what only wraps it.

    Parameters
    ----------
    backbone : estimator
        The backbone.

    Returns
    -------
    backbone : estimator
        The torch backbone, if there is one.
    """
    while not isinstance(backbone, BaseTorchBackbone):
        if isinstance(backbone, FrozenEstimator):
            backbone = backbone.estimator
        elif isinstance(backbone, Pipeline) and len(backbone) == 1:
            backbone = backbone[-1]
        else:
            break
    return backbone


def architecture_key(backbone):
    """Tell architectures apart: candidates with the same key have the same untrained twin.

    Parameters
    ----------
    backbone : fitted estimator
        A candidate.

    Returns
    -------
    key : str or None
        Digest of layers, shapes, the layers that features come from, and size and channels of the
        images. The classifier layer does not count, unless features come from it. None for what is
        no torch network.
    """
    inner = unwrapped(backbone)
    if not isinstance(inner, BaseTorchBackbone):
        return None
    made_by = getattr(inner, "module", None)
    if isinstance(made_by, nn.Module):
        made_by = None  # its layers say it all
    preprocessing = None
    if inner._input_kind != "vectors":
        preprocessing = replace(inner._make_preprocessing(), mean=(0.0,), std=(1.0,)).digest()
    with without_classifier(inner) as module:
        content = (
            f"{type(inner).__module__}.{type(inner).__qualname__}",
            getattr(made_by, "__qualname__", None),
            architecture_digest(module),
            [(name, tuple(weight.shape)) for name, weight in module.named_parameters()],
            [repr(point) for point in inner._points],
            preprocessing,
            str(inner._dtype),
        )
    return sha256(repr(content).encode()).hexdigest()


@contextmanager
def without_classifier(backbone):
    """Take the classifier layer out of a network, and put it back afterwards.

    Parameters
    ----------
    backbone : fitted torch backbone
        Its layer stays where features come from it.

    Yields
    ------
    module : nn.Module
        The network, with nothing that tells how many source classes there are.
    """
    module, classifier = backbone.module_, backbone.classifier_layer_
    if not classifier or classifier in {point.layer for point in backbone._points}:
        yield module
        return
    layer = module.get_submodule(classifier)
    counts = {name: vars(module)[name] for name in _CLASS_COUNTS if name in vars(module)}
    module.set_submodule(classifier, nn.Identity())
    for name in counts:
        delattr(module, name)
    try:
        yield module
    finally:
        module.set_submodule(classifier, layer)
        vars(module).update(counts)
