"""What a reference ranking trains: candidates, and their architectures with random weights."""

import warnings
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

import numpy as np
import torch
from sklearn.base import clone

from sktransfer.backbones._prefetch import iter_batches
from sktransfer.backbones._provenance import architecture_digest, weights_hash
from sktransfer.backbones._scratch import start_from_scratch
from sktransfer.backbones._store_candidate import files_of
from sktransfer.backbones._store_content import Unnameable, content_digest
from sktransfer.backbones._store_hashing import combine
from sktransfer.backbones._untrained import without_classifier
from sktransfer.evaluation._pairing import listed
from sktransfer.finetune._inputs import check_rows, read_through
from sktransfer.finetune._reference_task import in_turn, inner_estimator
from sktransfer.finetune._sources import is_network, make_source

__all__ = [
    "SCRATCH",
    "Field",
    "Subject",
    "all_failed_error",
    "describe_all",
    "scratch_backbone",
]

#: How the names of rows begin whose weights were random.
SCRATCH = "from scratch: "

_CALLER = "reference_ranking"
# Architectures are compared by the weights that this seed gives. Nobody is likely to have drawn
# the candidate itself by it: weights that come out as they were seem not to have been drawn.
_COMPARED_SEED = 1_947_362_581


@dataclass(frozen=True)
class Subject:
    """A row of the ranking: a candidate, or an architecture that is trained from scratch.

    Parameters
    ----------
    name : str
        What it is called.
    from_scratch : bool
        Whether its weights are random.
    identity : str
        Digest of all that decides its results, apart from protocol and data.
    weights : str or None
        Digest of the pretrained weights; None for what has none.
    n_parameters : int or None
        Parameters of the network.
    pretrained : bool or None
        What the backbone says of its weights.
    twin : str or None
        Name of the row of the same architecture from scratch.
    """

    name: str
    from_scratch: bool
    identity: str
    weights: str | None = None
    n_parameters: int | None = None
    pretrained: bool | None = None
    twin: str | None = None

    def as_dict(self):
        """Give what is known of it, for a file.

        Returns
        -------
        about : dict
            Names and values.
        """
        return asdict(self)


@dataclass
class Field:
    """All that a reference ranking has rows for.

    Parameters
    ----------
    subjects : list of Subject
        Candidates in the order given, then architectures from scratch.
    backbones : dict of str to backbone
        By name of the subject; of an architecture, any candidate that has it.
    failures : dict of str to str
        Why a subject cannot be trained.
    """

    subjects: list
    backbones: dict
    failures: dict

    @property
    def able(self):
        """The subjects that can be trained."""
        return [subject for subject in self.subjects if subject.name not in self.failures]


