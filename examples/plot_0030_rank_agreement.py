"""
How far do two rankings agree?
==============================

A transferability metric is judged by how well its ranking agrees with that of fine-tuned networks.
But which ranking is that? A published study fine-tuned the same networks once for accuracy and once
for AUROC, and again on other training images. Here its tables are the data, and nothing is trained.
"""

# %%
# Twelve networks, two measures
# -----------------------------
#
# For each of eight targets, networks pretrained on twelve sources were fine-tuned. Every source has
# a number by accuracy and one by AUROC, which ``rank_correlation`` pairs by name.

# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import numpy as np

from sktransfer.datasets import load_medmnist_reference
from sktransfer.evaluation import competition_ranks, rank_correlation, selection_regret

published = load_medmnist_reference()
accuracy, auroc = (published.reference("Breast", measure) for measure in ("accuracy", "auroc"))
rank_correlation(accuracy, auroc)

# %%
# Agreement with intervals
# ------------------------
#
# Three pairs of fine-tuning runs for each target: two measures on all training images, two subsets
# of 5 % by the same measure, and 5 % against all. A bar is the 95 % interval over sources drawn
# like these. Most bars reach from nothing to strong agreement: twelve networks are few.

small, other = ({"train_subset": "5pct", "seed": seed} for seed in (42, 43))
comparisons = {
    "accuracy and AUROC, all images": (("accuracy", {}), ("auroc", {})),
    "AUROC, two subsets of 5 %": (("auroc", small), ("auroc", other)),
    "AUROC, 5 % and all images": (("auroc", small), ("auroc", {})),
}
colors = ["#00204d", "#7c7b78", "#d0a800"]
markers = ["o", "s", "D"]

figure, axis = plt.subplots(figsize=(7.5, 5), layout="constrained")
places = np.arange(len(published.targets))
for row, (label, (first, second)) in enumerate(comparisons.items()):
    results = [
        rank_correlation(
            published.reference(target, first[0], **first[1]),
            published.reference(target, second[0], **second[1]),
            n_permutations=0,  # no p-values are drawn
        )
        for target in published.targets
    ]
    height = places + 0.24 * (row - 1)
    low, high = np.array([result.interval for result in results]).T
    axis.hlines(height, low, high, color=colors[row], linewidth=2.2)
    axis.plot(
        [result.statistic for result in results],
        height,
        markers[row],
        color=colors[row],
        markeredgecolor="white",
        markersize=8,
        label=label,
    )
axis.axvline(0, color="black", linewidth=0.8)
axis.set_yticks(places, published.targets)
axis.invert_yaxis()
axis.set(xlim=(-1, 1), xlabel="Kendall's tau, 95 % interval")
axis.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside upper center", ncols=2, frameon=False)

# %%
# Who moves
# ---------
#
# On Breast, the smallest target, the source Path is second by accuracy and eleventh by AUROC. Lines
# that cross are pairs of networks in another order; equal ranks lie on each other.


def slope_chart(axis, left, right, titles, marked):
    """Draw the ranks by two measures and a line for each source."""
    ranks = [
        dict(zip(side, competition_ranks(list(side.values())), strict=True))
        for side in (left, right)
    ]
    for source in left:
        y = [rank[source] for rank in ranks]
        color = "#00204d" if source == marked else "#b5b3ae"
        axis.plot([0, 1], y, "o-", color=color, linewidth=2.4 if source == marked else 1.4)
    for side, rank in enumerate(ranks):
        for place in sorted(set(rank.values())):
            members = [source for source in rank if rank[source] == place]
            axis.annotate(
                ", ".join(members),
                (side, place),
                xytext=(-10 if side == 0 else 10, 0),
                textcoords="offset points",
                ha="right" if side == 0 else "left",
                va="center",
                fontweight="bold" if marked in members else "normal",
            )
    axis.set_xticks([0, 1], titles)
    axis.set(xlim=(-1.1, 1.6), ylabel="rank")
    axis.invert_yaxis()
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


figure, axis = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
slope_chart(axis, accuracy, auroc, ["accuracy", "AUROC"], "Path")

# %%
# What it costs
# -------------
#
# A low agreement need not be dear. The regret of fine-tuning the best source by AUROC, in
# points of accuracy, and that of a random choice:

for target in published.targets:
    by = {measure: published.reference(target, measure) for measure in published.measures}
    regret = selection_regret(by["auroc"], by["accuracy"])
    print(f"{target:9} {100 * regret:4.1f} of {100 * regret.chance:4.1f}")

# %%
# On OrganA and OCT the choice by AUROC is about as bad as chance. On Pneumonia and Derma it is the
# best there is, because one source leads by every measure.

plt.show()
