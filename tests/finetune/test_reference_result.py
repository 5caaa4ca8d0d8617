"""What a reference ranking says of its values: ties, ranks, negative transfer, plain files."""

import csv
import itertools
import json
import math
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy import stats
from scipy.stats import kendalltau

from sktransfer.evaluation import competition_ranks, rank_correlation
from sktransfer.finetune import ReferenceRanking

RNG = np.random.default_rng(3)


def made(values, scratch=None, twins=None, measure="accuracy", **options):
    """Make a ranking of values by name, one list of seeds each."""
    rows = [
        (name, is_scratch, measure, seed, float(value), 0.5, 3, None)
        for part, is_scratch in ((values, False), (scratch or {}, True))
        for name, by_seed in part.items()
        for seed, value in enumerate(by_seed)
    ]
    return ReferenceRanking(rows, {}, twins, **options)


def drawn(n, n_seeds, sd=0.01):
    return {f"c{i}": RNG.normal(RNG.uniform(0.8, 0.9), sd, n_seeds).tolist() for i in range(n)}


# -- numbers -------------------------------------------------------------------------------------


def test_reference_is_the_mean_or_one_seed():
    values = drawn(5, 3)
    ranking = made(values, {"from scratch: net": [0.1] * 3})
    assert ranking.reference("accuracy", seed=1) == {name: v[1] for name, v in values.items()}
    for name, mean in ranking.reference().items():
        assert mean == pytest.approx(np.mean(values[name]), abs=1e-15)
    scores = {name: RNG.normal() for name in values}
    result = rank_correlation(scores, ranking, n_permutations=0)
    assert result == rank_correlation(scores, ranking.reference(), n_permutations=0)
    expected = kendalltau(list(scores.values()), [np.mean(v) for v in values.values()])
    assert result.statistic == pytest.approx(expected.statistic)


def test_means_do_not_depend_on_the_order_of_seeds():
    values = [0.1, 0.7, 0.3, 1e-17, 0.2]
    means = {made({"a": order}).reference()["a"] for order in itertools.permutations(values)}
    assert len(means) == 1


@pytest.mark.parametrize("n_seeds", [2, 3, 7])
def test_ties_are_those_of_an_analysis_of_variance(n_seeds):
    values = drawn(6, n_seeds)
    ranking = made(values)
    groups = list(values.values())
    # Fisher's least significant difference, from the F test's own numbers.
    within = sum(((np.array(g) - np.mean(g)) ** 2).sum() for g in groups)
    degrees = len(groups) * (n_seeds - 1)
    for level in (0.8, 0.95):
        table = ranking.ranking(level=level)
        limit = stats.t.ppf((1 + level) / 2, degrees) * np.sqrt(within / degrees * 2 / n_seeds)
        assert table.least_difference == pytest.approx(limit)
        best = max(np.mean(group) for group in groups)
        for row in table:
            assert row.tied_with_best == (best - np.mean(values[row.candidate]) <= limit)
            assert row.sd == pytest.approx(np.std(values[row.candidate], ddof=1))


def test_two_candidates_are_tied_as_by_a_t_test():
    for _ in range(40):
        values = {"a": RNG.normal(0, 1, 4).tolist(), "b": RNG.normal(1.5, 1, 4).tolist()}
        tied = all(row.tied_with_best for row in made(values).ranking())
        assert tied == (stats.ttest_ind(values["a"], values["b"]).pvalue >= 0.05)


def test_gains_are_beyond_spread_as_by_the_test_of_welch():
    found = set()
    for _ in range(60):
        values = {"a": RNG.normal(0, 0.3, 4).tolist()}
        scratch = {"from scratch: net": RNG.normal(RNG.uniform(-3, 3), 2, 4).tolist()}
        ranking = made(values, scratch, {"a": "from scratch: net"})
        row = ranking.ranking()["a"]
        p = stats.ttest_ind(*values.values(), *scratch.values(), equal_var=False).pvalue
        assert row.gain_beyond_spread == (p < 0.05)
        assert row.gain == pytest.approx(np.mean(values["a"]) - np.mean(*scratch.values()))
        table = ranking.negative_transfer()
        assert len(table) == (row.gain <= 0)
        for negative in table:
            assert negative == ("a", "from scratch: net", row.gain, p < 0.05)
            found.add(negative.beyond_spread)
    assert found == {True, False}


def test_ties_do_not_depend_on_the_order_of_candidates():
    values = drawn(7, 3)
    expected = {row.candidate: row for row in made(values).ranking()}
    for _ in range(5):
        names = RNG.permutation(list(values)).tolist()
        table = made({name: values[name] for name in names}).ranking()
        assert {row.candidate: row for row in table} == expected


