"""The report of a selection: what is in it, and that a name never becomes more than text."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import FunctionTransformer

from sktransfer.backbones import PrecomputedFeatures
from sktransfer.evaluation import rank_correlation
from sktransfer.exceptions import TargetMeasureWarning
from sktransfer.inspection import write_report
from sktransfer.inspection._report_markup import decimals_for, escaped, number, sentence, shortened
from sktransfer.inspection._report_plots import Axis, tick_label
from sktransfer.metrics import HScore
from sktransfer.model_selection import TransferabilitySelector

X, Y = load_iris(return_X_y=True)
# In the order of their noise, so that the first ones are the best.
HOSTILE = [
    "<script>alert('x')</script>",
    "\"quoted\" & 'so' on",
    "</title></style><img src=http://evil.example/x onerror=alert(1)>",
    "שלום עולם 12",
    "👩‍🔬🔥",
    "turned \u202e around",
    "bell \x07 and \x1b[31m red\n<b>",
    "half \ud800 of a pair",
    "long " + "x" * 5000,
    "{braces} %s \\n &amp; &lt;",
]
VOID = {"meta", "img", "br", "link", "input", "hr"}


def noisy(noise, seed):
    rng = np.random.default_rng(seed)
    mixed = X[:, 2:] @ rng.normal(size=(2, 3 + seed))
    return PrecomputedFeatures(mixed + noise * rng.normal(size=mixed.shape))


def broken(features):
    raise RuntimeError("no <i>such</i> layer in /srv/nets & more")


def fitted(candidates, **options):
    return TransferabilitySelector(candidates, **options).fit(X, Y)


class Page(HTMLParser):
    """Elements, texts and attributes of a page, which has to nest as it should."""

    def __init__(self, markup):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes = [], [], []
        self.texts, self.tables, self.ids, self.values = [], {}, [], []
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag == "tr":
            self.rows.append([])
        if tag == "table":
            self.rows, self.caption = [], ""
        if tag in ("td", "th"):
            self.rows[-1].append({"text": "", "values": [], "tag": tag, "scope": dict(attrs)})
        if tag == "data":
            value = dict(attrs)["value"]
            if self.inside("td", "th"):
                self.rows[-1][-1]["values"].append(float(value))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert "svg" in self.open
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "table":
            self.tables[self.caption] = self.rows

    def handle_data(self, data):
        if self.inside("style"):
            return
        self.texts.append(data)
        if self.inside("td", "th"):
            self.rows[-1][-1]["text"] += data
        if self.inside("caption"):
            self.caption += data

    def inside(self, *tags):
        return any(tag in self.open for tag in tags)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def table(self, words):
        (rows,) = [rows for caption, rows in self.tables.items() if words in caption]
        head, *body = rows
        names = [cell["text"] for cell in head]
        return [dict(zip(names, row, strict=True)) for row in body]


def page_of(selector, folder, **options):
    path = selector.report(folder / "report.html", **options)
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def hostile():
    candidates = [(name, noisy(0.05 + 0.3 * i, i)) for i, name in enumerate(HOSTILE)]
    candidates.append(("broken", FunctionTransformer(broken)))
    with pytest.warns(match="broken"):
        return fitted(candidates, metric={"logme": "logme", "<b>h": "hscore"}, n_resamples=40)


@pytest.fixture(scope="module")
def markup(hostile, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "out.html"
    assert write_report(hostile, path, title="<u>iris</u>") == path
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(markup):
    return Page(markup)


# -- names are text --------------------------------------------------------------------------------


def test_no_name_becomes_markup(page):
    assert not {"script", "img", "b", "i", "u", "iframe", "object", "link"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    for name in HOSTILE:
        assert " ".join(shown(name).split()) in page.text
    assert "<u>iris</u>" in page.text


def shown(name):
    """What a reader sees, written once more: controls and what turns text around as Python does."""
    for character in "\u202e\x07\x1b\n\ud800":
        escape = repr(character)[1:-1]
        name = name.replace(character, escape)
    return name


def test_nothing_is_loaded(page, markup):
    assert not [v for _, name, v in page.attributes if name in ("src", "srcset", "data", "action")]
    links = [value for _, name, value in page.attributes if name.endswith("href")]
    assert links and all(link.startswith("#") and link[1:] in page.ids for link in links)
    style = markup[markup.index("<style>") : markup.index("</style>")]
    assert "url(" not in style and "@import" not in style
    policy = [v for tag, name, v in page.attributes if tag == "meta" and name == "content"]
    assert any("default-src 'none'" in value for value in policy)


def test_svg_is_xml_with_names_escaped(markup):
    drawings = re.findall(r'<svg role="img".*?</svg></div>', markup, flags=re.DOTALL)
    drawings = [drawing.removesuffix("</div>") for drawing in drawings]
    assert len(drawings) >= 2 * (len(HOSTILE) + 1)
    labels = [ElementTree.fromstring(drawing).get("aria-label") for drawing in drawings]
    assert all(labels)
    assert any("<script>alert('x')</script>: -" in label for label in labels)
    assert any(label == "broken: no score" for label in labels)


def test_characters_that_no_file_can_hold_are_written_out(markup):
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", markup)
    assert "👩‍🔬" in markup and "שלום עולם" in markup


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a<b>&'\"", "a&lt;b&gt;&amp;&#x27;&quot;"),
        ("\u202eabc", "\\u202eabc"),
        ("\x00\t", "\\x00\\t"),
        ("\ud83d", "\\ud83d"),
        ("日本語 é 👩‍🔬", "日本語 é 👩‍🔬"),
        (3, "3"),
    ],
)
def test_escaped(value, expected):
    assert escaped(value) == expected


def test_the_home_folder_is_not_named(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert escaped(f"no file {tmp_path / 'nets' / 'a.pth'}") == f"no file {Path('~/nets/a.pth')}"
    assert escaped(f"{tmp_path}x") == f"{tmp_path}x"


def test_names_in_sentences_keep_their_direction():
    said = sentence("'שלום' beats  'a<b'\nand 'other'.", ["שלום", "a<b"])
    assert said == (
        '<bdi class="name">שלום</bdi> beats <bdi class="name">a&lt;b</bdi> and &#x27;other&#x27;.'
    )


def test_long_names_lose_their_middle():
    assert shortened("x" * 60) == "x" * 60
    assert len(shortened("a" * 500 + "z")) == 60 and shortened("a" * 500 + "z").endswith("z")


# -- the numbers are the selector's ----------------------------------------------------------------


def test_the_ranking_is_that_of_the_selector(page, hostile):
    rows = page.table("Ranking by logme")
    assert len(rows) == len(hostile.scores_)
    table, found = hostile.cv_results_, hostile.uncertainty_["logme"]
    for row in rows:
        (name,) = [n for n in hostile.scores_ if shown(n) == row["candidate"]["text"]]
        place = list(table["candidate"]).index(name)
        assert row["rank"]["values"] == [hostile.ranking_[name]]
        tied = row["sampling: told apart from the best?"]["text"]
        if name == "broken":
            assert (row["logme"]["text"], tied) == ("–", "no score")
            continue
        assert row["logme"]["values"] == [hostile.scores_[name]]
        assert row["0.95 interval"]["values"] == found.score_interval[place].tolist()
        low, high = found.rank_interval[place].tolist()
        assert row["ranks it may have"]["values"] == ([low] if low == high else [low, high])
        assert row["probability of being best"]["values"] == [found.probability_best[place]]
        expected = "no, tied with best" if name in hostile.tied_with_best_ else "yes"
        assert tied == ("best" if name == hostile.best_name_ else expected)
        decided = row["decision: may be best after fine-tuning?"]["text"]
        assert (decided == "yes") == (name in hostile.decision_set_)
    assert [row["rank"]["values"][0] for row in rows] == sorted(hostile.ranking_.values())


def test_metrics_and_baselines_are_those_of_the_selector(page, hostile):
    by_metric, rules = page.table("by every metric"), page.table("Baselines of each candidate")
    assert len(by_metric) == len(rules) == len(hostile.scores_)
    for row, rule in zip(by_metric, rules, strict=True):
        (name,) = [n for n in hostile.scores_ if shown(n) == row["candidate"]["text"]]
        if name == "broken":
            continue
        for metric, scores in hostile.metric_scores_.items():
            assert row[metric]["values"] == [scores[name]]
            assert f"({int(place(hostile, f'rank_{metric}', name))})" in row[metric]["text"]
        for baseline, called in [
            ("knn", "neighbour"),
            ("linearprobe", "probe"),
            ("random", "random"),
        ]:
            (cell,) = [cell for head, cell in rule.items() if called in head]
            assert cell["values"] == [hostile.baseline_scores_[baseline][name]]
    choices = {row["rule"]["text"]: row for row in page.table("First choice of each rule")}
    tau = choices["leave-one-out linear probe"]["Kendall’s tau with the metric (0.95 interval)"]
    scored = [name for name in hostile.scores_ if name != "broken"]
    expected = rank_correlation(
        {name: hostile.scores_[name] for name in scored},
        {name: hostile.baseline_scores_["linearprobe"][name] for name in scored},
    )
    assert tau["values"] == [pytest.approx(float(expected))]


def place(selector, column, name):
    table = selector.cv_results_
    return table[column][list(table["candidate"]).index(name)]


def test_cost_failures_and_record(page, hostile):
    for row in page.table("Size and cost"):
        (name,) = [n for n in hostile.scores_ if shown(n) == row["candidate"]["text"]]
        assert row["seconds to run"]["values"] == [place(hostile, "extraction_time", name)]
        assert row["seconds to score"]["values"] == [place(hostile, "scoring_time", name)]
    missing = page.table("Scores that are missing")
    assert [row["candidate"]["text"] for row in missing] == ["broken", "broken"]
    assert "no <i>such</i> layer in /srv/nets & more" in missing[0]["reason"]["text"]
    facts = {row["fact"]["text"]: row["value"]["text"] for row in page.table("Data, splits")}
    assert facts["number of samples"] == "150"
    assert facts["SHA-256 of the target, in the order of its rows"].isalnum()
    assert (facts["n_resamples"], facts["level"]) == ("40", "0.95")
    assert facts["seed of the resamples"] == "0"
    assert [row["rows"]["values"] for row in page.table("3 classes")] == [[50], [50], [50]]
    versions = {row["package"]["text"]: row["version"]["text"] for row in page.table("Versions")}
    assert versions["numpy"] == np.__version__
    assert {"python", "scipy", "scikit-learn", "sktransfer", "platform"} <= set(versions)
    metrics = {row["metric"]["text"]: row["what it is"]["text"] for row in page.table("Metrics")}
    assert metrics["logme"].startswith("LogME(") and "noise_floor=1e-10" in metrics["logme"]


def test_the_data_are_not_in_it(page):
    candidates = page.table("Candidates with their parameters")
    assert len(candidates) == len(HOSTILE) + 1
    first = candidates[0]["what it is"]["text"]
    assert first.startswith("PrecomputedFeatures(features=ndarray of shape (150, 3), float64")


# -- its parts -------------------------------------------------------------------------------------


def test_it_is_a_page_for_everyone(page):
    assert ("html", "lang", "en") in page.attributes
    assert page.tags.count("title") == page.tags.count("h1") == page.tags.count("main") == 1
    assert any(v == "width=device-width, initial-scale=1" for _, _, v in page.attributes)
    assert len(set(page.ids)) == len(page.ids)
    labelled = [value for _, name, value in page.attributes if name == "aria-labelledby"]
    assert labelled and set(labelled) <= set(page.ids)
    assert page.tags.count("table") == page.tags.count("caption") == len(page.tables)
    scopes = [value for tag, name, value in page.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == page.tags.count("th") and set(scopes) == {"col", "row"}
    for rows in page.tables.values():
        assert all(cell["scope"]["scope"] == "col" for cell in rows[0])
        assert all([cell["tag"] for cell in row].count("th") == 1 for row in rows[1:])


def test_sections(page):
    assert [i for i in page.ids if not i.endswith("-title")] == [
        *("recommendation", "how-sure-is-it", "before-you-act-on-it", "ranking", "all-metrics"),
        *("baselines", "cost", "warnings-and-failures", "reproducibility-record"),
    ]


def advice_of(markup):
    (found,) = re.findall(r'<p class="advice" id="recommendation">(.*?)</p>', markup)
    return " ".join(Page(f"<p>{found}</p>").text.replace(" .", ".").replace(" ,", ",").split())


def test_the_recommendation_names_the_best_and_the_tied(markup, hostile):
    said = advice_of(markup)
    others = [name for name in hostile.tied_with_best_ if name != hostile.best_name_]
    assert said.startswith(f"Fine-tune {hostile.best_name_} first: of 11 candidates")
    assert "on 150 samples" in said
    assert 0 < len(others) < 4 and all(shortened(name) in said for name in others)


def test_the_two_promises_stand_apart(page):
    sampling, decision = page.text.split("Decision: which is the best after fine-tuning?")
    sampling = sampling.split("Sampling: would other samples give the same best?")[1]
    decision = decision.split("Before you act on it")[0]
    assert "expected score by logme" in sampling.replace("  ", " ")
    assert "This says nothing of fine-tuning" in sampling and "Calibrated" not in sampling
    assert "Calibrated on 55 cells of the targets digits, mnist, fashion" in decision
    assert "resamples" not in decision and "fresh samples" not in decision


@pytest.fixture(scope="module")
def bare():
    candidates = [("one", PCA(1)), ("two", PCA(2))]
    return fitted(candidates, metric="hscore", cv=3, baselines=None)


def test_what_was_not_computed_is_said(bare, tmp_path):
    page = page_of(bare, tmp_path)
    assert "All metrics" not in page.text
    for words in (
        "Not computed: the selector was fitted with n_resamples=0",
        "No decision set: the package has no calibration for this selection",
        "No baselines were computed ( baselines=None )",
        "There are no intervals: no resamples were drawn (n_resamples=0).",
        "None: every candidate was scored, and no metric warned of anything.",
    ):
        assert words in page.text
    rows = page.table("Ranking by hscore")
    name = rows[0]["candidate"]["text"]
    assert rows[0]["spread over 3 splits"]["values"] == [place(bare, "std_hscore", name)]
    facts = {row["fact"]["text"]: row["value"]["text"] for row in page.table("Data, splits")}
    assert facts["rows that were scored"] == "3 splits, 100 rows each"
    assert facts["seed of the resamples"] == "no resamples"


def test_attributes_that_are_not_there_are_no_hole(bare, tmp_path):
    """As in a selection that an earlier version has fitted and pickled."""
    old = TransferabilitySelector(bare.candidates)
    later = {"record_", "uncertainty_", "decision_set_", "baseline_scores_", "findings_"}
    vars(old).update({k: v for k, v in vars(bare).items() if k not in later})
    page = page_of(old, tmp_path)
    assert "fitted by a version that kept no record" in page.text
    assert "Fine-tune" in page.text


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ([("only", PCA(2))], "There is nothing to choose: only is the only candidate."),
        (
            [("a", PCA(2)), ("broken", FunctionTransformer(broken))],
            "Nothing was compared: of 2 candidates only a has a score by logme",
        ),
        (
            [("a", PrecomputedFeatures(X)), ("b", PrecomputedFeatures(X)), ("c", PCA(1))],
            "Fine-tune a and b, which share the highest score of 3 candidates by logme",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.CandidateFailedWarning")
def test_recommendation_where_there_is_little_to_say(candidates, words, tmp_path):
    path = fitted(candidates).report(tmp_path / "r.html")
    assert words in advice_of(path.read_text(encoding="utf-8"))


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_noise_is_not_recommended(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    candidates = [(f"n{i}", PrecomputedFeatures(rng.normal(size=(40, 5)))) for i in range(3)]
    selector = TransferabilitySelector(candidates, "hscore", n_resamples=40).fit(
        np.arange(40)[:, None], y
    )
    assert set(selector.tied_with_best_) == {"n0", "n1", "n2"}
    path = selector.report(tmp_path / "r.html")
    assert advice_of(path.read_text(encoding="utf-8")).startswith("No candidate stands out: all 3")


def test_a_best_that_random_weights_equal_is_doubted(bare, tmp_path):
    doubtful = TransferabilitySelector(bare.candidates)
    vars(doubtful).update(vars(bare))
    doubtful.baseline_scores_ = {"untrained_twin": {"one": np.nan, "two": bare.best_score_ + 1}}
    assert bare.best_name_ == "two"
    path = doubtful.report(tmp_path / "r.html")
    markup = path.read_text(encoding="utf-8")
    assert advice_of(markup).startswith("Doubt that pretraining helps here: two scores highest")
    assert "its untrained twin" in Page(markup).text


def with_random_weights(bare, names, **attributes):
    changed = TransferabilitySelector(bare.candidates)
    vars(changed).update(vars(bare), **attributes)
    pretrained = [name not in names for name in bare.cv_results_["candidate"]]
    changed.cv_results_ = bare.cv_results_ | {"pretrained": np.array(pretrained, dtype=object)}
    return changed


@pytest.mark.parametrize(
    ("untrained", "findings", "advice", "first"),
    [
        (
            ["two"],
            [],
            "Doubt that pretraining helps here: two, which scores highest of 2 candidates by "
            "hscore on 150 samples, has random weights.",
            "two has the highest score and random weights",
        ),
        (
            ["two"],
            ["Size says the same.", "The best candidate, 'two', is untrained."],
            "Doubt that pretraining helps here: two, which",
            "The best candidate, two , is untrained.",
        ),
        (
            ["two"],
            ["Every candidate is within noise: so."],
            "Mind that two has random weights.",
            "two has the highest score",
        ),
        (["one", "two"], [], "Mind that two has random weights.", "two has the highest score"),
        (["one"], ["Size says the same."], "Fine-tune two first", "Size says the same."),
    ],
)
def test_a_best_with_random_weights_is_said_first(
    bare, tmp_path, untrained, findings, advice, first
):
    selector = with_random_weights(bare, untrained, findings_=findings)
    path = selector.report(tmp_path / "r.html")
    markup = path.read_text(encoding="utf-8")
    said = advice_of(markup)
    assert advice in said
    assert ("random weights" in said) == ("two" in untrained)
    before = Page(markup).text.split("Before you act on it")[2]
    assert before.strip().startswith(first)
    assert all(before.count(" ".join(each.split()[:3])) == 1 for each in findings)


def test_consensus(tmp_path):
    candidates = [(name, noisy(0.2 + 0.3 * i, i)) for i, name in enumerate("abc")]
    selector = fitted(candidates, metric=["logme", "hscore"], refit="consensus", n_resamples=40)
    page = page_of(selector, tmp_path)
    assert "Not available: the deciding score is a consensus of ranks" in page.text
    rows = page.table("The consensus without each metric")
    assert [row["left out"]["text"] for row in rows] == ["logme", "hscore"]
    assert rows[0]["best without it"]["text"] == ", ".join(
        selector.consensus_.without["logme"].best
    )


def test_a_metric_that_does_not_suit_the_measure_is_said(tmp_path):
    candidates = [("one", PCA(1)), ("two", PCA(2))]
    selector = TransferabilitySelector(candidates, HScore(), target_measure="roc_auc")
    with pytest.warns(TargetMeasureWarning):
        selector.fit(X, Y)
    before = page_of(selector, tmp_path).text.split("Before you act on it")[2]
    assert "with no regard to target_measure='roc_auc'" in before


def test_regression(tmp_path):
    candidates = [("one", PCA(1)), ("two", PCA(2))]
    y = X[:, 0] + 0.1 * X[:, 1]
    selector = TransferabilitySelector(candidates, n_resamples=40).fit(X, y)
    page = page_of(selector, tmp_path)
    facts = {row["fact"]["text"]: row["value"]["text"] for row in page.table("Data, splits")}
    assert facts["kind of target"] == "regression"
    assert not any("classes," in caption for caption in page.tables)


def test_many_classes_are_summed_up(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), 3)
    features = rng.normal(size=(180, 3)) + y[:, None]
    candidates = [("one", PrecomputedFeatures(features)), ("two", PrecomputedFeatures(features**2))]
    selector = TransferabilitySelector(candidates, metric="hscore", baselines=None)
    page = page_of(selector.fit(features, y), tmp_path)
    assert len(page.table("60 classes, 3 to 3 rows each")) == 20


# -- the file --------------------------------------------------------------------------------------


def test_wrong_paths_are_one_sentence_and_leave_nothing(bare, tmp_path):
    (tmp_path / "file").write_text("x")
    for path, words in [
        (tmp_path / "missing" / "r.html", "There is no folder"),
        (tmp_path, "is a folder"),
        (f"{tmp_path}/new/", "is a folder"),
        (tmp_path / "file" / "r.html", "There is no folder"),
        ("", "Got ''"),
        ("a\0b", "Got 'a"),
    ]:
        with pytest.raises(ValueError, match="'path' must name a file in a folder") as caught:
            bare.report(path)
        assert words in str(caught.value)
    for path in (None, 3, b"r.html"):
        with pytest.raises(TypeError, match="'path' must be a str or a path"):
            bare.report(path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_an_existing_file_is_replaced_when_the_new_one_is_whole(bare, tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "disk full")))
        with pytest.raises(OSError, match="disk full"):
            bare.report(path)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["r.html"]
    assert bare.report(str(path)) == path
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_link_stays_one(bare, tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "there" / "r.html")
    assert bare.report(link) == link
    assert link.is_symlink() and (tmp_path / "there" / "r.html").is_file()


def test_only_fitted_selectors_and_titles_that_are_text(bare, tmp_path):
    with pytest.raises(NotFittedError):
        TransferabilitySelector([("one", PCA(1))]).report(tmp_path / "r.html")
    with pytest.raises(TypeError, match="'selector' must be a TransferabilitySelector. Got PCA"):
        write_report(PCA(), tmp_path / "r.html")
    with pytest.raises(TypeError, match="'title' must be a str or None. Got int"):
        bare.report(tmp_path / "r.html", title=3)
    assert not list(tmp_path.iterdir())


# -- numbers and axes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([0.1, 0.8], 4),
        ([0.71, 0.7101], 4),  # 8 tell no more
        ([0.71, 0.7101 + 1e-7], 7),
        ([0.9995, 0.998, 1.0], 4),
        ([-1e6, 0.5, 0.51], 4),  # one far below hides no difference
        ([1e-7, 3e-7], None),
        ([3.14e-5, 1e-5, 2e-5], 7),
        ([5.0, 5.0], 3),
        ([1e5, 3e5], 0),
        ([0.0, 0.0], 4),
        ([np.nan, np.inf], 4),
        ([1e12, 1.0], None),
        ([1e-9, 0.0], None),
    ],
)
def test_decimals_tell_numbers_apart(values, decimals):
    assert decimals_for(values) == decimals


def test_numbers_keep_all_their_digits():
    assert number(0.1 + 0.2, 2) == '<data value="0.30000000000000004">0.30</data>'
    assert number(77754.0, 0) == '<data value="77754">77,754</data>'
    assert number(1.5e-7, None) == '<data value="1.5e-07">1.500e-07</data>'
    assert number(-0.001, 2) == '<data value="-0.001">0.00</data>'
    for value, symbol, word in [
        (np.nan, "–", "none"),
        (np.inf, "∞", "infinite"),
        (-np.inf, "-∞", "minus infinite"),
    ]:
        markup = number(value)
        assert f'aria-label="{word}"' in markup and f">{symbol}<" in markup


def decimals_in(cells):
    """How many digits stand behind the point of each number in some cells of a column."""
    texts = [cell["text"].split(" (")[0] for cell in cells]
    shown = [part for text in texts for part in text.split(" to ") if part not in "–∞"]
    return {len(re.sub(r"e.*", "", part).partition(".")[2]) for part in shown}


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e4, 1e12])
def test_a_column_has_one_number_of_decimals(bare, tmp_path, scale):
    scaled = TransferabilitySelector([(name, PCA(1)) for name in "abcd"])
    vars(scaled).update(vars(bare))
    scores = scale * np.array([1.5, 1.2503, np.nan, 0.0])
    names, table = list("abcd"), {}
    for column, values in bare.cv_results_.items():
        table[column] = np.resize(values, 4)
    table |= {"candidate": np.array(names, dtype=object), "mean_hscore": scores}
    table |= {"low_hscore": scores - 0.1 * scale, "high_hscore": scores + scale}
    table |= {"rank_hscore": np.array([1, 2, 4, 3]), "extraction_time": np.array([1, 20, 0.3, 4])}
    for column in ("rank_low_hscore", "rank_high_hscore", "probability_best_hscore"):
        table[column] = np.array([1, 1, 1, 2])
    by_name = dict(zip(names, scores, strict=True))
    scaled.cv_results_, scaled.best_name_ = table, "a"
    scaled.scores_ = by_name
    scaled.metric_scores_ = {"hscore": by_name, "other": dict(zip(names, -scores, strict=True))}
    table["rank_other"] = table["rank_hscore"]
    scaled.baseline_scores_ = {"source_accuracy": by_name, "untrained_twin": by_name}
    page = page_of(scaled, tmp_path)
    checked = [
        ("Ranking by hscore", ["hscore", "spread over 3 splits"]),
        ("by every metric", ["hscore", "other"]),
        ("Baselines of each", ["accuracy on its own source", "untrained twin"]),
        ("Size and cost", ["seconds to run", "seconds to score"]),
    ]
    for words, columns in checked:
        rows = page.table(words)
        for column in columns:
            assert len(decimals_in(row[column] for row in rows)) == 1, (words, column)
    shown = [row["hscore"]["text"] for row in page.table("Ranking by hscore")]
    assert len(set(shown)) == 4 and shown[3] == "–"


@pytest.mark.parametrize("values", [[0.4, 0.7], [-3.0, 1e6], [2.0, 2.0], [0.0, 0.0], [1e-7, 2e-7]])
def test_ticks_lie_on_the_axis(values):
    axis = Axis(values)
    ticks = axis.ticks
    assert 1 <= len(ticks) <= 8
    assert all(3.9 <= axis.percent(tick) <= 96.1 for tick in ticks)
    assert len({tick_label(tick, ticks) for tick in ticks}) == len(ticks)


def test_logarithmic_axis():
    axis = Axis([2e4, 3e5], logarithmic=True)
    assert axis.ticks == pytest.approx([2e4, 5e4, 1e5, 2e5])
    assert [tick_label(tick, axis.ticks) for tick in axis.ticks] == [
        "20 k",
        "50 k",
        "100 k",
        "200 k",
    ]
    assert axis.percent(2e4) == pytest.approx(4) and axis.percent(3e5) == pytest.approx(96)
    assert Axis([10.0, 1e9], logarithmic=True).ticks[0] == 10


def test_infinite_values_are_at_the_edge():
    axis = Axis([0.0, 1.0, np.inf])
    assert (axis.percent(np.inf), axis.percent(-np.inf)) == (100.0, 0.0)
