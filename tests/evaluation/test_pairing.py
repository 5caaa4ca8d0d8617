"""How two sets of scores find each other; seen through `rank_correlation`."""

from fractions import Fraction

import numpy as np
import pytest

from sktransfer.evaluation import rank_correlation

NAN = np.nan
SCORES = {"a": 0.9, "b": 0.1, "c": 0.5, "d": 0.4}
REFERENCE = {"d": 0.3, "c": 0.4, "a": 0.8, "b": 0.35}
TAU = 2 / 3


def correlate(scores, reference, **options):
    return rank_correlation(scores, reference, n_resamples=0, n_permutations=0, **options)


def structured_fields(scores):
    dtype = [(name, float) for name in scores]
    return np.array(tuple(scores.values()), dtype=dtype)


def structured_rows(scores):
    return np.array(list(scores.items()), dtype=[("name", "U5"), ("score", "f4")])


def pandas_series(scores):
    return pytest.importorskip("pandas").Series(scores)


def pandas_frame(scores):
    return pandas_series(scores).to_frame("logme")


def polars_frame(scores):
    polars = pytest.importorskip("polars")
    return polars.DataFrame({"candidate": list(scores), "score": list(scores.values())})


FORMS = {
    "dict": dict,
    "fields": structured_fields,
    "one row of fields": lambda scores: structured_fields(scores)[None],
    "record": lambda scores: structured_fields(scores)[()],
    "rows": structured_rows,
    "rows of bytes": lambda scores: structured_rows(scores).astype([("n", "S5"), ("s", "f8")]),
    "recarray": lambda scores: structured_rows(scores).view(np.recarray),
    "series": pandas_series,
    "frame": pandas_frame,
    "polars frame": polars_frame,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("other", FORMS)
def test_names_pair_whatever_they_come_in(form, other):
    result = correlate(FORMS[form](SCORES), FORMS[other](REFERENCE))
    assert result.statistic == pytest.approx(TAU)
    assert result.names == ("a", "b", "c", "d") and result.left_out == ()


def test_a_ranking_gives_its_reference():
    class Ranking:
        def reference(self, measure=None, seed=None):
            return REFERENCE

    assert correlate(SCORES, Ranking()).statistic == pytest.approx(TAU)
    assert correlate(Ranking(), SCORES).statistic == pytest.approx(TAU)

    class Tables(dict):
        def reference(self, target):
            raise AssertionError("which target?")

    with pytest.raises(ValueError, match="'reference' must .* Got a Tables, which holds several"):
        correlate(SCORES, Tables())

    class Other:
        def reference(self):
            return [1, 2, 3, 4]

    with pytest.raises(ValueError, match="'scores' must .* gives a list and no mapping"):
        correlate(Other(), REFERENCE)


def test_numbers_that_numpy_cannot_read():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="'scores' must .* NumPy can read. Got a Tensor.*grad"):
        correlate(torch.ones(4, requires_grad=True), list(REFERENCE.values()))


def test_numbers_without_names_pair_by_position():
    polars = pytest.importorskip("polars")
    values, reference = list(SCORES.values()), [REFERENCE[name] for name in SCORES]
    for make in (list, tuple, np.array, np.float32, polars.Series, lambda v: np.array(v, object)):
        result = correlate(make(values), make(reference))
        assert result.statistic == pytest.approx(TAU)
        assert result.names == (0, 1, 2, 3)
    assert correlate(polars.DataFrame({"x": values}), reference).statistic == pytest.approx(TAU)


def test_position_never_replaces_a_name():
    with pytest.raises(ValueError, match="'scores' has names of candidates and 'reference' has no"):
        correlate(SCORES, [1, 2, 3, 4])
    with pytest.raises(ValueError, match="'reference' has names of candidates and 'scores' has no"):
        correlate([1, 2, 3, 4], SCORES)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="have no candidate in common|must have the same"):
        correlate(pandas.Series([1, 2, 3, 4]), SCORES)
    with pytest.raises(ValueError, match="have the same candidates.*'c', 'd'|'c' and 'd'"):
        correlate({"a": 1, "b": 2}, SCORES)


