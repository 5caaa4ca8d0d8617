"""Plots of a report as inline SVG that fits any width: positions in percent, letters in pixels."""

import math

from ._report_markup import decimals_for, digits, escaped, name, number, shortened

__all__ = ["cost_plot", "ranking_plot", "size_plot"]

# Data lie between these shares of the width, so that marks and the labels of ticks have room.
_LEFT, _RIGHT = 4.0, 96.0
_ROW = 26
_HEIGHT = 300
_MOST_STEPS = 6
# Marks of points, about their centre: a diamond, a disc, a ring, a cross.
_MARKS = {
    "best": '<path class="dot best" d="M0-7L7 0 0 7-7 0z"/>',
    "tied": '<circle class="dot tied" r="5"/>',
    "other": '<circle class="dot other" r="5"/>',
    "twin": '<path class="dot twin" d="M-5-5L5 5M5-5L-5 5"/>',
}


class Axis:
    """A linear or logarithmic scale with round numbers on it.

    Parameters
    ----------
    values : list of float
        What has to be seen on it.
    logarithmic : bool, default=False
        Whether equal ratios are equal distances.
    left, right : float
        Where the smallest and largest value lie, in percent of the width.
    """

    def __init__(self, values, *, logarithmic=False, left=_LEFT, right=_RIGHT):
        self.logarithmic = logarithmic
        self.left, self.right = left, right
        mapped = [self._map(value) for value in values if math.isfinite(value)]
        low, high = (min(mapped), max(mapped)) if mapped else (0.0, 1.0)
        if not high - low > 1e-9 * max(abs(low), abs(high)):
            room = abs(high) / 2 or 1.0
            low, high = low - room, high + room
        self.low, self.high = low, high

    def _map(self, value):
        return math.log10(value) if self.logarithmic else float(value)

    def percent(self, value):
        """Where a value lies, in percent; infinite ones at the edge."""
        if math.isinf(value):
            return 100.0 if value > 0 else 0.0
        share = (self._map(value) - self.low) / (self.high - self.low)
        return self.left + (self.right - self.left) * share

    @property
    def ticks(self):
        """Round numbers on the axis, at most seven."""
        step = _round_up((self.high - self.low) / _MOST_STEPS)
        if self.logarithmic:
            decades = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
            if len(decades) >= 2:
                return [10.0**k for k in decades][:: math.ceil(len(decades) / 5)]
            decades = range(math.floor(self.low), math.ceil(self.high) + 1)
            round_numbers = [factor * 10.0**k for k in decades for factor in (1, 2, 5)]
            return [v for v in round_numbers if self.low <= self._map(v) <= self.high]
        return _multiples(self.low, self.high, step)


def _multiples(low, high, step):
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _round_up(step):
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if step <= power * factor * (1 + 1e-9))


def tick_label(value, ticks):
    """Write a number of an axis.

    Parameters
    ----------
    value : float
        The number.
    ticks : list of float
        All of them.

    Returns
    -------
    text : str
        As many decimals as tell them apart, and a short form of large numbers.
    """
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if max(map(abs, ticks)) >= size:
            unit_size = 1e3 if unit == "k" else size
            return "0" if value == 0 else f"{value / unit_size:g} {unit}"
    if len(ticks) < 2:
        return f"{value:.4g}"
    step = min(abs(b - a) for a, b in zip(ticks, ticks[1:], strict=False))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if decimals > 6:
        return f"{value:.3g}"
    return f"{value + 0.0:.{decimals}f}"


def _mark(kind, x, y="50%"):
    return f'<svg x="{x:.2f}%" y="{y}" width="1" height="1" overflow="visible">{_MARKS[kind]}</svg>'


def _line(kind, x1, y1, x2, y2):
    return f'<line class="{kind}" x1="{x1:.2f}%" y1="{y1}" x2="{x2:.2f}%" y2="{y2}"/>'


def _image(label, height, body):
    return f'<svg role="img" aria-label="{label}" height="{height}">{body}</svg>'


def _grid(axis):
    return "".join(_line("grid", p, 0, p, "100%") for p in map(axis.percent, axis.ticks))


