r"""How often the candidates that can't be told apart from the best hold the truly best one.

Selections are simulated: rows of a few classes in a latent space, which every candidate sees
through a map of its own, more or less clearly, with noise of its own. The first three candidates
nearly tie, the last is clearly worse. The best is the one whose score is highest on the mean of
many fresh samples of the same size. Printed for each metric, and for each way to resample it, are
in percent how often the set at 95 % holds the best, how many candidates it has on average, and the
same for an oracle that knows how scores vary over fresh samples; last, by how much the resamples
under- or overstate the standard deviation of the difference to the best.

What was simulated is kept in a folder, and a run goes on where another one ended. The table of the
documentation is in ``coverage_of_selection.csv``:

    python benchmarks/coverage_of_selection.py --work coverage --selections 300 --jobs 2
    python benchmarks/coverage_of_selection.py --work coverage --schemes tenth --metrics logme \
        --settings "n > D" "n < D"
    python benchmarks/coverage_of_selection.py --work coverage --schemes dirichlet \
        --metrics logme hscore leep knn --settings "n > D" "n < D"
    python benchmarks/coverage_of_selection.py --work coverage --report-only --table \
        --schemes auto half tenth dirichlet
    python benchmarks/coverage_of_selection.py --page
"""

import argparse
import csv
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from sktransfer.evaluation import selection_uncertainty
from sktransfer.metrics import get_metric
from sktransfer.model_selection._prepared_metric import PreparedMetric
from sktransfer.model_selection._resampled_scores import resample_scores
from sktransfer.model_selection._resamples import Resamples, scheme_of
from sktransfer.model_selection._scoring import ScoringTask

TABLE = Path(__file__).with_suffix(".csv")
COLUMNS = (
    "setting",
    "metric",
    "resampling",
    "selections",
    "held",
    "size",
    "oracle_held",
    "oracle_size",
    "least_ratio",
    "largest_ratio",
)
N_RESAMPLES = 40
FEWEST = 100
CHUNK = 5
LATENT = 6

FAMILIES = {
    "moments": ("logme", "hscore", "gbc", "transrate", "pactran"),
    "source outputs": ("leep", "nce", "otce", "nleep"),
    "neighbours": ("knn", "parc", "pas", "lp"),
    "probes": ("linearprobe", "sfda"),
    "pool": ("ncti", "etran"),
    "consensus": ("logme + pactran",),
}
# These take their time, and are simulated in some settings only.
EXPENSIVE = {
    "pactran": ("n > D", "n < D"),
    "logme + pactran": ("n > D", "n < D"),
    "nleep": ("n > D", "n < D"),
    "lp": ("n < D",),
}
PARAMETERS = {"hscore": {"shrinkage": "ledoit_wolf"}}


@dataclass(frozen=True)
class Setting:
    """A kind of target and of candidates."""

    n_samples: int
    n_features: int
    n_classes: int
    strengths: tuple
    smallest_class: float | None = None
    rows_per_class: int | None = None

    @property
    def codes(self):
        """Classes of the rows, where they are the same in all samples."""
        if self.rows_per_class is not None:
            return np.repeat(np.arange(self.n_classes), self.rows_per_class)

    def scheme(self, scheme):
        """Say what is left out: small classes are not halved."""
        return scheme if self.rows_per_class is None or scheme == "dirichlet" else "tenth"

    def problem(self):
        """Return class centres, maps and source heads, the same for all samples."""
        rng = np.random.default_rng([self.n_samples, self.n_features])
        shape = (LATENT, self.n_features)
        return (
            1.2 * rng.normal(size=(self.n_classes, LATENT)),
            [
                rng.normal(size=shape) / np.sqrt(LATENT) * (rng.random(self.n_features) < 0.5)
                for _ in self.strengths
            ],
            [
                2.5 * rng.normal(size=(self.n_features, 5)) / np.sqrt(self.n_features)
                for _ in self.strengths
            ],
        )

    def draw(self, rng):
        """Draw a fresh sample: labels, and features and probabilities of each candidate."""
        centres, maps, heads = self.problem()
        share = np.full(self.n_classes, 1 / self.n_classes)
        if self.smallest_class:
            share = np.array([1 - self.smallest_class, self.smallest_class])
        y = np.zeros(self.n_samples, dtype=int) if self.codes is None else self.codes
        while np.bincount(y, minlength=self.n_classes).min() < 2:
            y = rng.choice(self.n_classes, p=share, size=self.n_samples)
        rows = centres[y] + rng.normal(size=(self.n_samples, LATENT))
        candidates = []
        for strength, to_features, head in zip(self.strengths, maps, heads, strict=True):
            F = strength * rows @ to_features + rng.normal(size=(self.n_samples, self.n_features))
            P = np.exp(F @ head)
            candidates.append((F.astype(np.float32), P / P.sum(axis=1, keepdims=True)))
        return y, candidates