def test_ranks_are_competition_ranks_and_groups_are_led_by_their_best():
    values = {"a": [0.5, 0.6], "b": [0.6, 0.5], "c": [0.1, 0.2], "d": [0.9, 1.0], "e": [0.1, 0.21]}
    table = made(values).ranking()
    ranks = competition_ranks([np.mean(v) for v in values.values()])
    assert [table[name].rank for name in values] == ranks.tolist()
    assert [row.candidate for row in table] == ["d", "a", "b", "e", "c"]
    assert [row.tie_group for row in table] == [1, 2, 2, 3, 3]
    # A chain: each is tied with the next, and the last is not tied with the first.
    chain = {"a": [0.0, 0.1], "b": [0.2, 0.3], "c": [0.4, 0.5]}
    table = made(chain).ranking()
    assert 0.2 < table.least_difference < 0.4
    assert [row.tie_group for row in table] == [1, 1, 2]
    assert [row.tied_with_best for row in table] == [True, True, False]


def test_one_seed_tells_nothing_of_ties():
    scratch = {"from scratch: net": [0.6]}
    ranking = made({"a": [0.5], "b": [0.5]}, scratch, dict.fromkeys("ab", "from scratch: net"))
    table = ranking.ranking()
    assert math.isnan(table.least_difference)
    for row in table:
        assert row.tied_with_best is None and row.tie_group is None and math.isnan(row.sd)
        assert row.gain_beyond_spread is None
    assert [row.rank for row in table] == [None, 1, 1]
    assert "ties are not known from one seed" in str(table)
    assert [row.beyond_spread for row in ranking.negative_transfer()] == [None, None]


def test_no_spread_at_all():
    table = made({"a": [0.5, 0.5], "b": [0.5, 0.5], "c": [0.49, 0.49]}).ranking()
    assert table.least_difference == 0.0
    assert [row.tied_with_best for row in table] == [True, True, False]
    thirds = made({"a": [0.1 + 0.2] * 3, "b": [0.1] * 3}).ranking()
    assert thirds["a"].sd == 0.0 and thirds.least_difference == 0.0


def test_what_has_failed_is_last_and_counts_nowhere():
    values = {"a": [0.5, 0.6], "failed": [0.9, math.nan], "b": [0.2, 0.3]}
    table = made(values).ranking()
    without = made({name: values[name] for name in "ab"}).ranking()
    assert [row.candidate for row in table] == ["a", "b", "failed"]
    assert table.least_difference == without.least_difference
    assert table[:2] == tuple(without)
    row = table["failed"]
    assert row.rank == 3 and math.isnan(row.mean) and row.tied_with_best is None
    assert row.tie_group is None
    assert table.title.endswith("or less are tied; 'failed' has failed with some seed")
    none = made({"a": [math.nan, 0.5], "b": [0.5, math.nan]}).ranking()
    assert "ties are not known, as no candidate has a value for every seed" in str(none)
    assert "'a' and 'b' have failed with some seed" in str(none)
    assert none["a"].tied_with_best is None


def failure(candidate, seed, measure="accuracy"):
    return {"candidate": candidate, "seed": seed, "measure": measure, "reason": "why not"}


MEASURED = {"a": [0.90, 0.92, 0.91], "b": [0.91, 0.90, 0.905], "c": [0.70, 0.73, 0.71]}


@pytest.mark.parametrize("error_score", [0.0, 1.0, math.nan])
@pytest.mark.parametrize("failed_seeds", [[1], [0, 1, 2]])
def test_what_stands_for_a_failure_is_no_measurement(error_score, failed_seeds):
    without = made(MEASURED).ranking()
    assert without.least_difference == pytest.approx(0.022, abs=5e-4)
    assert [row.tied_with_best for row in without] == [True, True, False]
    by_seed = [error_score if seed in failed_seeds else 0.9 for seed in range(3)]
    failures = [failure(name, seed) for name in "fg" for seed in failed_seeds]
    values = {**MEASURED, "f": by_seed, "g": by_seed}
    ranking = made(values, failures=failures)
    table = ranking.ranking()
    assert table.least_difference == without.least_difference
    for row in without:
        assert table[row.candidate]._replace(rank=row.rank) == row
    for name in "fg":
        row = table[name]
        assert (row.tied_with_best, row.tie_group) == (None, None) and math.isnan(row.sd)
        # The number that was asked for counts where numbers were asked for.
        np.testing.assert_equal(row.mean, ranking.reference()[name])
        np.testing.assert_allclose(row.mean, np.mean(by_seed))
    assert "; 'f' and 'g' have failed with some seed" in table.title
    # By another measure they have not failed.
    other = made(values, failures=[failure(n, s, "f1") for n in "fg" for s in failed_seeds])
    assert other.ranking().title.endswith("tied") == (not math.isnan(error_score))


