"""
Which candidates can't be told apart?
=====================================

Eighty labelled images give one score for each network, and other eighty would have given others.
Two questions follow, and they are not the same:

- Which network would have the highest score on average over such samples? That is a question
  about *sampling*. The images at hand can answer it, by resampling them.
- Which network is the best after fine-tuning? No resampling answers that, because a score is only
  a guess at it. How good a guess must be measured on targets where the answer is known.

This example is about the first question.
"""

# %%
# Score once, and score resamples
# -------------------------------
#
# With ``n_resamples`` every candidate is scored again on resamples of its features, the same for
# all candidates. No network runs a second time.

import matplotlib.pyplot as plt
import pandas as pd

from sktransfer.datasets import load_digits_target, load_tiny_zoo
from sktransfer.model_selection import TransferabilitySelector

digits = load_digits_target()
images, labels = digits.images_train, digits.y_train
zoo = load_tiny_zoo()
# Networks that know characters would win whatever the sample, so let there be none of them. To be
# quick the narrow versions are left out too.
known = ("digit", "letters", "mnist", "half")
candidates = [pair for pair in zoo if not any(word in pair[0] for word in known)]
selector = TransferabilitySelector(candidates, "logme", n_resamples=60)
selector.fit(images[:80], labels[:80])
selector.tied_with_best_

# %%
# What is shaded can't be told apart from the best at a level of 95 %: the network with the highest
# expected score is one of these, unless this sample is one of the odd one in twenty. The bars say
# how far each score would be off by itself. They may overlap although two networks are told apart,
# because a sample that is hard for one network is hard for the other: the *difference* of two
# scores varies less than either.

from sktransfer.inspection import RankingDisplay

display = RankingDisplay.from_estimator(selector)

# %%
# In the table there are limits of each rank too, and in how many resamples the candidate would be
# the best one.

found = selector.uncertainty_["logme"]
pd.DataFrame(found.columns()).head(8).round(3)

# %%
# More images, fewer candidates
# -----------------------------
#
# On the whole the set shrinks as the sample grows, though not at every step. It may also move: the
# network that is expected to win with forty images need not be the one that wins with three
# hundred, so the answer is always one for the size of your sample.

sizes, numbers = (40, 80, 160, 320), []
for size in sizes:
    more = TransferabilitySelector(candidates, "logme", n_resamples=40, baselines=None)
    more.fit(images[:size], labels[:size])
    numbers.append(len(more.tied_with_best_))
    print(f"{size} images: {', '.join(more.tied_with_best_)}")

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.plot(sizes, numbers, "o-", color="#0072B2")
axes.set(xscale="log", xlabel="labelled images", ylabel="candidates in the set")
axes.set_xticks(sizes, sizes)
axes.minorticks_off()
axes.set_ylim(0, max(numbers) + 1)
plt.show()
