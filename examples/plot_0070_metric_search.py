"""
Which metric would have ranked them right?
==========================================

There are many transferability metrics, most of them have parameters, and each paper prefers its
own. On a target where the candidates have been fine-tuned once, they can be compared: which metric,
with which parameters, agrees best with what fine-tuning gave?
"""

# %%
# Candidates, images, reference
# -----------------------------
#
# The tiny zoo has been fine-tuned on 100 digits several times, each time on another draw of
# images; the bundled benchmark has the results. The draws 2, 3 and 4 are the reference here. The
# metrics are computed on the draws 0 and 1: images that suit one network by chance then
# don't flatter its score and its accuracy alike.

# sphinx_gallery_thumbnail_number = 1
import warnings

import matplotlib.pyplot as plt
import numpy as np

from sktransfer.datasets import load_digits_target, load_tiny_benchmark, load_tiny_zoo
from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.model_selection import MetricSearchCV

benchmark, digits = load_tiny_benchmark(), load_digits_target()
measured = [benchmark.reference("digits", train_size=100, seed=seed) for seed in (2, 3, 4)]
accuracy = {name: np.mean([seed[name] for seed in measured]) for name in measured[0]}
draws = [benchmark.train_rows("digits", train_size=100, seed=seed) for seed in (0, 1)]

# Only the images of the two draws go through the networks.
rows = np.unique(np.concatenate(draws))
subsets = [np.searchsorted(rows, draw) for draw in draws]

# %%
# One pass, thirteen settings
# ---------------------------
#
# ``param_grid`` gives values to try, metric by metric. Each network is run over the images once,
# however many settings there are.

search = MetricSearchCV(
    load_tiny_zoo(),
    ["logme", "hscore", "gbc", "knn", "leep", "linearprobe", "transrate"],
    {
        "hscore__shrinkage": [None, 0.1, "ledoit_wolf"],
        "gbc__covariance_type": ["spherical", "diagonal"],
        "knn__n_neighbors": [1, 5],
        "leep__temperature": [1.0, 3.0],
        "transrate__weights": ["prior", "uniform"],
    },
    reference=accuracy,
    cv=subsets,
)
with warnings.catch_warnings():
    # Some scores can't be told from those of shuffled labels; search.warnings_ keeps that.
    warnings.simplefilter("ignore", UninformativeScoreWarning)
    search.fit(digits.images[rows], digits.y[rows])

columns = ["rank", "setting", "weighted_kendall", "kendall", "pearson", "regret"]
search.to_frame()[columns].round(3)

# %%
# The two variants of TransRate share their rank: they differ in how classes are weighted, and the
# classes of these draws are equally large. Equal means are ties.
#
# How sure is that?
# -----------------
#
# A bar is the 95 % interval of the agreement over candidates drawn like these. Dark
# settings can't be told apart from the best one. That takes into account that the best of many was
# picked, and that all were compared on the same candidates, which overlapping bars do not.

frame = search.to_frame()[::-1]
colors = np.where(frame["weighted_kendall_tied"], "#00204d", "#b5b3ae")
places = np.arange(len(frame))
figure, axes = plt.subplots(1, 2, figsize=(8.5, 4.8), sharey=True, layout="constrained")
axes[0].hlines(
    places, frame["weighted_kendall_lower"], frame["weighted_kendall_upper"], colors, linewidth=2.2
)
axes[0].scatter(frame["weighted_kendall"], places, c=colors, s=55, edgecolor="white", zorder=3)
axes[0].axvline(0, color="black", linewidth=0.8)
axes[0].set_yticks(places, frame["setting"])
axes[0].set(xlabel="weighted tau with fine-tuned accuracy", title="agreement, 95 % interval")

chance = 100 * search.chance_["regret"]
axes[1].barh(places, 100 * frame["regret"], color=colors, height=0.6)
axes[1].axvline(chance, color="#b2432f", linestyle="--", linewidth=1.4)
axes[1].annotate(
    "random choice",
    (chance, 0.5),
    xytext=(-5, 0),
    textcoords="offset points",
    ha="right",
    color="#b2432f",
)
axes[1].set(xlabel="points of accuracy", title="lost by taking its first choice")
axes[1].set_xlim(0, 1.08 * max(chance, 100 * frame["regret"].max()))
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)

# %%
# Does any of them agree at all? The p-value of the best is the share of random references with
# which the best of *all* settings agrees as well. A p-value of the best by itself would be
# too small, as the best of many is always good.

print(f"{search.labels_[search.best_index_]}: {search.best_score_:.2f}, p={search.best_pvalue_}")
print(f"{len(search.tied_with_best_)} of {len(search.labels_)} settings may be as good")

# %%
# What it is good for
# -------------------
#
# ``best_estimator_`` is a metric with these parameters, ready to rank candidates that have not been
# fine-tuned: ``TransferabilitySelector(candidates, search.best_estimator_)``. But this is one
# target. That a setting is ahead on a hundred digits is no evidence for X-ray images; the same
# search on more targets is.

plt.show()
