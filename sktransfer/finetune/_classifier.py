"""Fine-tune a pretrained network for classes."""

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from torch import from_numpy, nn

from sktransfer.finetune._estimator import FineTuneEstimator
from sktransfer.finetune._net import ClassifierNet
from sktransfer.utils._sklearn import StrOptions, _fit_context
from sktransfer.utils._target import Target, encode_target, kind_of_labels

__all__ = ["FineTuneClassifier"]


class FineTuneClassifier(ClassifierMixin, FineTuneEstimator):
    """Classify with a pretrained network that is fine-tuned: a backbone with a new head.

    The network inside is trained by skorch with AdamW and the cross-entropy loss.

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
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss, by label; classes that are not named have weight one.
        "balanced" is n_samples / (n_classes * n_samples_of_class), of the rows that are trained on,
        with their ``sample_weight``; of the first call of ``partial_fit``.
    early_stopping : bool or "auto", default="auto"
        Whether the weights of the epoch with the smallest validation loss are the result. True
        keeps rows of X back for validation, unless ``fit`` is given ``X_val``. "auto" is True if it
        is: of few rows, those kept back are missed more than the epoch that they choose is worth.
    validation_fraction : float, default=0.2
        Share of the rows that are kept back, of every class that has more than one;
        each class keeps a row to be trained on.
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
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted: the order of columns of probabilities.
    class_weight_ : ndarray of shape (n_classes,)
        Weights of the classes.
    net_ : skorch net
        The net that was trained; ``net_.module_`` has a ``backbone`` and a ``head``. Its
        classes are numbers from 0, in the order of ``classes_``.
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
    FineTuneRegressor : The same for numbers.
    sktransfer.model_selection.TransferabilitySelector : Guess without training which backbone to
        fine-tune.

    Notes
    -----
    The loss of a batch is the mean over its rows of weight times cross-entropy, with weights
    (``sample_weight`` times class weight) of mean one over all rows. AdamW decays all weights
    alike. Networks in half precision are trained in single precision. Neither torch's nor NumPy's
    global generators are changed; while a network is trained, torch's is in use, so fits in several
    threads wait for each other.

    A loss or weights that are not finite end the training with a NotConvergedWarning, and the last
    weights that were finite, or the best ones, are taken.

    A pickle holds the weights once (and the ``backbone`` parameter, where that is a network and not
    a function or a name), and what AdamW remembers after ``partial_fit`` only. It can be read on a
    machine without a GPU.

    A :class:`~sklearn.pipeline.Pipeline` of a backbone and a linear model is quicker than
    ``train="head"`` and as good: there is one best linear model, and no need for epochs.

    Examples
    --------
    >>> from sktransfer.backbones import TinyZooBackbone
    >>> from sktransfer.datasets import load_digits_target
    >>> from sktransfer.finetune import FineTuneClassifier
    >>> digits = load_digits_target()
    >>> classifier = FineTuneClassifier(
    ...     TinyZooBackbone("letters"), train="head", max_epochs=200, random_state=0
    ... )
    >>> classifier.fit(digits.images_train[:100], digits.y_train[:100])
    FineTuneClassifier(backbone=TinyZooBackbone(name='letters'), max_epochs=200,
                       random_state=0, train='head')
    >>> bool(classifier.score(digits.images_test, digits.y_test) > 0.8)
    True
    >>> classifier.predict_proba(digits.images_test[:5]).shape
    (5, 10)
    """

    _parameter_constraints: dict = {
        **FineTuneEstimator._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _net_class = ClassifierNet
    _criterion = nn.CrossEntropyLoss
    # Measures of labels need no second pass through the network.
    _predicts_most_probable = True

    def __init__(
        self,
        backbone,
        *,
        train="full",
        from_scratch=False,
        lr=1e-3,
        head_lr=1e-2,
        weight_decay=1e-4,
        lr_schedule="cosine",
        max_epochs=50,
        head_epochs=None,
        batch_size=128,
        class_weight=None,
        early_stopping="auto",
        validation_fraction=0.2,
        patience=None,
        callbacks=None,
        cache="auto",
        n_workers=0,
        device="auto",
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            backbone,
            train=train,
            from_scratch=from_scratch,
            lr=lr,
            head_lr=head_lr,
            weight_decay=weight_decay,
            lr_schedule=lr_schedule,
            max_epochs=max_epochs,
            head_epochs=head_epochs,
            batch_size=batch_size,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            patience=patience,
            callbacks=callbacks,
            cache=cache,
            n_workers=n_workers,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    # -- target ----------------------------------------------------------------------------------

    def _encode(self, y):
        return encode_target(
            y, tasks=("classification",), task="classification", name=type(self).__name__
        )

    def _learn_target(self, target, y):
        if len(target.classes) < 2:
            raise ValueError(
                f"{type(self).__name__} requires at least 2 classes in y; got 1 class."
            )
        self.classes_ = target.classes

    def _known_target(self, y):
        """Give the target in terms of the classes that are known already."""
        target = self._encode(y)
        kinds = [kind_of_labels(classes) for classes in (target.classes, self.classes_)]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"y has labels that are {kinds[0]}, and the classes of {type(self).__name__} are "
                f"{kinds[1]}; none could be the same."
            )
        unknown = np.setdiff1d(target.classes, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y has labels that are none of the classes of {type(self).__name__}: "
                f"{unknown.tolist()[:10]}; the classes are {self.classes_.tolist()[:20]}."
            )
        codes = np.searchsorted(self.classes_, target.classes)[target.codes]
        return Target("classification", classes=self.classes_, codes=codes)

    def _learn_scale(self, target, weights):
        """Learn the weights of the classes."""
        self.class_weight_ = np.ones(len(target.classes))
        if self.class_weight is None:
            return
        balanced = isinstance(self.class_weight, str)
        present = np.unique(target.codes) if balanced else np.arange(len(target.classes))
        self.class_weight_[present] = compute_class_weight(
            self.class_weight,
            classes=target.classes[present],
            y=target.classes[target.codes],
            sample_weight=weights if balanced else None,
        )
        wrong = self.class_weight_[~(self.class_weight_ >= 0)]
        if len(wrong) or not np.isfinite(self.class_weight_).all():
            raise ValueError(
                f"'class_weight' must hold finite numbers that are not negative, got "
                f"{self.class_weight}."
            )

    @property
    def _n_outputs(self):
        return len(self.classes_)

    def _net_parameters(self):
        return {"classes": list(range(self._n_outputs))}

    def _tensor(self, target):
        return from_numpy(target.codes.astype(np.int64))

    def _loss_weights(self, target, weights):
        if self.class_weight is None:
            return weights
        by_row = self.class_weight_[target.codes]
        return by_row if weights is None else weights * by_row

    # -- public ----------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=False)  # the backbone is the user's
    def fit(self, X, y=None, sample_weight=None, *, X_val=None, y_val=None):
        """Train on a target, from the pretrained weights on.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            What the backbone takes: images, paths of files, a torch data set, vectors.
        y : array-like of shape (n_samples,), default=None
            Labels of any type. They may be left out if ``X`` is a torch data set that has them.
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
            For data that the backbone does not take, a target with fewer than two classes, a
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
    def partial_fit(self, X, y=None, classes=None, sample_weight=None, *, n_epochs=1):
        """Train for some more epochs.

        The first call starts from the pretrained weights, and all calls together do what one
        ``fit`` with as many epochs and without early stopping does, if the data are the same. After
        ``max_epochs`` epochs, and after ``fit``, the learning rates start anew.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            What the backbone takes: images, paths of files, a torch data set, vectors.
        y : array-like of shape (n_samples,), default=None
            Labels, of classes that are known.
        classes : array-like of shape (n_classes,), default=None
            All labels that there will be. None takes those of the first call.
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
            As in ``fit``, and for labels of no known class.

        Warns
        -----
        NotConvergedWarning
            If training diverges.
        """
        if classes is not None:
            classes = self._encode(np.asarray(classes)).classes
            if not hasattr(self, "net_"):
                self._learn_target(Target("classification", classes=classes), classes)
            elif not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"'classes' is {classes.tolist()}, and was {self.classes_.tolist()} before."
                )
        return self._partial_fit(X, y, sample_weight, n_epochs, classes)

    def predict_proba(self, X):
        """Compute the probabilities of the classes.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``fit``.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes), float64
            Columns in the order of ``classes_``; rows sum to one.
        """
        return softmax(self._outputs(X), axis=1)

    def predict(self, X):
        """Predict the class with the largest probability.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``fit``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Labels of the type that ``y`` had. Of classes with equal probability, the first in
            ``classes_``.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]
