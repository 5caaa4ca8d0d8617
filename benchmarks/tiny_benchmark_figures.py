"""Figures of the findings page."""

import io

import matplotlib.pyplot as plt
import pandas as pd
from PIL import Image
from tiny_benchmark_findings import PUBLISHED

from sktransfer.evaluation import competition_ranks
from sktransfer.inspection import (
    MetricAgreementDisplay,
    RankBumpDisplay,
    ScorePerformanceDisplay,
    StabilityDisplay,
)

MEASURES = {"accuracy": "accuracy", "AUROC": "roc_auc_ovr"}


def draw(findings, folder):
    """Draw all figures.

    Parameters
    ----------
    findings : Findings
        What is drawn.
    folder : Path
        Where the files go.
    """
    for name, figure_of in FIGURES.items():
        display = figure_of(findings)
        save(display.figure_, folder / f"{name}.png")
        plt.close(display.figure_)


def save(figure, path):
    """Write a small PNG: flat colours need no more than a palette.

    Parameters
    ----------
    figure : matplotlib Figure
        The figure.
    path : Path
        The file.
    """
    file = io.BytesIO()
    figure.savefig(file, dpi=90, bbox_inches="tight")
    image = Image.open(file).convert("RGB")
    # This way of choosing colours keeps the rare ones of a colour bar.
    image = image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


def intra(findings):
    """Repeats with each other, figure 3 of the study."""
    return StabilityDisplay.from_frame(findings.intra(), kind="intra", coefficient="kendall")


def full(findings):
    """Repeats with the whole target, figure 4."""
    return StabilityDisplay.from_frame(findings.full(), kind="ref", coefficient="kendall")


def reference(findings):
    """Metrics with fine-tuning, figure 8."""
    frames = [
        findings.agreement(measure).assign(measure=title) for title, measure in MEASURES.items()
    ]
    return StabilityDisplay.from_frame(pd.concat(frames), kind="reference", coefficient="kendall")


def repeats(findings):
    """Ranks over the five repeats of 5 %, figure 5."""
    rows = []
    for metric in ("leep", "logme", "hscore"):
        table = findings.table("fashion", metric, 0.05)
        for repeat, scores in table.iterrows():
            ranks = dict(zip(table.columns, competition_ranks(scores).astype(float), strict=True))
            key = {"target": "fashion", "metric": metric, "fraction": 0.05, "repeat": repeat}
            rows.append(key | ranks)
    return RankBumpDisplay.from_frame(pd.DataFrame(rows))


def between_metrics(findings):
    """Metrics with each other, figure 6."""
    fractions = [0.05, 1.0]
    frame = findings.inter(metrics=PUBLISHED, fractions=fractions)
    return MetricAgreementDisplay.from_frame(frame, fraction=fractions, coefficient="kendall")


def measures(findings):
    """Ranks by two measures of performance, figure 7."""
    return RankBumpDisplay.from_scores(
        {
            target: {
                title: findings.reference(target, measure) for title, measure in MEASURES.items()
            }
            for target in findings.targets
        }
    )


def scores(findings):
    """Scores against performance on one target, on few and on all images."""
    fractions = [0.05, 1.0]
    frame = findings.scores.melt(
        ["target", "candidate", "fraction", "repeat"],
        ["hscore", "logme"],
        var_name="metric",
        value_name="score",
    )
    frame = frame[frame["target"] == "fashion"]
    by_seed = {
        name: [findings.reference("fashion", seed=seed)[name] for seed in findings.benchmark.seeds]
        for name in findings.reference("fashion")
    }
    return ScorePerformanceDisplay.from_frame(
        frame, by_seed, measure="accuracy", fraction=fractions
    )


FIGURES = {
    "intra": intra,
    "full": full,
    "repeats": repeats,
    "between_metrics": between_metrics,
    "measures": measures,
    "reference": reference,
    "scores": scores,
}
