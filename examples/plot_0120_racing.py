"""
Race the candidates
===================

A metric chooses among pretrained networks without training any of them. Fine-tuning all of them
would be surer, and is too costly. A race is in between: the candidates that the metric puts first
are fine-tuned for a few epochs, judged on images that they were not trained on, and the better half
goes on, within a budget.
"""

# %%
# A race
# ------
#
# Seventeen networks and 60 digits. The budget is a share of fine-tuning all of them once, as
# ``estimator`` says. The first four by LogME may start.

import warnings

import matplotlib.pyplot as plt

from sktransfer.datasets import load_digits_target, load_tiny_zoo
from sktransfer.finetune import FineTuneClassifier
from sktransfer.model_selection import HalvingTransferabilitySelector

digits = load_digits_target()
X, y = digits.images_train[:60], digits.y_train[:60]
zoo = [pair for pair in load_tiny_zoo(exclude_families=["fashion"]) if "double" not in pair[0]][:17]

race = HalvingTransferabilitySelector(
    zoo,
    metric="logme",
    estimator=FineTuneClassifier(None, lr=3e-3, max_epochs=30),
    start=4 / len(zoo),
    budget=0.3,
).fit(X, y)
print(f"{race.best_name_} has won, for {race.cost_:.0%} of fine-tuning all candidates once.")
accuracy = race.score(digits.images_test, digits.y_test)
print(f"Fine-tuned on all of the 60 images, it has an accuracy of {accuracy:.3f}.")

# %%
# Every decision is written down. Round 0 is the metric's alone.

table = race.to_frame()
columns = ["round", "candidate", "metric_rank", "n_epochs", "score", "decision", "reason"]
table.loc[table["n_epochs"] > 0, columns].round(3)

# %%
# When the metric is wrong
# ------------------------
#
# The order by the metric stands until another candidate is surely better on the validation images.
# Among good candidates hardly any ever is: on 60 images the best validated is mostly the luckiest.
# A metric may say itself that its scores say nothing, though. ETran compares covariances, for which
# 60 images are too few; it warns, and puts textures and cells first. Then validation decides.

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    misled = HalvingTransferabilitySelector(
        zoo,
        metric="etran",
        estimator=FineTuneClassifier(None, lr=3e-3, max_epochs=30),
        start=4 / len(zoo),
        budget=0.3,
    ).fit(X, y)
first = min(misled.metric_ranks_, key=misled.metric_ranks_.get)
print(f"By ETran {first} is the first. The winner is {misled.best_name_}.")

# %%
# In the figure, a line is a candidate from round to round, with the standard error of its distance
# to the leader: the first by the metric, or the best validated if the metric says nothing. The area
# of a dot is what the round has cost. The first by the metric is filled, and the winner has a ring.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
colors = ["#00204d", "#b03a2e", "#1e8449", "#9a7d0a"]
for axis, found, title in zip(axes, (race, misled), ("LogME", "ETran"), strict=True):
    history = found.history_
    started = sorted(set(history["candidate"][history["round"] == 1]), key=found.metric_ranks_.get)
    for shift, (name, color) in enumerate(zip(started, colors, strict=False)):
        rows = (history["candidate"] == name) & (history["round"] > 0)
        epochs = history["n_epochs"][rows] + 0.12 * (shift - 1.5)
        scores = history["score"][rows]
        axis.errorbar(epochs, scores, history["standard_error"][rows], color=color, label=name)
        face = color if shift == 0 else "white"
        size = 1500 * history["cost"][rows]
        axis.scatter(epochs, scores, size, facecolor=face, edgecolor=color, zorder=3)
        if name == found.best_name_:
            axis.scatter(epochs[-1:], scores[-1:], 320, facecolor="none", edgecolor="0.3", zorder=2)
    axis.set(title=f"first by {title}", xlabel="epochs", xlim=(0, 30))
    axis.legend(loc="lower right", frameon=False)
axes[0].set_ylabel("accuracy on validation images")
plt.show()
