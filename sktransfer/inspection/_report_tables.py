"""The tables of a report: ranking, metrics, baselines, cost, problems."""

import math

import numpy as np

from ..evaluation import rank_correlation
from ._report_advice import metric_markup
from ._report_markup import (
    decimals_for,
    escaped,
    listing,
    name,
    number,
    paragraph,
    section,
    sentence,
    table,
)
from ._report_plots import cost_plot, ranking_plot, size_plot

__all__ = ["baselines", "cost", "metrics", "problems", "ranking"]

CALLED = {
    "n_parameters": "model size (parameters)",
    "n_features": "feature width",
    "source_accuracy": "accuracy on its own source",
    "knn": "leave-one-out nearest neighbour",
    "linearprobe": "leave-one-out linear probe",
    "untrained_twin": "untrained twin",
    "random": "random order",
}
# More columns than this would not fit on a printed page.
_MOST_COLUMNS = 6
_MOST_PERMUTATIONS = 1999


def ranking(facts):
    """Show the ranking by the deciding metric.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A section.
    """
    decimals = decimals_for(each.score for each in facts.candidates)
    columns = [("#rank", lambda each: number(each.rank, 0)), ("!candidate", _named)]
    metric = metric_markup(facts.metric)
    columns.append((f"#{metric}", lambda each: number(each.score, decimals)))
    if facts.candidates[0].spread is not None:
        n_splits = facts.selector.n_splits_
        columns.append(
            (f"#spread over {n_splits} splits", lambda each: number(each.spread, decimals))
        )
    if facts.uncertainty is not None:
        level = f"{facts.uncertainty.level:g}"
        columns += [
            (f"#{level} interval", lambda each: _interval(each.interval, decimals)),
            ("#ranks it may have", lambda each: _interval(each.ranks, 0)),
            ("#probability of being best", lambda each: number(each.probability, 3)),
        ]
    if facts.tied is not None:
        columns.append(("sampling: told apart from the best?", _tied))
    if facts.decision is not None:
        columns.append(("decision: may be best after fine-tuning?", _decided))
    rows = [[cell(each) for _, cell in columns] for each in facts.candidates]
    caption = f"Ranking by {metric}. Rank 1 is the best, equal scores share a rank."
    marked = [place for place, each in enumerate(facts.candidates) if each.is_best or each.is_tied]
    notes = []
    if facts.uncertainty is None:
        notes.append(paragraph(_no_intervals(facts), "quiet"))
    else:
        notes.append(_undefined(facts))
    return section(
        "Ranking",
        ranking_plot(facts),
        table(caption, [head for head, _ in columns], rows, marked=marked),
        *notes,
    )


def _named(candidate):
    note = ""
    if candidate.is_untrained:
        note = ' <span class="quiet">(untrained)</span>'
    return name(candidate.name, whole=True) + note


def _interval(limits, decimals):
    if limits is None or any(map(math.isnan, limits)):
        return number(math.nan)
    if limits[0] == limits[1] and decimals == 0:
        return number(limits[0], 0)
    return f"{number(limits[0], decimals)} to {number(limits[1], decimals)}"


def _tied(candidate):
    if not candidate.has_score:
        return '<span class="none">no score</span>'
    if candidate.is_best:
        return "best"
    return "<strong>no</strong>, tied with best" if candidate.is_tied else "yes"


def _decided(candidate):
    if not candidate.has_score:
        return '<span class="none">unknown</span>'
    return "<strong>yes</strong>" if candidate.in_decision_set else "no"


def _no_intervals(facts):
    if getattr(facts.selector, "uncertainty_", {}):
        return "There are no intervals of a consensus of ranks; those of each metric are below."
    return "There are no intervals: no resamples were drawn (n_resamples=0)."


def _undefined(facts):
    found = facts.uncertainty
    lacking = [
        f"{name(each)}: {n} of {found.n_resamples}"
        for each, n, score in zip(found.names, found.n_undefined, found.scores, strict=True)
        if n and not math.isnan(score)
    ]
    if not lacking:
        return ""
    return paragraph(f"Resamples without a score, left out: {'; '.join(lacking)}.")


