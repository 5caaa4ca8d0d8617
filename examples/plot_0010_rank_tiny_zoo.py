"""
Rank a zoo of pretrained networks on digits
===========================================

The package ships small networks that were pretrained on different sources: clothes, handwritten
digits, drawn letters, figures, strokes, textures, wrong labels, nothing at all. Which of them
would you fine-tune to read scikit-learn's digits, if you may only look and not train?
"""

# %%
# The target
# ----------
#
# It has a fixed training and test part, and a score may see the training part only. A hundred
# labelled images are what many real projects have.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt

from sktransfer.datasets import load_digits_target, load_tiny_zoo

digits = load_digits_target()
images, labels = digits.images_train[:100], digits.y_train[:100]

figure, axes = plt.subplots(1, 10, figsize=(8, 1.2))
for axis, image, label in zip(axes, images, labels, strict=False):
    axis.imshow(image, cmap="gray")
    axis.set_title(label)
    axis.set_axis_off()

# %%
# One forward pass, two metrics, five splits
# ------------------------------------------
#
# LogME reads the features, LEEP the probabilities that the network's own head gives to the classes
# of its source. The selector runs each network once and computes both; ``refit`` says which of
# them decides. With ``cv=5`` the training part of every split is scored, which costs no further
# forward pass, and tells how much the scores depend on which images we happened to have.
#
# One score can't be told from that of shuffled labels: LEEP's of a network that has learned to name
# textures. A warning would say so; ``selector.warnings_`` keeps it under the candidate's name.

import warnings

from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.model_selection import TransferabilitySelector

zoo = load_tiny_zoo()
metrics = ["logme", "leep"]
selector = TransferabilitySelector(zoo, metrics, refit="logme", cv=5)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UninformativeScoreWarning)
    selector.fit(images, labels)
table = selector.to_frame()
columns = ["rank", "candidate", "logme", "logme_std", "leep", "leep_std"]
table[columns].head(8)

# %%
# The ranking
# -----------
#
# Networks that were pretrained on handwritten digits come first. That is as it should be, and a
# check of the metric rather than news. Look at the places behind them, at the bars, and at how
# far the untrained networks are from the bottom.

from sktransfer.inspection import RankingDisplay

display = RankingDisplay.from_estimator(selector)

# %%
# If no such network existed
# --------------------------
#
# The card of each network names the family of its source. Scores don't depend on who else is in
# the list, so leaving a family out is a choice of rows.

families = {name: backbone.card.family for name, backbone in zoo}
table["family"] = table["candidate"].map(families)
table.loc[table["family"] != "mnist", [*columns, "family"]].head(5)

# %%
# Do the metrics agree, and is it only size?
# ------------------------------------------
#
# A metric that repeated the size of the network would not be worth computing.

table["size"] = table["n_parameters"].astype(float) / 1000
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True)
figure.set_layout_engine("constrained")
for family, rows in table.groupby("family"):
    axes[0].scatter(rows["leep"], rows["logme"], label=family)
    axes[1].scatter(rows["size"], rows["logme"], label=family)
axes[0].set(xlabel="LEEP", ylabel="LogME")
axes[1].set(xlabel="thousand parameters")
axes[1].legend(title="family", loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()