SETTINGS = {
    "n > D": Setting(80, 10, 3, (1, 0.98, 0.95, 0.5)),
    "n ~ D": Setting(80, 60, 3, (1, 0.98, 0.95, 0.5)),
    "n < D": Setting(40, 80, 3, (1, 0.98, 0.95, 0.5)),
    "uneven": Setting(100, 20, 2, (1, 0.97, 0.9, 0.3), smallest_class=0.15),
    "few": Setting(40, 20, 10, (1, 0.98, 0.95, 0.5), rows_per_class=4),
}

TITLES = {
    "n > D": "80 rows, 10 features",
    "n ~ D": "80 rows, 60 features",
    "n < D": "40 rows, 80 features",
    "uneven": "100 rows, 20 features, one class of 15",
    "few": "40 rows, 20 features, classes of 4",
}


def named(metrics):
    return {name: get_metric(name).set_params(**PARAMETERS.get(name, {})) for name in metrics}


def plain_scores(y, candidates, metrics):
    """Scores on the sample, of shape (n_candidates,) by metric."""
    scores = {}
    for name, metric in metrics.items():
        prepared = [PreparedMetric(metric, y, features=F, probabilities=P) for F, P in candidates]
        found = [each.score(None, None, {}) for each in prepared]
        scores[name] = np.array([score for score, _ in found])
        if metric.relative_to_pool:
            scores[name] = type(metric).pool_scores([fitted for _, fitted in found])
    return scores


def fresh_scores(setting, metrics, seed):
    """Scores on a fresh sample."""
    rng = np.random.default_rng([1, seed])
    return plain_scores(*SETTINGS[setting].draw(rng), named(metrics))


def selection(setting, schemes, seed):
    """Scores on a sample and on its resamples, as arrays by name of the metric and scheme."""
    rng = np.random.default_rng([2, seed])
    y, candidates = SETTINGS[setting].draw(rng)
    metrics = named({name for name, _ in schemes})
    scores = plain_scores(y, candidates, metrics)
    columns = {f"{name}/{scheme}": metrics[name] for name, scheme in schemes}
    named_schemes = {f"{name}/{scheme}": scheme for name, scheme in schemes}
    resamples = Resamples(N_RESAMPLES, seed, np.arange(len(y)), named_schemes, y)
    found = [
        resample_scores(ScoringTask(0, 0, columns, F, P, y, {}), resamples, columns)
        for F, P in candidates
    ]
    result = {}
    for (name, _), (column, metric) in zip(schemes, columns.items(), strict=True):
        if metric.relative_to_pool:
            pools = zip(*(scored[column].fitted for scored in found), strict=True)
            resampled = np.array([type(metric).pool_scores(pool) for pool in pools])
        else:
            resampled = np.transpose([scored[column].values for scored in found])
        result[column] = np.vstack([scores[name], resampled])
    return result


