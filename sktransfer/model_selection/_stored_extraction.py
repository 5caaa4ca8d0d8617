"""What a feature store keeps of a selection: the features of candidates that learn nothing."""

import warnings

import numpy as np
from sklearn.frozen import FrozenEstimator

from ..backbones._store_candidate import probe_of
from ..exceptions import CacheNotWrittenWarning

__all__ = ["StoredExtraction"]


class StoredExtraction:
    """Takes features out of a store, or runs candidates and puts their features into it.

    Parameters
    ----------
    store : FeatureStore
        The store.
    X : array-like
        All data passed to the selection. They are read once for all candidates, when the first one
        asks for it.
    digest : DataDigest, default=None
        The digest of the data, where somebody has read them already.
    """

    def __init__(self, store, X, digest=None):
        self.store = store
        self.X = X
        self._digest = digest
        self._can_name_data = None if digest is None else True

    @property
    def can_name_data(self):
        """Whether the data can be told from others; otherwise nothing can be kept."""
        if self._can_name_data is None:
            self._can_name_data = True
            try:
                self._digest = self.store.digest(self.X)
            except ValueError as error:
                self._can_name_data = False
                warnings.warn(
                    f"No features are kept: the data cannot be told from others, {error}.",
                    CacheNotWrittenWarning,
                    stacklevel=2,
                )
        return self._can_name_data

    def extract(self, candidate, fit_params, probabilities, name):
        """Give the features of one candidate.

        Parameters
        ----------
        candidate : fitted transformer
            The candidate, fitted on the data unless it is frozen.
        fit_params : dict
            What its fit was given.
        probabilities : bool
            Whether source probabilities are needed.
        name : str or None
            What the candidate is called.

        Returns
        -------
        found : StoredFeatures
            Features and probabilities.
        """
        return self.store.extract(
            candidate,
            self.X,
            data=self._digest,
            probabilities=probabilities,
            options=fit_params,
            name=name,
            just_fitted=not isinstance(candidate, FrozenEstimator),
        )

    def extract_layers(self, together, parts, fit_params, probabilities):
        """Give the features of several layers of one network, in one pass for those not kept yet.

        Parameters
        ----------
        together : fitted backbone
            One with all layers.
        parts : dict of int to (str, fitted backbone)
            Name and backbone for each part of the layers.
        fit_params : dict
            What the fit was given.
        probabilities : bool
            Whether source probabilities are needed.

        Returns
        -------
        found : dict of int to StoredFeatures
            Features and probabilities of each part.
        """
        store, found, keys = self.store, {}, {}
        for index, (name, part) in parts.items():
            keys[index] = store.key(part, self._digest, options=fit_params)
            found[index] = store.get(
                keys[index], probe=probe_of(part), probabilities=probabilities, name=name
            )
        missing = [index for index in parts if found[index] is None]
        if len(missing) == 1:
            name, part = parts[missing[0]]
            found[missing[0]] = self.extract(part, fit_params, probabilities, name)
        elif missing:
            wanted = dict.fromkeys(n for index in missing for n in parts[index][1].layer_names_)
            at_once = together.select_layers(list(wanted))
            names = " + ".join(parts[index][0] for index in missing)
            made = self.extract(at_once, fit_params, True, names)
            for index in missing:
                name, part = parts[index]
                slices = [at_once.layer_slices_[layer] for layer in part.layer_names_]
                columns = [made.features[:, columns] for columns in slices]
                features = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
                kept = store.put(keys[index], part, features, made.probabilities, name=name)
                kept.from_store = made.from_store
                # The pass is that of the first of them.
                kept.n_rows_run = made.n_rows_run if index == missing[0] else 0
                found[index] = kept
            if all(found[index].is_kept for index in missing):
                # Each layer is there by itself now.
                store.forget(at_once, self._digest, options=fit_params)
        return found