def test_a_sorted_column_finds_its_rows():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"logme": [3, 1, 2, 4], "accuracy": [3, 1, 2, 4]})
    by_logme = frame.sort_values("logme")["logme"]
    assert correlate(by_logme, frame["accuracy"]).statistic == 1
    assert correlate(frame["logme"], frame["accuracy"].to_numpy()).statistic == 1
    # Sorted rows are no longer in the order of an array.
    with pytest.raises(ValueError, match="'scores' has names of candidates"):
        correlate(by_logme, frame["accuracy"].to_numpy())


def test_different_sets_of_candidates():
    more = {**SCORES, "x": 9.0}
    fewer = {**REFERENCE, "y": 9.0, "z": 1.0}
    message = (
        r"'scores' and 'reference' must have the same candidates: 'reference' lacks 'x'; "
        r"'scores' lacks 'y' and 'z'. With names='common' these are left out."
    )
    with pytest.raises(ValueError, match=message):
        correlate(more, fewer)
    result = correlate(more, fewer, names="common")
    assert result.statistic == pytest.approx(TAU)
    assert (result.n, result.left_out) == (4, ("x", "y", "z"))
    with pytest.raises(ValueError, match="have no candidate in common"):
        correlate(SCORES, {"A": 1.0, "B": 2.0}, names="common")
    many = {f"model {i}": i for i in range(40)}
    with pytest.raises(ValueError, match="'model 4' and 35 more"):
        correlate(SCORES, many)


@pytest.mark.parametrize(
    "names",
    [
        [1, 2, 3, 4],
        [-7, 0, 12, 2**70],
        ["", " ", "{}", "a{0}b"],
        ["ä", "模型", "a\nb", "'"],
        [("resnet", 18), ("resnet", 50), ("vit", "b"), ()],
        [1, "1", 1.5, "one"],
        [False, True, "False", 2],
    ],
)
def test_any_hashable_names(names):
    scores = dict(zip(names, [1, 2, 3, 4], strict=True))
    reference = dict(reversed(scores.items()))
    assert correlate(scores, reference).statistic == 1
    lost = dict(scores) | {names[0]: NAN}
    result = correlate(lost, reference)
    assert result.reason == f"no score for {names[0]!r} (1 of 4 candidates)"
    assert correlate(lost, reference, nan_policy="omit").left_out == (names[0],)
    with pytest.raises(ValueError, match="must have the same candidates"):
        correlate(scores, dict.fromkeys(names[1:], 1))


def test_numbers_and_their_names_are_different_names():
    with pytest.raises(ValueError, match="'reference' lacks 1 and 2; 'scores' lacks '1' and '2'"):
        correlate({1: 0.1, 2: 0.2}, {"1": 0.1, "2": 0.2})


def test_numpy_names_are_plain_ones():
    scores = {np.str_("a"): 1, np.int64(3): 2}
    result = correlate(scores, {"a": 1, 3: 2})
    assert result.names == ("a", 3) and [type(name) for name in result.names] == [str, int]


def test_names_must_be_unique_and_there():
    pandas = pytest.importorskip("pandas")
    twice = pandas.Series([1.0, 2.0, 3.0], index=["a", "b", "a"])
    with pytest.raises(ValueError, match="'scores' must name each candidate once. Got 'a' more"):
        correlate(twice, twice)
    with pytest.raises(ValueError, match="'reference' must name each candidate once"):
        correlate({"a": 1.0, "b": 2.0}, twice)
    for lost in (None, NAN):
        with pytest.raises(ValueError, match="'scores' has a candidate whose name is missing"):
            correlate({"a": 1.0, lost: 2.0}, SCORES)
    rows = np.array([("a", 1.0), ("a", 2.0)], dtype=[("name", "U1"), ("score", float)])
    with pytest.raises(ValueError, match="must name each candidate once"):
        correlate(rows, rows)