def simulate(path, work, seeds):
    """Do one part of the work and keep it, unless it is there."""
    if path.exists():
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [work(seed) for seed in seeds]
    arrays = {
        name.replace("/", "__"): np.array([part[name] for part in parts]) for name in parts[0]
    }
    partial = path.with_suffix(f".{os.getpid()}.npz")
    np.savez(partial, **arrays)
    partial.rename(path)


def kept(folder, kind, setting, name):
    """Everything that was simulated for a metric in a setting."""
    slug = setting.replace(" ", "")
    parts = []
    for path in sorted(folder.glob(f"{kind}_{slug}_*.npz")):
        with np.load(path) as arrays:
            if name.replace("/", "__") in arrays:
                parts.append(arrays[name.replace("/", "__")])
    return np.concatenate(parts) if parts else None


def plan(folder, arguments, schemes):
    """List the parts of the work, so that all metrics grow at the same rate."""
    for first in range(0, max(arguments.selections, arguments.fresh), CHUNK):
        for setting in arguments.settings:
            slug = setting.replace(" ", "")
            for name in arguments.metrics:
                if " + " in name or setting not in settings_of(name):
                    continue
                of_metric = [(n, SETTINGS[setting].scheme(s)) for n, s in schemes if n == name]
                kinds = "-".join(scheme for _, scheme in of_metric)
                if first < arguments.selections:
                    yield delayed(simulate)(
                        folder / f"selection_{slug}_{name}-{kinds}_{first:05}.npz",
                        lambda seed, s=setting, pairs=of_metric: selection(s, pairs, seed),
                        range(first, first + CHUNK),
                    )
                if first < arguments.fresh:
                    yield delayed(simulate)(
                        folder / f"fresh_{slug}_{name}_{first:05}.npz",
                        lambda seed, s=setting, n=name: fresh_scores(s, (n,), seed),
                        range(first, first + CHUNK),
                    )


def simulations(folder, setting, name, scheme):
    """Give scores on samples and their resamples, and on fresh samples; None if there are none."""
    if name == "logme + pactran":
        parts = [simulations(folder, setting, part, scheme) for part in name.split(" + ")]
        if any(array is None for pair in parts for array in pair):
            return None, None
        # In nats per sample, LogME as a mean over the classes.
        n_classes = SETTINGS[setting].n_classes
        pairs = [(a[: len(b)], b[: len(a)]) for a, b in zip(*parts, strict=True)]
        return [(n_classes * logme + pactran) / (n_classes + 1) for logme, pactran in pairs]
    simulated = kept(folder, "selection", setting, f"{name}/{scheme}")
    return simulated, kept(folder, "fresh", setting, name)