@pytest.mark.parametrize("error_score", [0.0, math.nan])
def test_gains_of_failures_are_not_known(error_score):
    scratch = {"from scratch: x": [0.8, 0.81, 0.8], "from scratch: y": [0.5, error_score, 0.6]}
    twins = {"a": "from scratch: x", "b": "from scratch: y", "f": "from scratch: x"}
    values = {**MEASURED, "f": [0.9, error_score, 0.9]}
    failures = [failure("from scratch: y", 1), failure("f", 1)]
    ranking = made(values, scratch, twins, failures=failures)
    table, negative = ranking.ranking(), ranking.negative_transfer()
    alone = made(
        MEASURED, {"from scratch: x": [0.8, 0.81, 0.8]}, {"a": "from scratch: x"}
    ).ranking()
    assert (table["a"].gain, table["a"].gain_beyond_spread) == (alone["a"].gain, True)
    for name in "bf":
        assert math.isnan(table[name].gain) and table[name].gain_beyond_spread is None
    assert len(negative) == 0
    assert negative.title.startswith("accuracy: 0 of 1 candidates are no better than from scratch;")
    assert "'b'" in negative.title and "'f'" in negative.title and "'c'" not in negative.title
    # Each has succeeded with some seed, and none with all.
    values = {"a": [0.9, error_score, error_score], "b": [error_score, 0.9, error_score]}
    lost = [failure("a", 1), failure("a", 2), failure("b", 0), failure("b", 2)]
    none = made(values, scratch, dict.fromkeys("ab", "from scratch: x"), failures=lost)
    title = none.negative_transfer().title
    assert "no candidate can be compared with its architecture from scratch; 'a' and 'b'" in title


def test_candidates_without_an_architecture_from_scratch():
    ranking = made({"a": [0.5, 0.6]})
    assert ranking.ranking()["a"].gain is None
    table = ranking.negative_transfer()
    assert len(table) == 0 and "no candidate has been trained from scratch" in str(table)


def test_tables_can_be_read():
    values = {"a": [0.5, 0.6], "longer name": [0.4, 0.45], "line\nbreak ñ網": [0.1, 0.2]}
    twins = dict.fromkeys(values, "from scratch: Net-abc")
    ranking = made(values, {"from scratch: Net-abc": [0.3, 0.32]}, twins)
    lines = str(ranking.ranking()).splitlines()
    assert lines[0].startswith("accuracy, 2 seeds: candidates that differ by 0.1")
    assert lines[1].split() == [
        "candidate",
        "rank",
        "mean",
        "sd",
        "tied",
        "group",
        "gain",
        "beyond",
        "spread",
    ]
    assert lines[2].split() == ["a", "1", "0.5500", "0.0707", "yes", "1", "+0.2400", "yes"]
    assert lines[4].split() == [
        "from",
        "scratch:",
        "Net-abc",
        "-",
        "0.3100",
        "0.0141",
        "?",
        "-",
        "-",
        "?",
    ]
    assert lines[5].startswith(r"line\nbreak ñ網")
    lines = str(ranking.negative_transfer()).splitlines()
    assert lines[0] == "accuracy: 1 of 3 candidates are no better than from scratch"
    assert lines[2].startswith(r"line\nbreak") and "-0.1600" in lines[2]
    with pytest.raises(KeyError):
        ranking.ranking()["nobody"]
    frame = ranking.ranking().to_frame()
    assert frame["candidate"].tolist()[0] == "a" and len(frame) == 4
    assert repr(ranking) == (
        "ReferenceRanking(3 candidates, 1 from scratch, n_seeds=2, measures=['accuracy'])"
    )


def test_frames():
    frame = made({"a": [0.5, 0.6]}, {"from scratch: net": [0.1, 0.2]}).to_frame()
    assert frame["value"].tolist() == [0.5, 0.6, 0.1, 0.2]
    assert frame["from_scratch"].tolist() == [False, False, True, True]
    assert frame["energy"].isna().all() and str(frame["n_epochs"].dtype) == "Int64"


