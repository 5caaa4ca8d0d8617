"""
How stable is a ranking of backbones?
=====================================

You have labelled a few hundred images and ranked pretrained networks by a transferability metric.
Another few hundred of the same kind would have given another ranking. How different a one? A
robustness study answers that with the images you have: it scores the networks on many smaller
samples of them and compares the rankings.
"""

# %%
# Three calls
# -----------
#
# The candidates are thirteen of the small networks that ship with the package, the target are 500
# of scikit-learn's digits. Miniature populations of 10, 25 and 50 % are drawn five times each,
# nested and with the classes in their shares. Each network is run once over the images; everything
# else is a selection of rows of its features.
#
# On the smallest samples many scores cannot be told from those of shuffled labels. A warning for
# each metric says how many; here they are not shown.

# sphinx_gallery_thumbnail_number = 1
import warnings

import matplotlib.pyplot as plt

from sktransfer.datasets import load_digits_target, load_tiny_zoo
from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.inspection import MetricAgreementDisplay, RankBumpDisplay, StabilityDisplay
from sktransfer.model_selection import NestedStratifiedSubsets, RobustnessStudy

digits = load_digits_target()
images, labels = digits.images_train[:500], digits.y_train[:500]

names = "cells fashion fashion_random fashion_rotation gratings letters letters_vowels mnist"
names += " printed_digits shapes strokes textures untrained"
study = RobustnessStudy(
    load_tiny_zoo(names=names.split()),
    metrics=["hscore", "leep", "logme", "ncti"],
    subsets=NestedStratifiedSubsets(fractions=(0.1, 0.25, 0.5), n_repeats=5),
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UninformativeScoreWarning)
    study.run(images, labels, target="digits")
study.to_frame().head()

# %%
# Do samples of one size agree?
# -----------------------------
#
# The mean of Kendall's τ over all pairs of the five rankings. A metric that is read off 50 images
# ranks the networks by chance to some extent; with 250 the rankings are close to each other.

StabilityDisplay.from_study(study)

# %%
# Is a part enough?
# -----------------
#
# The same between each ranking and that on all 500 images.

StabilityDisplay.from_study(study, kind="ref")

# %%
# Who moves
# ---------
#
# The rankings by LEEP on the five samples of 50 images. Lines that cross are networks in another
# order.

RankBumpDisplay.from_study(study, metric="leep", fraction=0.1)

# %%
# Do metrics agree?
# -----------------
#
# On the same samples, metric by metric. That two agree does not say that either is right: for
# that a study takes a ``reference``, such as the accuracy after fine-tuning.

MetricAgreementDisplay.from_study(study, fraction=[0.1, 1.0])

plt.show()
