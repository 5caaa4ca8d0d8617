"""
Acting on a ranking
===================

A ranking is one number per candidate. What is it worth, and which candidates should be fine-tuned?
Here nine networks that were trained on clothes are ranked for a few handwritten digits. Simple
rules are computed beside the metrics, two metrics decide together, and the set of candidates that
may be the best is compared with what real fine-tuning gave.
"""

# %%
# Rank, and read what is said beside the ranking
# ----------------------------------------------

# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import numpy as np

from sktransfer.datasets import load_digits_target, load_tiny_benchmark, load_tiny_zoo
from sktransfer.model_selection import TransferabilitySelector

digits = load_digits_target()
benchmark = load_tiny_benchmark()
rows = benchmark.train_rows("digits", train_size=100, seed=0)
X, y = digits.images[rows], digits.y[rows]
zoo = [(name, backbone) for name, backbone in load_tiny_zoo() if name.startswith("fashion")]
selector = TransferabilitySelector(
    zoo, metric=["logme", "pactran"], refit="consensus", baselines="all", n_resamples=40
)
selector.fit(X, y)
for sentence in selector.findings_:
    print("-", sentence)

# %%
# The consensus of LogME and PACTran is in nats per sample and does not depend on who else is in
# the list. Would another candidate be the best without one of the two?

print(selector.consensus_)
print("depends on:", selector.consensus_.depends_on or "neither of them")

# %%
# Two different promises
# ----------------------
#
# Candidates that cannot be told apart on *so many samples*, and candidates that may be the best
# *after fine-tuning*. The second set was calibrated on real fine-tuning, and says on which.

print("sampling:", selector.tied_with_best_)
print("decision:", list(selector.decision_set_))
print(selector.decision_set_.statement)

# %%
# The baselines in a figure
# -------------------------
#
# Scores with their intervals, the untrained twins, which are the same architectures with random
# weights, and the accuracy after fine-tuning, the mean of four other draws of training images.

order = sorted(selector.scores_, key=selector.scores_.get)
places = np.arange(len(order))
uncertainty = selector.uncertainty_["consensus"]
interval = dict(zip(uncertainty.names, uncertainty.score_interval, strict=True))
accuracy = benchmark.reference("digits", train_size=100, without_seed=0)
twins = selector.baseline_scores_["untrained_twin"]

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4.2), sharey=True, layout="constrained", width_ratios=(3, 2)
)
for place, name in zip(places, order, strict=True):
    color = "#00204d" if name in selector.decision_set_ else "#9a978f"
    left.plot(interval[name], [place, place], color=color, linewidth=2)
    left.plot(selector.scores_[name], place, "o", color=color)
    left.plot(twins[name], place, "x", color="#b2432f")
    right.plot(accuracy[name], place, "o", color=color)
left.plot([], [], "o-", color="#00204d", label="may be the best after fine-tuning")
left.plot([], [], "o-", color="#9a978f", label="other candidates")
left.plot([], [], "x", color="#b2432f", label="untrained twin")
left.set(xlabel="consensus of LogME and PACTran, nats per sample", yticks=places)
left.set_yticklabels(order)
right.set(xlabel="test accuracy after fine-tuning")
for axis in (left, right):
    axis.grid(axis="x", color="#e4e2dc")
    axis.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside lower center", ncols=3, frameon=False)

# %%
# What a decision set is worth
# ----------------------------
#
# In all cells of the bundled benchmark in which one fine-tuning foretells the others: how often
# the set held the best candidate, calibrated without the cell's target, and how large it was.

from sktransfer.datasets import load_decision_calibration

for metric in ("logme", "consensus", "linearprobe", "knn"):
    found = load_decision_calibration(metric)
    print(f"{metric:12} held the best in {found.coverage:4.0%}, with {found.share:4.0%} of them")

plt.show()
