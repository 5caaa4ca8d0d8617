"""
Rare classes, and the measure you will be judged by
===================================================

A target in which one class is rare, as a finding in screening images is, asks for another measure
than accuracy: the network that calls everything the frequent class has 98 %. What does that change
for the choice of a pretrained network? Here three hundred digits, of which six are the rare class.
"""

# %%
# Six images of the rare class
# ----------------------------
#
# Is it an 8? Six of three hundred training images are.

# sphinx_gallery_thumbnail_number = 1
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone

from sktransfer.datasets import load_digits_target, load_tiny_zoo
from sktransfer.metrics import KNN, LinearProbe, LogME
from sktransfer.model_selection import TransferabilitySelector

digits = load_digits_target()
labels = (digits.y == 8).astype(int)
rng = np.random.default_rng(0)
rows = np.concatenate(
    [rng.permutation(np.flatnonzero(labels == label))[:size] for label, size in [(0, 294), (1, 6)]]
)
X, y = digits.images[rows], labels[rows]
np.bincount(y)

# %%
# Tell the selector
# -----------------
#
# With ``target_measure`` the selector takes the variant of a metric that suits the measure: for an
# AUROC that of a linear probe, over pairs of samples that are left out together, for balanced
# accuracy the probe with balanced classes.

names = ["mnist", "printed_digits", "letters", "fashion", "strokes", "cells", "shapes", "untrained"]
zoo = load_tiny_zoo(names=names)
for measure in ("accuracy", "balanced_accuracy", "roc_auc"):
    selector = TransferabilitySelector(zoo, target_measure=measure, baselines=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of candidates whose score says nothing
        selector.fit(X, y)
    print(f"{measure}: {selector.best_name_} by {selector.metric_!r}")

# %%
# One probe, judged in three ways
# -------------------------------
#
# The accuracies of the probe lie close to 98 %, which is what no features at all reach; seen by
# AUROC the networks are far apart. The lines are what features without any information would score.

features = {name: backbone.fit(X).transform(X) for name, backbone in zoo}
probes = {
    "accuracy": LinearProbe(),
    "balanced accuracy\n(balanced classes)": LinearProbe(class_weight="balanced"),
    "AUROC": LinearProbe(scoring="roc_auc_ovr"),
}
figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), layout="constrained", sharey=True)
places = np.arange(len(names))[::-1]
for axis, (title, probe) in zip(axes, probes.items(), strict=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same, which the figure shows
        fitted = [clone(probe).fit(features[name], y) for name in names]
    axis.plot([metric.score_ for metric in fitted], places, "o", color="#00204d")
    chance = np.mean([metric.chance_level_ for metric in fitted])
    axis.axvline(chance, color="#d0a800", linewidth=2)
    axis.set(title=title, xlabel="score", xlim=(min(0.4, chance - 0.05), 1.02))
    axis.grid(axis="x", alpha=0.3)
axes[0].set_yticks(places, names)
plt.show()

# %%
# Weights in other metrics
# ------------------------
#
# Every metric whose definition takes weights has ``class_weight``, and ``sample_weight`` in
# ``fit``. For nearest neighbours "balanced" gives the leave-one-out balanced accuracy.

F = features["printed_digits"]
for metric in (KNN(), KNN(class_weight="balanced"), LogME(), LogME(class_weight="balanced")):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric.fit(F, y)
    print(f"{metric!r}: {metric.score_:.3f}, by chance {metric.chance_level_:.3f}")
