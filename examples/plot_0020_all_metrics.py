"""
All metrics on the same networks
================================

There are some twenty metrics in this package. Do they say the same? Twelve networks of the zoo and
300 images of digits are enough to see where they agree, and what each looks at when they don't.
"""

# %%
# One forward pass per network, sixteen metrics
# ---------------------------------------------
#
# The metrics come in groups: those of the features, those of the outputs that the network gives in
# its own source classes, and one that compares features with the means of the source classes.
# ``LP``, ``FU`` and ``LPFU`` take longer and are left out. What is random has a seed. A score that
# can't be told from those of shuffled labels is announced; who said so of whom is printed below.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from sktransfer.datasets import load_digits_target, load_tiny_zoo
from sktransfer.evaluation import competition_ranks
from sktransfer.exceptions import TransferabilityWarning, UninformativeScoreWarning
from sktransfer.metrics import NLEEP, get_metric
from sktransfer.model_selection import TransferabilitySelector

groups = {
    "features": ["LogME", "HScore", "GBC", "TransRate", "SFDA", "NCTI", "ETran"],
    "source\noutputs": ["LEEP", "NCE"],
    "source\nmeans": ["PAS"],
}
groups["features"] += ["PACTran", "PARC", "NLEEP", "OTCE", "KNN", "LinearProbe"]
names = [name for members in groups.values() for name in members]
metrics = {name: get_metric(name) for name in names}
metrics["NLEEP"] = NLEEP(random_state=0)

chosen = ["mnist", "mnist_small", "printed_digits", "letters", "letters_double"]
chosen += ["strokes", "textures", "shapes", "fashion", "fashion_random", "cells", "untrained"]
zoo = dict(load_tiny_zoo())
digits = load_digits_target()
images, labels = digits.images_train[:300], digits.y_train[:300]

selector = TransferabilitySelector(
    [(name, zoo[name]) for name in chosen], metric=metrics, refit="LogME"
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UninformativeScoreWarning)
    selector.fit(images, labels)
for candidate, messages in selector.warnings_.items():
    print(candidate, *messages, sep="\n    ")
table = selector.to_frame().set_index("candidate")[names]
table[["LogME", "HScore", "SFDA", "KNN", "LEEP", "PAS"]].round(3)

# %%
# Ranks, not scores
# -----------------
#
# The scores have no unit in common: one is the logarithm of a density, another an accuracy.
# Ranks can be put side by side. Rows are ordered by their mean rank, dark is best.

ranks = table.apply(lambda scores: competition_ranks(scores.to_numpy()))
ranks = ranks.loc[ranks.mean(axis=1).sort_values(kind="stable").index]


def rank_map(ranks):
    """Draw ranks as a map with a gap between the groups of metrics."""
    widths = [len(members) for members in groups.values()]
    figure, axes = plt.subplots(
        1, len(groups), figsize=(9, 5), sharey=True, width_ratios=widths, layout="constrained"
    )
    for axis, (group, members) in zip(axes, groups.items(), strict=True):
        values = ranks[members].to_numpy()
        axis.imshow(values, cmap="cividis", vmin=1, vmax=len(ranks), aspect="auto")
        for (row, column), rank in np.ndenumerate(values):
            color = "white" if rank <= len(ranks) / 2 else "black"
            axis.text(column, row, int(rank), ha="center", va="center", color=color)
        axis.set_xticks(range(len(members)), members)
        axis.tick_params(axis="x", rotation=60)
        for label in axis.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
        axis.set_title(group, fontsize=10)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    axes[0].set_yticks(range(len(ranks)), ranks.index)


rank_map(ranks)

# %%
# Networks that have learned to read, the mnist and letters families, are at the top of nearly every
# column. Look at the columns that differ:
#
# * *TransRate* counts what the features tell apart at a fixed precision in their own unit, so that
#   scale and width enter: ``fashion_random``, which was trained on random labels, is third.
# * *ETran* has a part that reads no labels: how large the features are.
# * *PAS* reads no target labels at all, only whether the images fall clearly to *one* source class
#   each. ``cells`` comes first, whatever its features are worth here.
# * *LEEP* and *NCE* see nothing but the source classes. ``textures`` falls behind with features
#   that the others put in the middle.
# * *OTCE* was told of no source here, and compares the target with itself.
#
# How much does each column have in common with the mean rank of all?

common = ranks.rank().corrwith(ranks.mean(axis=1).rank()).sort_values()
figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
axis.plot(common, range(len(common)), "o", color="#00204d")
axis.hlines(range(len(common)), 0, common, color="#7c7b78", linewidth=1)
axis.set_yticks(range(len(common)), common.index)
axis.set(xlabel="rank correlation with the mean rank", xlim=(min(0, common.min()) - 0.05, 1.05))
axis.axvline(0, color="black", linewidth=0.8)

# %%
# Agreement is not truth. Metrics of one kind outvote the others, and none of them has seen what
# fine-tuning makes of a network.
#
# With fewer images
# -----------------
#
# A score that carries no information is announced. With 40 images and 64 features any labels can
# be explained, and the metrics that have seen the labels they score say so.

with warnings.catch_warnings():
    warnings.simplefilter("ignore", TransferabilityWarning)
    features = zoo["mnist"].fit(images).transform(images)[:40]
    fitted = {
        name: get_metric(name).fit(features, labels[:40])
        for name in ("HScore", "SFDA", "NCTI", "KNN")
    }
{name: (round(metric.score_, 2), metric.saturated_) for name, metric in fitted.items()}