def metrics(facts):
    """Show the scores and ranks by every metric, and how they were combined.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A section; empty for a single metric.
    """
    selector = facts.selector
    names = sorted(selector.metric_scores_, key=lambda metric: metric != facts.metric)
    if len(names) < 2:
        return ""
    parts = [
        paragraph(
            f"{metric_markup(facts.metric)} decides. Each metric has a scale of its own; rank in "
            "brackets."
        )
    ]
    for start in range(0, len(names), _MOST_COLUMNS):
        chosen = names[start : start + _MOST_COLUMNS]
        decimals = {m: decimals_for(selector.metric_scores_[m].values()) for m in chosen}
        rows = [
            [_named(each)]
            + [
                _scored(selector.metric_scores_[m][each.name], each.table[f"rank_{m}"], decimals[m])
                for m in chosen
            ]
            for each in facts.candidates
        ]
        head = ["!candidate", *(f"#{metric_markup(m)}" for m in chosen)]
        parts.append(table("Scores and ranks by every metric", head, rows))
    others = {m: u for m, u in getattr(selector, "uncertainty_", {}).items() if m != facts.metric}
    if others:
        said = (
            f"{metric_markup(m)}: {', '.join(map(name, found.tied_with_best))}"
            for m, found in others.items()
        )
        parts.append(paragraph("Not told apart from the best by the other metrics (sampling):"))
        parts.append(listing(said))
        parts.append(_not_resampled(selector, names))
    parts.append(_consensus(getattr(selector, "consensus_", None)))
    return section("All metrics", *parts)


def _scored(score, rank, decimals):
    if math.isnan(score):
        return number(score)
    return f'{number(score, decimals)} <span class="quiet">({int(rank)})</span>'


def _not_resampled(selector, names):
    without = [m for m in names if m in selector.metric_scores_ and m not in selector.uncertainty_]
    if not without:
        return ""
    marked = ", ".join(map(metric_markup, without))
    return paragraph(f"Without resamples, and so without intervals: {marked}.", "quiet")


def _consensus(found):
    if found is None:
        return ""
    weights = ", ".join(f"{metric_markup(m)} {w:.3g}" for m, w in found.weights.items())
    how = {
        "ranks": "the mean share of the other candidates that each one beats",
        "scores": "a weighted sum of scores",
    }.get(found.method, escaped(found.method))
    said = f"The consensus is {how}, with the weights {weights}. "
    if found.relative_to_pool:
        said += "It depends on which candidates are in the list. "
    if found.depends_on:
        named = ", ".join(map(metric_markup, found.depends_on))
        said += f"Without {named} another candidate would be the best."
    elif found.without:
        said += "No single metric decides: without any one of them the best stays the best."
    parts = [paragraph(said)]
    if found.without:
        rows = [
            [metric_markup(m), ", ".join(map(name, left.best)), number(left.kendall, 2)]
            for m, left in found.without.items()
        ]
        head = ["!left out", "best without it", "#Kendall’s tau with the consensus"]
        parts.append(table("The consensus without each metric", head, rows))
    return "".join(parts)


def baselines(facts):
    """Show what simple rules say of the same candidates.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A section.
    """
    if not facts.baselines:
        why = "None were computed: the selector was fitted with <code>baselines=None</code>."
        return section("Baselines", paragraph(why), size_plot(facts))
    intro = paragraph(
        "What trivial rules say of the same candidates. A metric is worth its trouble where it "
        "says more than these."
    )
    known, unknown = {}, []
    for baseline, scores in facts.baselines.items():
        if all(map(math.isnan, scores.values())):
            unknown.append(CALLED.get(baseline, escaped(baseline)))
        else:
            known[baseline] = scores
    parts = [intro]
    if known:
        parts.append(_first_choices(facts, known))
        decimals = {
            b: 0 if b in ("n_parameters", "n_features") else decimals_for(scores.values())
            for b, scores in known.items()
        }
        # On the scale of the deciding metric, to be compared with its scores.
        decimals["untrained_twin"] = decimals_for(each.score for each in facts.candidates)
        head = ["!candidate", f"#rank by {metric_markup(facts.metric)}"]
        head += [f"#{CALLED.get(b, escaped(b))}" for b in known]
        rows = [
            [
                _named(each),
                number(each.rank, 0),
                *(number(scores[each.name], decimals[b]) for b, scores in known.items()),
            ]
            for each in facts.candidates
        ]
        caption = "Baselines of each candidate; the untrained twin is scored by the deciding metric"
        parts.append(table(caption, head, rows))
    if unknown:
        parts.append(paragraph(f"Not known of any candidate: {', '.join(unknown)}.", "quiet"))
    return section("Baselines", *parts, size_plot(facts))