def test_frames_need_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="'to_frame' needs pandas"):
        made({"a": [0.5]}).to_frame()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.reference("loss"), r"'measure' must be one of \['accuracy'\]. Got 'loss'"),
        (lambda r: r.reference(seed=2), "'seed' must be a number from 0 to 1, or None. Got 2"),
        (lambda r: r.reference(seed=True), "'seed' must be a number from 0 to 1"),
        (lambda r: r.reference(seed=-1), "'seed' must be a number from 0 to 1"),
        (lambda r: r.ranking(level=1), "'level' must be a number between 0 and 1. Got 1"),
        (lambda r: r.ranking("loss"), "'measure' must be one of"),
        (lambda r: r.negative_transfer(level="x"), "'level' must be a number between 0 and 1"),
        (lambda r: ReferenceRanking([], {}), "one row for each candidate, measure and seed"),
        (lambda r: ReferenceRanking(r.rows[:3], {}), "Got 3 rows, 3 of them different, of 2"),
        (lambda r: ReferenceRanking(r.rows * 2, {}), "Got 8 rows, 4 of them different, of 2"),
    ],
)
def test_wrong_questions(call, message):
    with pytest.raises(ValueError, match=message):
        call(made({"a": [0.5, 0.6], "b": [0.3, 0.2]}))


