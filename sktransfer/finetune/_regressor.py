"""Fine-tune a pretrained network for numbers."""

import numpy as np
from sklearn.base import RegressorMixin
from torch import from_numpy, nn

from sktransfer.finetune._estimator import FineTuneEstimator
from sktransfer.finetune._net import RegressorNet
from sktransfer.utils._sklearn import _fit_context
from sktransfer.utils._target import encode_target

__all__ = ["FineTuneRegressor"]


class FineTuneRegressor(RegressorMixin, FineTuneEstimator):
    """Predict numbers with a pretrained network that is fine-tuned: a backbone with a new head.

    The network inside is trained by skorch with AdamW and the squared error of targets of mean zero
    and variance one.

    Read more in the :ref:`User Guide <finetuning>`.

    Parameters
    ----------
    backbone : torch backbone, or another transformer with ``train="head"``
        The pretrained network, such as a :class:`~sktransfer.backbones.TorchvisionBackbone`. It is
        left as it is: a copy is made from its parameters and trained. Its ``layer`` is where the
        head is put on. Any scikit-learn transformer will do for ``train="head"``.
    train : {"full", "head", "staged"}, default="full"
        What is trained. "full": all weights. "head": the new head alone; the backbone stays
        bit-equal, statistics of batch normalisation included, and runs only once over the data.
        "staged": the head alone for ``head_epochs`` epochs, then all weights. In the last two, the
        features of the pretrained network are centred, and divided by their overall standard
        deviation, so that ``head_lr`` means the same for all networks.
    from_scratch : bool, default=False
        Whether to replace the pretrained weights by random ones, drawn with ``random_state``: what
        the same architecture makes of the target alone. Networks that are known by name, or are
        made by a function whose weights are random, are built anew; of others all layers are
        initialised by their ``reset_parameters``. Parameters that belong to no such layer are set
        to ones or zeros if they are vectors, and else drawn with standard deviation 0.02;
        ``scratch_report_`` names them.
    lr : float, default=1e-3
        Learning rate of the backbone at the start.
    head_lr : float or None, default=1e-2
        Learning rate of the head at the start; None takes ``lr``. The weights
        of the head are random, so they have a longer way to go.
    weight_decay : float, default=1e-4
        Weight decay of AdamW, for all weights that are trained.
    lr_schedule : {"cosine", "constant"}, default="cosine"
        "cosine" lets both rates fall to zero over ``max_epochs``, as torch's CosineAnnealingLR with
        a step per epoch; with ``train="staged"``, over each of the two stages. "constant" leaves
        them to ``callbacks``, where there may be a scheduler.
    max_epochs : int, default=50
        Epochs, of both stages together.
    head_epochs : int or None, default=None
        How many of them train the head alone, for ``train="staged"``; None is a third of them.
    batch_size : int, default=128
        Rows per step. Batches are drawn anew in each epoch. A last batch of a single row joins the
        one before, as batch normalisation has no statistics of one row.
    early_stopping : bool or "auto", default="auto"
        Whether the weights of the epoch with the smallest validation loss are the result. True
        keeps rows of X back for validation, unless ``fit`` is given ``X_val``. "auto" is True if it
        is: of few rows, those kept back are missed more than the epoch that they choose is worth.
    validation_fraction : float, default=0.2
        Share of the rows that are kept back, drawn at random.
    patience : int or None, default=None
        Number of epochs without a smaller validation loss after which training ends; None trains
        for ``max_epochs``.
    callbacks : list of skorch callbacks or (str, callback), default=None
        Callbacks for the net of skorch, such as ``skorch.callbacks.EpochScoring``. They are copied.
        Progress is shown by scikit-learn's callbacks, see ``set_callbacks``, by skorch's
        ``ProgressBar``, or by ``verbose=1``.
    cache : bool or "auto", default="auto"
        Whether images are decoded and prepared once and kept in memory, or again in each epoch.
        "auto" keeps up to 512 MiB.
    n_workers : int, default=0
        Threads that read and prepare batches while the network is busy with earlier ones. The
        result does not depend on it.
    device : str or torch.device, default="auto"
        Where to train; "auto" takes the backbone's own parameter.
    random_state : int, RandomState instance or None, default=None
        Seed of the new weights, the batches, the rows that are kept back, and what a network draws
        while it is trained. The same seed gives the same result on a CPU.
    verbose : int, default=0
        1 prints a line per epoch.

    Attributes
    ----------
    y_mean_, y_scale_ : ndarray of shape (n_outputs,)
        Mean and standard deviation of each output in training.
    net_ : skorch net
        The net that was trained; ``net_.module_`` has a ``backbone`` and a ``head``. It
        predicts scaled targets.
    history_ : skorch.history.History
        A record for each epoch: ``train_loss``, ``valid_loss``, learning rates, seconds (``dur``).
    n_epochs_ : int
        Number of epochs trained, in ``partial_fit`` too.
    best_epoch_ : int or None
        The epoch, counted from 1, whose weights were taken; None for those of the last epoch.
    converged_ : bool
        False if training diverged.
    scratch_report_ : Bunch
        With ``from_scratch`` only. ``how`` the weights were made, "built anew" or "layer by layer";
        ``bare``, names of the parameters that belong to no layer that can initialise them.
    seed_ : int
        Seed that was used.
    device_ : torch.device
        Where the network runs.
    n_features_in_ : int
        Numbers per row. Not there after a fit on files.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X was a data frame of vectors with string names.

    See Also
    --------
    FineTuneClassifier : The same for classes.
    sktransfer.model_selection.TransferabilitySelector : Guess without training which backbone to
        fine-tune.

    Notes
    -----
    The loss of a batch is the mean over its rows of weight times squared error, with sample weights
    of mean one over all rows. Several outputs count alike, each divided by its standard deviation.
    AdamW decays all weights alike. Networks in half precision are trained in single precision.
    Neither torch's nor NumPy's global generators are changed; while a network is trained, torch's
    is in use, so fits in several threads wait for each other.

    A loss or weights that are not finite end the training with a NotConvergedWarning, and the last
    weights that were finite, or the best ones, are taken.

    A pickle holds the weights once (and the ``backbone`` parameter, where that is a network and not
    a function or a name), and what AdamW remembers after ``partial_fit`` only. It can be read on a
    machine without a GPU.

    A :class:`~sklearn.pipeline.Pipeline` of a backbone and a linear model is quicker than
    ``train="head"`` and as good: there is one best linear model, and no need for epochs.

    Examples
    --------
    >>> import numpy as np
    >>> from sktransfer.backbones import TinyZooBackbone
    >>> from sktransfer.datasets import load_digits_target
    >>> from sktransfer.finetune import FineTuneRegressor
    >>> images = load_digits_target().images_train[:120]
    >>> ink = images.mean(axis=(1, 2))  # how much of an image is white
    >>> regressor = FineTuneRegressor(TinyZooBackbone("shapes"), max_epochs=20, random_state=0)
    >>> regressor.fit(images[:100], ink[:100]).predict(images[100:]).shape
    (20,)
    """

    _net_class = RegressorNet
    _criterion = nn.MSELoss
    _multi_output = True

    def _encode(self, y):
        return encode_target(y, tasks=("regression",), task="regression", name=type(self).__name__)

    def _learn_target(self, target, y):
        self._n_outputs = target.outputs.shape[1]
        self._is_flat = y.ndim == 1

    def _known_target(self, y):
        target = self._encode(y)
        if target.outputs.shape[1] != self._n_outputs:
            raise ValueError(
                f"y has {target.outputs.shape[1]} values per sample, and had {self._n_outputs} "
                "before."
            )
        return target

    def _learn_scale(self, target, weights):
        outputs = target.outputs
        self.y_mean_ = np.average(outputs, axis=0, weights=weights)
        spread = np.sqrt(np.average((outputs - self.y_mean_) ** 2, axis=0, weights=weights))
        self.y_scale_ = np.where(spread > 0, spread, 1.0)

    def _tensor(self, target):
        return from_numpy((target.outputs - self.y_mean_) / self.y_scale_)

    @_fit_context(prefer_skip_nested_validation=False)  # the backbone is the user's
    def fit(self, X, y=None, sample_weight=None, *, X_val=None, y_val=None):
        """Train on a target, from the pretrained weights on.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            What the backbone takes: images, paths of files, a torch data set, vectors.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Values. They may be left out if ``X`` is a torch data set that has them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights in the loss, of which the ratios matter; a row of weight zero is left out.
        X_val : array or sequence of shape (n_val, ...), default=None
            Data for validation, by which early stopping goes.
        y_val : array-like of shape (n_val,), default=None
            Their target; may be left out as ``y`` may.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            For data that the backbone does not take, a target that holds no numbers, a
            backbone without weights that can be trained, or a network whose outputs are not finite.

        Warns
        -----
        NotConvergedWarning
            If training diverges.
        NoValidationPartWarning
            If rows were to be kept back for validation and there are none to spare.
        """
        return self._fit(X, y, sample_weight, X_val, y_val)

    @_fit_context(prefer_skip_nested_validation=False)  # the backbone is the user's
    def partial_fit(self, X, y=None, sample_weight=None, *, n_epochs=1):
        """Train for some more epochs.

        The first call starts from the pretrained weights, and all calls together do what one
        ``fit`` with as many epochs and without early stopping does, if the data are the same. After
        ``max_epochs`` epochs, and after ``fit``, the learning rates start anew.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            What the backbone takes: images, paths of files, a torch data set, vectors.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Values; they are scaled by mean and standard deviation in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            As in ``fit``.
        n_epochs : int, default=1
            Number of passes over the data.

        Returns
        -------
        self : object
            The estimator.

        Raises
        ------
        ValueError
            As in ``fit``.

        Warns
        -----
        NotConvergedWarning
            If training diverges.
        """
        return self._partial_fit(X, y, sample_weight, n_epochs)

    def predict(self, X):
        """Predict values.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``fit``.

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_outputs), float64
            In the units of ``y``, and of its number of axes.
        """
        values = self._outputs(X) * self.y_scale_ + self.y_mean_
        return values[:, 0] if self._is_flat else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