def _first_choices(facts, known):
    scores = {each.name: each.score for each in facts.scored}
    rows = []
    for baseline, values in known.items():
        best = max(value for value in values.values() if not math.isnan(value))
        first = [each for each, value in values.items() if value == best]
        choice = ", ".join(map(name, first[:3]))
        if len(first) > 3:
            choice += f" and {len(first) - 3} more"
        both = [each for each in scores if not math.isnan(values[each])]
        tau = rank_correlation(
            {each: scores[each] for each in both},
            {each: values[each] for each in both},
            n_permutations=0,
            n_resamples=_MOST_PERMUTATIONS,
        )
        agreement = number(float(tau), 2)
        if not any(map(math.isnan, tau.interval)):
            agreement += f" ({tau.interval[0]:.2f} to {tau.interval[1]:.2f})"
        rows.append([CALLED.get(baseline, escaped(baseline)), choice, agreement, str(len(both))])
    head = ["!rule", "its first choice", "#Kendall’s tau with the metric (0.95 interval)"]
    head.append("#candidates")
    caption = "First choice of each rule, and how far its order agrees with that of the metric"
    return table(caption, head, rows)


def cost(facts):
    """Show what each candidate cost, and how large it is.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A section.
    """
    extraction = [each.seconds[0] for each in facts.candidates]
    scoring = [each.seconds[1] for each in facts.candidates]
    decimals = decimals_for([*extraction, *scoring, 0.0])
    rows = []
    for each in facts.candidates:
        width, size = each.table["n_features"], each.table["n_parameters"]
        rows.append(
            [
                _named(each),
                number(float(width), 0),
                number(float(size), 0),
                number(int(each.table["rows_extracted"]), 0),
                "yes" if each.table["from_store"] else "no",
                number(each.seconds[0], decimals),
                number(each.seconds[1], decimals),
            ]
        )
    head = ["!candidate", "#feature width", "#parameters", "#rows run", "features from a store"]
    head += ["#seconds to run", "#seconds to score"]
    totals = sum(extraction), sum(scoring)
    run, score = (number(total, decimals_for([*totals, 0.0])) for total in totals)
    said = (
        f"All {len(rows)} candidates took {run}\N{NO-BREAK SPACE}s to run and "
        f"{score}\N{NO-BREAK SPACE}s to score. Nothing was fine-tuned."
    )
    return section(
        "Cost",
        paragraph(said),
        cost_plot(facts),
        table("Size and cost of each candidate", head, rows),
    )


def problems(facts):
    """List failures and warnings.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A section.
    """
    selector, names = facts.selector, facts.names
    parts = []
    if selector.failures_:
        rows = [
            [name(candidate, whole=True), metric_markup(metric), _long(sentence(reason, names))]
            for candidate, reasons in selector.failures_.items()
            for metric, reason in reasons.items()
        ]
        head = ["!candidate", "metric", "reason"]
        parts.append(table("Scores that are missing, and why", head, rows))
    if selector.split_failures_:
        rows = [
            [metric_markup(metric), str(split), _long(sentence(reason, names))]
            for metric, reasons in selector.split_failures_.items()
            for split, reason in reasons.items()
        ]
        head = ["metric", "split", "reason"]
        parts.append(table("Splits left out for all candidates, and why", head, rows))
    said = {}
    for candidate, messages in selector.warnings_.items():
        for message in messages:
            said.setdefault(message, []).append(candidate)
    if said:
        rows = [
            [_long(sentence(message, names)), ", ".join(map(name, whom))]
            for message, whom in said.items()
        ]
        parts.append(table("What the metrics warned of", ["warning", "candidates"], rows))
    if not parts:
        parts = [paragraph("None: every candidate was scored, and no metric warned of anything.")]
    return section("Warnings and failures", *parts)


def _long(markup):
    return f'<span class="long">{markup}</span>'


def class_table(counts):
    """Show how many rows each class has.

    Parameters
    ----------
    counts : dict of object to int
        By class.

    Returns
    -------
    markup : str
        A table; of many classes the rarest and the most frequent only.
    """
    ordered = sorted(counts.items(), key=lambda entry: -entry[1])
    sizes = np.array(list(counts.values()))
    caption = f"{len(counts)} classes, {sizes.min():,} to {sizes.max():,} rows each"
    if len(ordered) > 40:
        ordered = ordered[:10] + ordered[-10:]
        caption += f", {np.median(sizes):,.0f} in the middle; the 10 largest and the 10 smallest"
    rows = [[name(label, whole=True), number(n, 0)] for label, n in ordered]
    return table(caption, ["!class", "#rows"], rows)