def _scale(axis):
    """Numbers below the rows of a plot."""
    ticks, body = axis.ticks, []
    for value in ticks:
        place = axis.percent(value)
        label = escaped(tick_label(value, ticks))
        body.append(f'<text x="{place:.2f}%" y="15" text-anchor="middle">{label}</text>')
    return f'<svg aria-hidden="true" height="20">{"".join(body)}</svg>'


def _label(candidate):
    note = ""
    if candidate.is_untrained:
        note = ' <span class="mark">(untrained)</span>'
    rank = f"{candidate.rank}. " if candidate.has_score else ""
    return f'<div class="label">{rank}{name(candidate.name)}{note}</div>'


def _key(entries):
    items = "".join(
        f'<li><svg aria-hidden="true" viewBox="-12 -8 24 16">{drawn}</svg> {text}</li>'
        for drawn, text in entries
    )
    return f'<ul class="key">{items}</ul>'


def _figure(title, body, caption):
    return (
        f'<figure><h3>{title}</h3>{body}<figcaption class="quiet">{caption}</figcaption></figure>'
    )


def kind_of(candidate):
    """Choose the mark of a candidate.

    Parameters
    ----------
    candidate : Candidate
        The candidate.

    Returns
    -------
    kind : {"best", "tied", "other"}
        The name of the mark.
    """
    if candidate.is_best:
        return "best"
    return "tied" if candidate.is_tied else "other"


def ranking_plot(facts):
    """Draw the scores of all candidates, with their intervals.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A figure; empty without a score.
    """
    if not facts.scored:
        return ""
    level = facts.uncertainty.level if facts.uncertainty is not None else None
    values = []
    for each in facts.scored:
        values += [each.score, *_limits(each), each.twin]
    axis = Axis(values)
    decimals = decimals_for(each.score for each in facts.candidates)
    rows = []
    for each in facts.candidates:
        rows.append(_label(each))
        rows.append(f'<div class="strip">{_strip(each, axis, decimals, level)}</div>')
    rows.append('<div class="label quiet" aria-hidden="true"></div>')
    rows.append(f'<div class="strip">{_scale(axis)}</div>')

    entries = [(_MARKS["best"], "highest score")]
    if any(each.is_tied and not each.is_best for each in facts.candidates):
        entries.append((_MARKS["tied"], "can’t be told apart from it"))
    entries.append((_MARKS["other"], "other" if facts.tied is not None else "lower score"))
    if any(not math.isnan(each.twin) for each in facts.candidates):
        entries.append((_MARKS["twin"], "its untrained twin"))
    metric = escaped(shortened(facts.metric))
    if level is not None:
        said = f"Bars are {level:g} intervals of each candidate’s expected score by itself."
        said += " They may overlap although two candidates differ, since hard samples are hard"
        said += " for both; the marks go by the differences."
    elif facts.candidates[0].spread is not None:
        said = f"Bars are one standard deviation over {facts.selector.n_splits_} splits, which "
        said += "share most samples, to either side: no confidence interval."
    else:
        said = "No intervals were computed."
    caption = f"Score by <code>{metric}</code>, higher is better. {said}"
    if any(each.has_score and not math.isfinite(each.score) for each in facts.candidates):
        caption += " Infinite scores are at the edge."
    body = f'{_key(entries)}<div class="rows">{"".join(rows)}</div>'
    return _figure(f"Scores by <code>{metric}</code>", body, caption)


def _limits(candidate):
    if candidate.interval is not None:
        return candidate.interval
    if candidate.spread is not None:
        return candidate.score - candidate.spread, candidate.score + candidate.spread
    return ()


def _strip(candidate, axis, decimals, level):
    """One row: the interval and the mark."""
    shown = escaped(shortened(candidate.name))
    if not candidate.has_score:
        text = '<text x="2%" y="50%" dy="4">no score</text>'
        return _image(f"{shown}: no score", _ROW, _grid(axis) + text)
    label = f"{shown}: {digits(candidate.score, decimals)}"
    kind = kind_of(candidate)
    body = [_grid(axis)]
    limits = _limits(candidate)
    if limits and not any(map(math.isnan, limits)):
        low, high = map(axis.percent, limits)
        body.append(_line(f"bar {kind}", low, "50%", high, "50%"))
        what = f"{level:g} interval" if level is not None else "one standard deviation"
        label += f", {what} {digits(limits[0], decimals)} to {digits(limits[1], decimals)}"
    if not math.isnan(candidate.twin):
        body.append(_mark("twin", axis.percent(candidate.twin)))
        label += f", untrained twin {digits(candidate.twin, decimals)}"
    body.append(_mark(kind, axis.percent(candidate.score)))
    if candidate.is_best:
        label += ", highest score"
    elif candidate.is_tied:
        label += ", can’t be told apart from the best"
    return _image(label, _ROW, "".join(body))