def measure(folder, setting, name, scheme):
    """Compute a row of the table, None without enough simulations."""
    simulated, fresh = simulations(folder, setting, name, scheme)
    if simulated is None or fresh is None or len(fresh) < N_RESAMPLES:
        return None
    n_samples, codes = SETTINGS[setting].n_samples, SETTINGS[setting].codes
    best = int(fresh.mean(axis=0).argmax())
    metric = None if " + " in name else named([name])[name]
    scale = Resamples(N_RESAMPLES, 0, np.arange(n_samples), {}, codes).scale(scheme, metric)
    pooled = metric is not None and metric.relative_to_pool
    sets, oracle, spread = [], [], []
    for scores, *resampled in simulated:
        found = selection_uncertainty(
            scores, resampled, n_samples=n_samples, scale=scale, relative_to_pool=pooled
        )
        sets.append(found.tied_with_best)
        oracle.append(selection_uncertainty(scores, fresh).tied_with_best)
        resampled = np.array(resampled)
        spread.append(np.nanvar(resampled - resampled[:, [best]], axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = scale * np.sqrt(np.mean(spread, axis=0)) / (fresh - fresh[:, [best]]).std(axis=0)
    others = np.delete(ratio, best)
    numbers = [
        100 * np.mean([best in found for found in sets]),
        np.mean([len(found) for found in sets]),
        100 * np.mean([best in found for found in oracle]),
        np.mean([len(found) for found in oracle]),
        others.min(),
        others.max(),
    ]
    values = (setting, name, scheme, len(sets), *(f"{number:.2f}" for number in numbers))
    return dict(zip(COLUMNS, values, strict=True))


def show(rows):
    """Print the table."""
    print(f"{'':31} of    held  size      oracle       deviation, ratio")
    for row in rows:
        print(
            f"{row['setting']:7} {row['metric']:12} {row['resampling']:10} {row['selections']:>4} "
            f"{row['held']:>7} {row['size']}  {row['oracle_held']:>7} {row['oracle_size']}   "
            f"{row['least_ratio']} to {row['largest_ratio']}"
        )


def page(rows):
    """Write the tables of the documentation: what "auto" chooses, and the other ways."""
    found = {(r["setting"], r["metric"], r["resampling"]): r for r in rows}

    def cell(setting, name, scheme):
        row = found.get((setting, name, SETTINGS[setting].scheme(scheme)))
        if row is None:
            return ""
        return (
            f"{float(row['held']):.0f} / {float(row['size']):.1f} ({float(row['oracle_size']):.1f})"
        )

    def table(pairs, settings, widths):
        lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
        for cells in [
            ["metric", "resampling", *(TITLES[setting] for setting in settings)],
            *([name, scheme, *(cell(s, name, scheme) for s in settings)] for name, scheme in pairs),
        ]:
            lines += [f"   {'  -' if n else '* -'} {text}".rstrip() for n, text in enumerate(cells)]
        return "\n".join(lines)

    weighted = dict.fromkeys(r["metric"] for r in rows if r["resampling"] == "dirichlet")
    return (
        table(automatic(), SETTINGS, "14 10 15 15 15 16 15"),
        table([(name, "dirichlet") for name in weighted], ("n > D", "n < D"), "25 25 25 25"),
    )


def automatic(names=None):
    """Give the metrics with the way to resample that is chosen for them."""
    for name in names or sum(FAMILIES.values(), ()):
        # Of several metrics all have the same resamples, which leave out a tenth.
        yield name, "tenth" if " + " in name else scheme_of(named([name])[name])


def settings_of(name):
    """Give the settings in which a metric is simulated."""
    return EXPENSIVE.get(name, tuple(SETTINGS))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    everything = sum(FAMILIES.values(), ())
    parser.add_argument("--work", type=Path, default=Path("coverage_of_selection"))
    parser.add_argument("--selections", type=int, default=300)
    parser.add_argument("--fresh", type=int, default=600, help="fresh samples that tell the best")
    parser.add_argument("--metrics", nargs="+", default=everything)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--schemes", nargs="+", default=["auto"], help="how to resample")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--table", action="store_true", help=f"write {TABLE.name}")
    parser.add_argument(
        "--page", action="store_true", help="print what the documentation has of it"
    )
    arguments = parser.parse_args()
    if arguments.page:
        with open(TABLE, newline="", encoding="utf-8") as file:
            print("\n\n".join(page(list(csv.DictReader(file)))))
        return
    schemes = list(automatic(arguments.metrics)) if "auto" in arguments.schemes else []
    for name, metric in named([n for n in arguments.metrics if " + " not in n]).items():
        for scheme in arguments.schemes:
            weights = has_fit_parameter(metric, "sample_weight") or scheme != "dirichlet"
            if scheme != "auto" and weights and (name, scheme) not in schemes:
                schemes.append((name, scheme))
    arguments.work.mkdir(parents=True, exist_ok=True)
    if not arguments.report_only:
        Parallel(n_jobs=arguments.jobs)(plan(arguments.work, arguments, schemes))
    pairs = [
        (setting, name, SETTINGS[setting].scheme(scheme))
        for setting in arguments.settings
        for name, scheme in schemes
    ]
    measured = [measure(arguments.work, *pair) for pair in dict.fromkeys(pairs)]
    rows = [row for row in measured if row is not None and row["selections"] >= FEWEST]
    show(rows)
    if arguments.table:
        with open(TABLE, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