def describe_all(candidates, task, from_scratch):
    """Build each candidate and find out what it is, without training it.

    Parameters
    ----------
    candidates : list of (str, backbone)
        The candidates. They are left as they are.
    task : Task
        What they will be trained for.
    from_scratch : bool
        Whether their architectures are trained from scratch too.

    Returns
    -------
    field : Field
        Candidates and architectures.

    Raises
    ------
    ValueError
        If all candidates have failed.
    Exception
        Whatever is wrong with a candidate, if failures are to be raised.
    """
    pretrained, scratch, backbones, failures = [], {}, {}, {}
    data_faults, was_read = [], False
    for name, backbone in candidates:
        twin = None
        backbones[name] = backbone
        # What a candidate warns of when it is built it will warn of in training as well.
        with in_turn(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                subject, fitted = _describe(name, backbone, task, not was_read)
                was_read = was_read or fitted is not None
            except _DataFault as fault:
                data_faults.append(fault.__cause__)
                failures[name] = str(fault)
                subject, fitted = Subject(name, False, ""), None
            except Exception as error:
                if task.raise_errors:
                    error.add_note(f"Raised by candidate {name!r}.")
                    raise
                failures[name] = f"{type(error).__name__}: {error}"
                subject, fitted = Subject(name, False, ""), None
            if fitted is not None and from_scratch:
                twin = _describe_scratch(name, fitted, task, failures)
                subject = replace(subject, twin=twin.name)
                scratch.setdefault(twin.name, twin)
                backbones.setdefault(twin.name, backbone)
        pretrained.append(subject)
    if data_faults and (task.raise_errors or len(data_faults) == len(candidates)):
        raise data_faults[0]
    reasons = [(name, failures[name]) for name, _ in candidates if name in failures]
    if len(reasons) == len(candidates):
        X = task.data[0]
        rows = f"of shape {tuple(X.shape)}" if hasattr(X, "shape") else f"of {len(X)} rows"
        raise all_failed_error(reasons, f" None of them can be built and run on 'X', {rows}.")
    return Field(pretrained + list(scratch.values()), backbones, failures)


def all_failed_error(reasons, about=""):
    """Give the error for candidates that have all failed.

    Parameters
    ----------
    reasons : iterable of (str, str)
        Names of candidates and why they have failed, which may have several reasons.
    about : str, default=""
        A sentence on where they have failed, after a space.

    Returns
    -------
    error : ValueError
        With each reason once.
    """
    names_of = {}
    for name, reason in reasons:
        names_of.setdefault(reason, {})[name] = None
    told = "; ".join(f"{listed(names)}: {reason}" for reason, names in names_of.items())
    return ValueError(f"All candidates have failed.{about} {told}")


class _DataFault(ValueError):
    """Test or validation data that a network can't be given, or data that can't be read."""


def _describe(name, backbone, task, read):
    head_only = inner_estimator(task.estimator).train == "head"
    X, _, X_test, X_val, _ = task.data
    if not is_network(backbone) and head_only:
        check_rows(backbone, X=X, X_test=X_test, X_val=X_val)
        return Subject(name, False, _transformer_identity(backbone)), None
    source = make_source(backbone, X, device="cpu", trainable=not head_only, caller=_CALLER)
    try:
        read_through(source, read, X=X, X_test=X_test, X_val=X_val)
    except (TypeError, ValueError) as error:
        raise _DataFault(f"{type(error).__name__}: {error}") from error
    fitted = source.backbone
    subject = Subject(
        name,
        False,
        fitted.fingerprint(),
        fitted.weights_hash_,
        fitted.n_parameters_,
        getattr(fitted, "pretrained_", None),
    )
    return subject, fitted


def _describe_scratch(name, fitted, task, failures):
    kind = type(fitted.module_).__name__
    try:
        identity = _scratch_identity(fitted)
    except Exception as error:
        if task.raise_errors:
            error.add_note(f"Raised by the architecture of candidate {name!r}.")
            raise
        twin = Subject(f"{SCRATCH}{kind} of {name}", True, "")
        failures[twin.name] = f"{type(error).__name__}: {error}"
        return twin
    with without_classifier(fitted) as module:
        n_parameters = sum(parameter.numel() for parameter in module.parameters())
    return Subject(f"{SCRATCH}{kind}-{identity[:6]}", True, identity, n_parameters=n_parameters)


def _transformer_identity(transformer):
    """Digest of a transformer that is not fitted yet: of its parameters, code and files."""
    fresh = clone(transformer)
    try:
        return combine("transformer", content_digest(fresh), *files_of(fresh)).hex()
    except Unnameable as error:
        raise ValueError(
            f"Nothing tells this {type(transformer).__name__} from another one ({error}), so its "
            "results could not be told from those of another one either."
        ) from error


def _scratch_identity(fitted):
    """Digest of what a network is when all it has learned is taken away; changes the network.

    It is about what is built: layers, shapes, the weights that one seed gives, the layer that
    features come from, and the size and channels of its images. The classifier layer does not
    count, for the head replaces it, nor does the normalisation of images, which belongs to what
    the network was pretrained on.
    """
    start_from_scratch(fitted, _COMPARED_SEED)
    preprocessing = None
    if fitted._input_kind != "vectors":
        preprocessing = replace(fitted._make_preprocessing(), mean=(0.0,), std=(1.0,)).digest()
    with without_classifier(fitted) as module:
        content = (
            architecture_digest(module),
            weights_hash(module),
            [repr(point) for point in fitted._points],
            preprocessing,
            str(fitted._dtype),
        )
    return sha256(repr(content).encode()).hexdigest()


def scratch_backbone(backbone, X):
    """Give a backbone for training from scratch, that has nothing from its pretraining left.

    Its images are normalised by the mean and the standard deviation of the training images
    themselves, so that all candidates of one architecture share it.

    Parameters
    ----------
    backbone : torch backbone, or a wrapper of one
        Any candidate of this architecture.
    X : array or sequence of shape (n_samples, ...)
        Training data.

    Returns
    -------
    backbone : torch backbone
        Not fitted. It still has the pretrained weights, for ``from_scratch=True`` to replace.
    """
    source = make_source(backbone, X, device="cpu", trainable=True, caller=_CALLER)
    inner = source.backbone
    kind = type(inner)
    if inner._input_kind == "vectors":
        return inner.with_layers(inner.layer)
    as_pixels = replace(inner._make_preprocessing(), mean=(0.0,), std=(1.0,))
    inner._make_preprocessing = lambda: as_pixels
    mean, std = _statistics(inner._as_batches(X, reset=False), inner.batch_size)
    return _normalised(kind, mean, std)(**inner.get_params(deep=False))


def _normalised(kind, mean, std):
    """Make a class of backbones that normalises images in another way."""

    def make_preprocessing(self):
        return replace(kind._make_preprocessing(self), mean=mean, std=std)

    return type(kind.__name__, (kind,), {"_make_preprocessing": make_preprocessing})


def _statistics(batches, batch_size):
    """Compute mean and standard deviation of each channel over all images."""
    count, total, squares = 0, 0.0, 0.0
    for _, batch in iter_batches(batches, batch_size, 0, 0):
        pixels = batch.to(torch.float64).transpose(0, 1).flatten(1)
        count += pixels.shape[1]
        total = total + pixels.sum(dim=1)
        squares = squares + (pixels**2).sum(dim=1)
    mean = (total / count).numpy()
    std = np.sqrt(np.maximum((squares / count).numpy() - mean**2, 0.0))
    std[std < 1e-6] = 1.0  # images of one colour
    return tuple(mean.tolist()), tuple(std.tolist())