def size_plot(facts):
    """Draw scores against numbers of parameters.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A figure; empty with fewer than three candidates of known and different size.
    """
    points = [
        (float(each.table["n_parameters"]), each)
        for each in facts.scored
        if each.table["n_parameters"] > 0 and math.isfinite(each.score)
    ]
    sizes = [size for size, _ in points]
    if len(points) < 3 or len(set(sizes)) < 2:
        return ""
    x = Axis(sizes, logarithmic=max(sizes) > 10 * min(sizes), left=14)
    # Upwards, so that the smallest score lies lowest.
    y = Axis([each.score for _, each in points], left=90, right=8)

    def height(score):
        return round(y.percent(score) / 100 * _HEIGHT, 1)

    body = []
    for value in y.ticks:
        h = height(value)
        body.append(_line("grid", 0, h, 100, h))
        body.append(f'<text x="0" y="{h - 3}">{escaped(tick_label(value, y.ticks))}</text>')
    for size, each in reversed(points):
        body.append(_mark(kind_of(each), x.percent(size), height(each.score)))
    taken = []
    for size, each in points:
        h, place = height(each.score), x.percent(size)
        # On the narrowest page a percent of the width is about three pixels.
        if all(abs(h - other) > 13 or abs(place - at) > 7 for at, other in taken):
            taken.append((place, h))
            side = ("end", -9) if place > 90 else ("start", 9)
            body.append(
                f'<text class="rank" x="{place:.2f}%" y="{h + 4}" dx="{side[1]}" '
                f'text-anchor="{side[0]}">{each.rank}</text>'
            )
    metric = escaped(shortened(facts.metric))
    label = f"Score by {metric} against number of parameters, {len(points)} candidates"
    chart = _image(label, _HEIGHT, "".join(body)) + _scale(x)
    scale = ", on a logarithmic scale" if x.logarithmic else ""
    caption = (
        f"Score by <code>{metric}</code> (upwards) against the number of parameters{scale}. "
        "The numbers are ranks. Points that rise to the right would mean that the metric says what "
        "size says."
    )
    return _figure("Score against number of parameters", chart, caption)


def cost_plot(facts):
    """Draw the seconds that each candidate took.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A figure; empty if nothing took any time.
    """
    totals = [sum(each.seconds) for each in facts.candidates]
    longest = max(totals)
    if not longest > 0:
        return ""
    decimals = decimals_for([*totals, 0.0])
    rows = []
    for each, total in zip(facts.candidates, totals, strict=True):
        extraction, scoring = (100 * seconds / longest for seconds in each.seconds)
        bars = (
            f'<rect class="extraction" y="50%" transform="translate(0 -6)" '
            f'width="{extraction:.2f}%" height="12"/>'
            f'<rect class="scoring" x="{extraction:.2f}%" y="50%" transform="translate(0 -3)" '
            f'width="{scoring:.2f}%" height="6"/>'
        )
        shown = escaped(shortened(each.name))
        label = f"{shown}: {each.seconds[0]:.3g} s to run, {each.seconds[1]:.3g} s to score"
        rows.append(_label(each))
        rows.append(f'<div class="strip">{_image(label, _ROW, bars)}</div>')
        rows.append(f'<div class="value">{number(total, decimals)} s</div>')
    entries = [
        ('<rect class="extraction" x="-12" y="-6" width="24" height="12"/>', "running it"),
        ('<rect class="scoring" x="-12" y="-3" width="24" height="6"/>', "scoring its features"),
    ]
    body = f'{_key(entries)}<div class="rows valued">{"".join(rows)}</div>'
    caption = (
        "Seconds by the clock, metrics and resamples included; what other candidates waited for is "
        "not shared out."
    )
    return _figure("Seconds for each candidate", body, caption)
