"""
How close to the ceiling?
=========================

A metric can't be asked to foretell fine-tuning better than fine-tuning itself does. The bundled
benchmark has the tiny zoo fine-tuned on three targets, with four numbers of training images and
five seeds each, and so the agreement of one real fine-tuning with the mean of the others is known:
the *ceiling*. Nothing is trained here.
"""

# %%
# The tables
# ----------
#
# A cell is a target, a number of training images and a seed. It holds the test performance of
# every candidate after fine-tuning, and the scores of every metric on the same training images.

# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import numpy as np

from sktransfer.datasets import load_tiny_benchmark
from sktransfer.evaluation import rank_correlation

benchmark = load_tiny_benchmark()
cell = {"target": "digits", "train_size": 100}
logme = benchmark.scores("logme", seed=0, **cell)
accuracy = benchmark.reference(measure="accuracy", without_seed=0, **cell)
rank_correlation(logme, accuracy)

# %%
# The interval is wide, as it is for any single cell. On average over seeds:

print(f"LogME    {benchmark.agreement('logme', **cell).kendall:.2f}")
print(f"ceiling  {benchmark.ceiling(**cell).kendall:.2f}")

# %%
# Agreement by number of training images
# --------------------------------------
#
# Lines are means over the five seeds: black the ceiling, with its range over seeds; in colour some
# metrics, in grey all others, and dashed the rule "take the largest network".

sizes = benchmark.train_sizes
shown = {
    "logme": ("LogME", "#00204d", "o"),
    "linearprobe": ("LinearProbe", "#1f78b4", "s"),
    "knn": ("KNN", "#d0a800", "D"),
    "leep": ("LEEP", "#b2432f", "^"),
}
titles = {"digits": "digits", "mnist": "MNIST, unseen half", "fashion": "Fashion-MNIST, test file"}
figure, axes = plt.subplots(1, 3, figsize=(10, 4.4), sharey=True, layout="constrained")
for axis, target in zip(axes, benchmark.targets, strict=True):
    ceilings = [benchmark.ceiling(target, train_size=size) for size in sizes]
    by_seed = np.array([list(ceiling.kendall_by_seed.values()) for ceiling in ceilings])
    axis.fill_between(sizes, by_seed.min(axis=1), by_seed.max(axis=1), color="black", alpha=0.1)
    for metric in benchmark.metrics:
        taus = [benchmark.agreement(metric, target, train_size=size).kendall for size in sizes]
        if metric in shown:
            label, color, marker = shown[metric]
            axis.plot(sizes, taus, marker=marker, color=color, label=label, markeredgecolor="white")
        else:
            axis.plot(sizes, taus, color="#c9c7c2", linewidth=1, zorder=1)
    largest = {
        name: benchmark.candidate_facts[name]["n_parameters"]
        for name in benchmark.candidates(target)
    }
    taus = [benchmark.agreement(largest, target, train_size=size).kendall for size in sizes]
    axis.plot(sizes, taus, "--", color="#55534f", label="number of parameters")
    axis.plot(
        sizes,
        [ceiling.kendall for ceiling in ceilings],
        color="black",
        linewidth=2.8,
        label="ceiling: one real fine-tuning",
    )
    axis.set_xscale("log")
    axis.set_xticks(sizes, sizes)
    axis.minorticks_off()
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set(title=titles[target], xlabel="training images")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("Kendall's tau with fine-tuned accuracy")
handles, labels = axes[0].get_legend_handles_labels()
figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=3, frameon=False)

# %%
# On few images LogME and the linear probe come close to the ceiling on the digits, and stay below
# it on MNIST. At 1,000 digits the candidates differ by a few test images, and one fine-tuning
# foretells the next less well than a metric that has no luck in training. On Fashion-MNIST taking
# the largest network is as good a rule as most metrics.
#
# What a wrong choice costs, in points of accuracy, at 100 images:

for target in benchmark.targets:
    regrets = {
        metric: 100 * benchmark.agreement(metric, target, train_size=100).regret for metric in shown
    }
    regrets["ceiling"] = 100 * benchmark.ceiling(target, train_size=100).regret
    print(f"{target:8}", "  ".join(f"{name} {regret:.1f}" for name, regret in regrets.items()))

plt.show()
