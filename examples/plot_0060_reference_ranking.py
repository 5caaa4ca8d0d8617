"""
Fine-tune the zoo, and see which metrics were right
===================================================

Three metrics rank the tiny zoo on 100 digits, without training anything. Then every network is
fine-tuned, and also trained from scratch: which metric has guessed best, and was pretraining worth
it at all? All of it takes about a minute on one core.
"""

# %%
# Three guesses
# -------------
#
# No network of the zoo has seen these digits. LEEP compares labels with what the networks say of
# them in terms of their own source classes, LogME and the linear probe look at their features.

# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import numpy as np

from sktransfer.datasets import load_digits_target, load_tiny_zoo
from sktransfer.evaluation import rank_correlation, selection_regret
from sktransfer.finetune import FineTuneClassifier, reference_ranking
from sktransfer.model_selection import TransferabilitySelector

digits = load_digits_target()
zoo = load_tiny_zoo()
X, y = digits.images_train[:100], digits.y_train[:100]
X_test, y_test = digits.images_test[:400], digits.y_test[:400]

metrics = ["logme", "leep", "linearprobe"]
selector = TransferabilitySelector(zoo, metric=metrics, refit="logme").fit(X, y)
for metric in metrics:
    scores = selector.metric_scores_[metric]
    print(f"{metric:12} {', '.join(sorted(scores, key=scores.get, reverse=True)[:4])}, ...")

# %%
# What fine-tuning says
# ---------------------
#
# Every network is fine-tuned with two seeds, and so are the three architectures of the zoo with
# random weights. With ``out="folder"`` each of these trainings would be kept when it is done.

ranking = reference_ranking(
    zoo,
    X,
    y,
    X_test,
    y_test,
    scoring=["accuracy", "neg_log_loss"],
    estimator=FineTuneClassifier(None, lr=3e-3, max_epochs=8, batch_size=25),
    n_seeds=2,
    energy=False,
)
table = ranking.ranking("accuracy")
table

# %%
# Candidates of one group can't be told apart by two seeds. Next to a network stands what it gains
# over its own architecture from scratch. Some gain nothing:

negative = ranking.negative_transfer("accuracy")
negative

# %%
# A small network that was pretrained on pictures of cells would better not have been pretrained at
# all; nor did it help to have seen clothes with random labels. In the figure, a ring is the same
# architecture from scratch, and what is no better than its ring is red.

names = [row.candidate for row in table if not row.from_scratch][::-1]
places = dict(zip(names, range(len(names)), strict=True))
colors = {name: "#b03a2e" if table[name].gain <= 0 else "#00204d" for name in names}

figure, axis = plt.subplots(figsize=(7.5, 7.5), layout="constrained")
for row in ranking.rows:
    if row.measure == "accuracy" and not row.from_scratch:
        axis.plot(row.value, places[row.candidate], "|", color=colors[row.candidate], markersize=9)
for name, place in places.items():
    scratch = table[ranking.twins[name]].mean
    axis.hlines(place, scratch, table[name].mean, color=colors[name], linewidth=1.2, alpha=0.5)
    axis.plot(scratch, place, "o", color="white", markeredgecolor="#7c7b78", markersize=6)
    axis.plot(table[name].mean, place, "o", color=colors[name], markersize=7)
axis.set_yticks(list(places.values()), names)
for label in axis.get_yticklabels():
    label.set_color(colors[label.get_text()])
best = table[0].mean
axis.axvspan(best - table.least_difference, best, color="#d0a800", alpha=0.18, linewidth=0)
axis.annotate(
    "tied with the best", (best, 0), ha="right", xytext=(-4, 0), textcoords="offset points"
)
axis.set(xlabel="accuracy on 400 digits, two seeds and their mean", ylim=(-1, len(names)))
axis.spines[["top", "right"]].set_visible(False)

# %%
# Who guessed well
# ----------------
#
# How far the order by a metric agrees with that by fine-tuned accuracy, with the interval over
# networks drawn like these, and what it costs to fine-tune the network that the metric puts first.

reference = ranking.reference("accuracy")
agreement = {
    metric: rank_correlation(selector.metric_scores_[metric], reference, random_state=0)
    for metric in metrics
}
# How well one real fine-tuning of every network agrees with another: no metric can do much better.
one, other = (ranking.reference("accuracy", seed) for seed in range(2))
agreement["one fine-tuning"] = rank_correlation(one, other, random_state=0)
for name, result in agreement.items():
    low, high = result.interval
    line = f"{name:16} tau {result.statistic:.2f}, 95 % interval {low:.2f} to {high:.2f}"
    if name in metrics:
        regret = selection_regret(selector.metric_scores_[name], reference)
        line += (
            f", regret {100 * regret:.1f} points of accuracy (by chance {100 * regret.chance:.1f})"
        )
    print(line)

# %%

figure, axis = plt.subplots(figsize=(7.5, 2.2), layout="constrained")
height = np.arange(len(agreement))
low, high = np.array([result.interval for result in agreement.values()]).T
bars = ["#00204d"] * len(metrics) + ["#7c7b78"]
axis.hlines(height, low, high, color=bars, linewidth=2.2)
axis.scatter([r.statistic for r in agreement.values()], height, color=bars, s=60, zorder=3)
axis.axvline(0, color="black", linewidth=0.8)
axis.set_yticks(height, agreement)
axis.invert_yaxis()
axis.set(xlim=(-0.2, 1), xlabel="Kendall's tau with fine-tuned accuracy, 95 % interval")
axis.spines[["top", "right"]].set_visible(False)

# %%
# Intervals of 31 networks are wide, so these three metrics can hardly be told apart by them. And
# one real fine-tuning does not agree much better with another: on 100 images, seeds alone change
# the order.

plt.show()