@pytest.mark.parametrize(
    "values",
    [
        [True, False, True, False],
        np.array([1, 2, 3, 4], dtype=object),
        np.array([Fraction(1, 3), 0.5, np.float32(2), np.True_], dtype=object),
        np.float16([1, 2, 3, 4]),
        np.longdouble([1, 2, 3, 4]),
        np.arange(8.0)[::2],
        range(4),
    ],
)
def test_kinds_of_numbers(values):
    values = list(values) if isinstance(values, range) else values
    result = correlate(values, [float(value) for value in values])
    assert result.statistic == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda pd: {"a": 1.0, "b": None, "c": 2.0},
        lambda pd: {"a": 1, "b": NAN, "c": 2},
        lambda pd: pd.Series([1, None, 2], index=list("abc")),
        lambda pd: pd.Series([1, None, 2], index=list("abc"), dtype="Int64"),
        lambda pd: pd.Series([1, None, 2], index=list("abc"), dtype="Float64"),
        lambda pd: pd.Series([1, pd.NA, 2], index=list("abc"), dtype=object),
    ],
)
def test_every_kind_of_missing_number(make):
    pandas = pytest.importorskip("pandas")
    result = correlate(make(pandas), {"a": 1, "b": 2, "c": 3})
    assert result.reason == "no score for 'b' (1 of 3 candidates)"


def test_missing_in_plain_arrays():
    polars = pytest.importorskip("polars")
    masked = np.ma.masked_array([1, 99, 2], [False, True, False])
    for values in (masked, [1.0, None, 2.0], polars.Series([1, None, 2]), [1, NAN, 2]):
        assert correlate(values, [1, 2, 3]).reason == "no score for 1 (1 of 3 candidates)"


@pytest.mark.parametrize(
    "scores, message",
    [
        ({"a": "high", "b": 2}, "'scores' must hold real numbers. Got dtype <U"),
        ({"a": [1, 2], "b": [2, 3]}, r"one number per candidate. Got an array of shape \(2, 2\)"),
        ({"a": [1, 2], "b": [2]}, "one number per candidate"),
        ({"a": 1j, "b": 2}, "Got dtype complex128"),
        ({"a": None, "b": "x"}, "Got 'x' of type str for candidate 'b'"),
        ([10**400, 1], "has a number that is too large for candidate 0"),
        ([None, "x"], "Got 'x' of type str for candidate 1"),
        (0.5, r"shape \(\)"),
        ([[1, 2], [3, 4]], r"shape \(2, 2\)"),
        ("ab", r"shape \(\)"),
        (np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), "Got dtype datetime64"),
        (None, r"shape \(\)"),
        ([1, 2, 3], "Got 3 and 2 numbers"),
        (np.zeros(2, dtype=[("a", float), ("b", float)]), "columns 'a' and 'b'"),
        (np.zeros(2, dtype=[("n", "U1"), ("m", "U1")]), "one of names and one of numbers"),
    ],
)
def test_wrong_scores(scores, message):
    with pytest.raises(ValueError, match=message):
        correlate(scores, [1, 2])


def test_wrong_frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"x": [1, 2], "y": [3, 4]}
    with pytest.raises(ValueError, match="one column of a frame. Got a frame of 2 columns"):
        correlate(pandas.DataFrame(columns), [1, 2])
    with pytest.raises(ValueError, match="columns 'x' and 'y'"):
        correlate(polars.DataFrame(columns), [1, 2])
    with pytest.raises(ValueError, match="Got a LazyFrame, which has to be collected first"):
        correlate(polars.DataFrame(columns).lazy(), [1, 2])
    with pytest.raises(ValueError, match="real numbers. Got"):
        correlate(pandas.Series(["x", "y"]), [1, 2])
