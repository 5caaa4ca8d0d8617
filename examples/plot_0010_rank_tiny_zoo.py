"""
Rank a zoo of pretrained networks on digits
===========================================

The package ships small networks that were pretrained on different sources: clothes, handwritten
digits, printed letters, drawn shapes, wrong labels, nothing at all. Which of them would you
fine-tune to read scikit-learn's digits, if you may only look and not train?
"""

# %%
# The target
# ----------
#
# A fixed training and test part; the score may see the training part only. A hundred labelled
# images are what many real projects have.

import matplotlib.pyplot as plt

from sktransfer.datasets import load_digits_target, load_tiny_zoo

digits = load_digits_target()
images, labels = digits.images_train[:100], digits.y_train[:100]

figure, axes = plt.subplots(1, 8, figsize=(8, 1.4), layout="constrained")
for axis, image, label in zip(axes, images, labels, strict=False):
    axis.imshow(image, cmap="gray")
    axis.set_title(label)
    axis.set_axis_off()

# %%
# Two metrics, one forward pass
# -----------------------------
#
# LogME reads the features, LEEP the probabilities that the network's own head gives to the classes
# of its source. The selector extracts each network once and scores both. ``refit`` says which
# metric decides.

from sktransfer.model_selection import TransferabilitySelector

zoo = load_tiny_zoo()
selector = TransferabilitySelector(zoo, metric=["logme", "leep"], refit="logme")
selector.fit(images, labels)
selector.to_frame()

# %%
# The ranking
# -----------

from sktransfer.inspection import RankingDisplay

RankingDisplay.from_estimator(selector)

# %%
# How far to trust it
# -------------------
#
# A score depends on which hundred images were drawn. ``cv`` scores the training part of every
# split, which costs no further forward pass, and the bars show how much the score moves.

resampled = TransferabilitySelector(zoo, metric="logme", cv=5).fit(images, labels)
RankingDisplay.from_estimator(resampled)

# %%
# Do the metrics agree with each other, and with the size of the network? A metric that only
# repeated the size would not be worth computing.

table = selector.to_frame()
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
axes[0].scatter(table["leep"], table["logme"])
axes[0].set(xlabel="LEEP", ylabel="LogME")
axes[1].scatter(table["n_parameters"], table["logme"])
axes[1].set(xlabel="parameters", xscale="log")
plt.show()