ROW = ("a", False, "accuracy", 0, 0.5, 1.0, 3, None)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([("a", 1)], {}, r"'rows' must hold a ReferenceRow, or the 8 values .*Got \('a', 1\)"),
        (["a"], {}, "'rows' must hold a ReferenceRow"),
        ([3], {}, "'rows' must hold a ReferenceRow"),
        ([(3, *ROW[1:])], {}, "'rows' must have a text as 'candidate'. Got 3"),
        ([(*ROW[:3], True, *ROW[4:])], {}, "'rows' must have a whole number as 'seed'. Got True"),
        ([(*ROW[:4], "high", *ROW[5:])], {}, "'rows' must have a number as 'value'. Got 'high'"),
        ([(*ROW[:3], 1, *ROW[4:])], {}, r"seeds that are counted from 0. Got \[1\]"),
        ([ROW], {"protocol": 3}, "'protocol' must be a dict. Got 3"),
        ([ROW], {"twins": {"a": "b"}}, r"'twins' names \['b'\], for which there are no 'rows'"),
    ],
)
def test_wrong_rows(rows, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ReferenceRanking(rows, **{"protocol": {}} | options)
    assert ReferenceRanking([ROW], {}).reference() == {"a": 0.5}


@pytest.mark.parametrize("failures", [["a"], [{"candidate": "a", "seed": 0}]])
def test_failures_say_what_they_are_about(failures):
    with pytest.raises(
        TypeError, match="'failures' must hold dicts with 'candidate', 'measure' an"
    ):
        made({"a": [0.5]}, failures=failures)


def test_a_folder_that_is_no_path():
    ranking = made({"a": [0.5]})
    for call in (ranking.save, ReferenceRanking.load):
        with pytest.raises(TypeError, match="'folder' must be a text or a path. Got 5 instead"):
            call(5)
    with pytest.raises(ValueError, match="'format' must be 'auto', 'csv' or 'parquet'"):
        ranking.save("unused", format=np.array(["csv", "parquet"]))


def test_a_folder_without_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ranking = ReferenceRanking([ROW], {})
    with pytest.raises(ValueError, match="'folder' must be the name of a folder. Got ''"):
        ranking.save("")
    with pytest.raises(ValueError, match="'folder' must be the name of a folder. Got ''"):
        ReferenceRanking.load("")
    assert not list(tmp_path.iterdir())


# -- files ---------------------------------------------------------------------------------------

ODD_NAMES = [
    "plain",
    'with "quotes", commas',
    "line\nbreaks\r\nof both\rkinds",
    "ünïcödé 網",
    " ",
    "nan",
]


def odd():
    numbers = [1 / 3, math.nan, -0.0, 5e-324, 1e300, math.inf]
    rows = [
        (name, place > 3, measure, 0, value, 0.1 * place, place or None, [None, 1e-9][place % 2])
        for place, (name, value) in enumerate(zip(ODD_NAMES, numbers, strict=True))
        for measure in ("accuracy", "my, measure")
    ]
    return ReferenceRanking(
        rows,
        {"estimator": "FineTuneClassifier", "seeds": [2**32 - 1], "parameters": {"lr": 0.1}},
        {ODD_NAMES[0]: ODD_NAMES[4]},
        [{"candidate": ODD_NAMES[1], "seed": 0, "measure": "accuracy", "reason": "why not"}],
        [{"candidate": " ", "seed": 0, "kind": "NotConvergedWarning", "message": "x"}],
        [{"candidate": " ", "seed": 0, "measure": "accuracy", "params": {"lr": 1e-3}}],
    )


@pytest.mark.parametrize("table_format", ["csv", "parquet"])
def test_files_hold_all_of_it(tmp_path, table_format):
    if table_format == "parquet":
        pytest.importorskip("pyarrow")
    ranking = odd()
    ranking.save(tmp_path / "new" / "folder", format=table_format)
    names = sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    assert names == ["reference.json", f"values.{table_format}"]
    loaded = ReferenceRanking.load(str(tmp_path / "new" / "folder"))
    # By their texts, as NaN is unlike itself, and -0.0 like 0.0.
    assert repr(loaded.rows) == repr(ranking.rows)
    for name in ("protocol", "twins", "failures", "warnings", "best_params"):
        assert getattr(loaded, name) == getattr(ranking, name)
    assert type(loaded.rows[0]) is type(ranking.rows[0])


def test_a_ranking_takes_the_place_of_another(tmp_path):
    pytest.importorskip("pyarrow")
    odd().save(tmp_path, format="csv")
    made({"a": [0.5]}).save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["reference.json", "values.parquet"]
    assert ReferenceRanking.load(tmp_path).reference() == {"a": 0.5}


def test_tables_can_be_read_by_others(tmp_path):
    ranking = made({"a": [1 / 3, 0.5]})
    ranking.save(tmp_path, format="csv")
    with open(tmp_path / "values.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["value"]) for row in rows] == [1 / 3, 0.5]
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    ranking.save(tmp_path, format="parquet")
    assert pandas.read_parquet(tmp_path / "values.parquet")["value"].tolist() == [1 / 3, 0.5]
    assert json.loads((tmp_path / "reference.json").read_text())["n_rows"] == 2


def test_without_pyarrow(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    odd().save(tmp_path / "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    odd().save(tmp_path / "auto")
    assert (tmp_path / "auto" / "values.csv").exists()
    with pytest.raises(ImportError, match="format='parquet' needs pyarrow"):
        odd().save(tmp_path, format="parquet")
    with pytest.raises(ImportError, match="saved as parquet, which needs pyarrow"):
        ReferenceRanking.load(tmp_path / "parquet")


def test_damaged_files_are_refused(tmp_path):
    ranking = made({"a": [0.25, 0.5]})

    def spoil(name, change):
        ranking.save(tmp_path, format="csv")
        path = tmp_path / name
        change(path)
        with pytest.raises(ValueError) as raised:
            ReferenceRanking.load(tmp_path)
        return str(raised.value)

    def replace(old, new):
        return lambda path: path.write_bytes(path.read_bytes().replace(old, new))

    other = "damaged: it is not what was written"
    assert other in spoil("values.csv", replace(b"0.25", b"0.35"))
    assert other in spoil("values.csv", lambda p: p.write_bytes(p.read_bytes()[:-9]))
    assert "cannot be read (No such file" in spoil("values.csv", lambda p: p.unlink())
    assert other in spoil("reference.json", replace(b'"n_rows": 2', b'"n_rows": 3'))
    assert "is damaged" in spoil("reference.json", lambda p: p.write_bytes(p.read_bytes()[:99]))
    assert "is damaged" in spoil("reference.json", lambda p: p.write_bytes(b"[1]"))
    assert "is damaged" in spoil("reference.json", lambda p: p.write_bytes(b"\xff\xfe"))
    assert "is damaged" in spoil("reference.json", lambda p: p.write_bytes(b"{}"))
    assert "holds no reference ranking" in spoil("reference.json", lambda p: p.unlink())
    assert "holds no reference ranking" in str(
        pytest.raises(ValueError, ReferenceRanking.load, tmp_path / "nowhere").value
    )


def test_other_formats_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sktransfer.finetune._reference_files._FORMAT", 99)
    made({"a": [0.25]}).save(tmp_path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="is of format 99, and this version.*reads format 1"):
        ReferenceRanking.load(tmp_path)


def test_places_that_cannot_be_written_to(tmp_path):
    with pytest.raises(ValueError, match="'format' must be 'auto', 'csv' or 'parquet'. Got 'xls'"):
        odd().save(tmp_path, format="xls")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="'folder' must be a folder that can be made"):
        odd().save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "folder" / "values.csv").mkdir(parents=True)
    with pytest.raises(ValueError, match="'folder' must be a folder that can be made"):
        odd().save(tmp_path / "folder", format="csv")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["values.csv"]
