"""Pieces of HTML: whatever a user named is text in them and nothing else."""

import html
import math
import os
import re
import unicodedata

__all__ = [
    "anchor",
    "decimals_for",
    "digits",
    "escaped",
    "listing",
    "name",
    "number",
    "paragraph",
    "section",
    "sentence",
    "shortened",
    "table",
]

_LONGEST_IN_SENTENCE = 60
# Characters that turn the text behind them around, or draw over what stands before.
_TURNS_AROUND = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def escaped(value):
    """Make text that is safe in HTML, in quoted attributes and in SVG.

    Characters without a picture (controls, halves of a pair, marks that turn text around) are
    written as Python does, and the user's home folder as ``~``.

    Parameters
    ----------
    value : object
        What to show.

    Returns
    -------
    text : str
        The text, which UTF-8 can encode.
    """
    text = _without_home(str(value))
    text = "".join(c if _is_shown(c) else c.encode("unicode_escape").decode() for c in text)
    return html.escape(text, quote=True)


def _is_shown(character):
    if character.isprintable():
        return True
    if character in _TURNS_AROUND:
        return False
    # Joiners between emoji, spaces of any width; no controls, surrogates or what has no meaning.
    return unicodedata.category(character) in ("Cf", "Zs", "Co")


def _without_home(text):
    home = os.path.expanduser("~")
    if len(home) < 2 or not os.path.isabs(home):
        return text
    return text.replace(home + os.sep, "~" + os.sep)


def shortened(value, longest=_LONGEST_IN_SENTENCE):
    """Leave out the middle of a long text.

    Parameters
    ----------
    value : object
        The text.
    longest : int, default=60
        Number of characters that are left.

    Returns
    -------
    text : str
        The same, or its head and tail.
    """
    text = str(value)
    if len(text) <= longest:
        return text
    tail = longest // 3
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"


def name(value, *, whole=False):
    """Mark up what a user called something.

    Parameters
    ----------
    value : str
        The name.
    whole : bool, default=False
        Whether a long name is written out.

    Returns
    -------
    markup : str
        The name, whose direction of writing stays its own.
    """
    short = str(value) if whole else shortened(value)
    title = "" if short == str(value) else f' title="{escaped(value)}"'
    kind = "name whole" if whole else "name"
    return f'<bdi class="{kind}"{title}>{escaped(short)}</bdi>'


def sentence(text, names=()):
    """Mark up a sentence in which names may stand in quotes.

    Parameters
    ----------
    text : str
        The sentence.
    names : iterable of str, default=()
        Names that may occur as ``repr`` writes them.

    Returns
    -------
    markup : str
        The sentence on one line.
    """
    known = {repr(str(each)): each for each in names}
    if not known:
        return escaped(" ".join(text.split()))
    pattern = "|".join(re.escape(each) for each in sorted(known, key=len, reverse=True))
    parts = re.split(f"({pattern})", text)
    return "".join(
        name(known[part]) if place % 2 else escaped(re.sub(r"\s+", " ", part))
        for place, part in enumerate(parts)
    )


def decimals_for(values):
    """Choose how many decimals tell numbers of a column apart.

    Parameters
    ----------
    values : iterable of float
        The numbers; those that are not finite don't count.

    Returns
    -------
    decimals : int or None
        Four digits of their range and three of that of their upper half, between which the choice
        is, so that one number far below hides no difference, without the zeros that would end
        all of more than four; None where they need an exponent.
    """
    finite = sorted(float(value) for value in values if math.isfinite(value))
    if not finite:
        return 4
    largest, span = max(map(abs, finite)), finite[-1] - finite[0]
    if largest >= 1e9 or 0 < largest < 1e-5:
        return None
    if largest == 0:
        return 4
    least = 1e-9 * largest  # what differs by less is the same
    decimals = 3 - math.floor(math.log10(span if span > least else largest))
    upper = finite[-1] - finite[len(finite) // 2]
    if upper > least:
        decimals = max(decimals, 2 - math.floor(math.log10(upper)))
    decimals = min(max(decimals, 0), 8)
    while decimals > 4 and all(abs(round(v, decimals - 1) - v) <= least for v in finite):
        decimals -= 1
    return decimals


def number(value, decimals=4):
    """Mark up a number, with all its digits behind it.

    Parameters
    ----------
    value : float or int
        The number.
    decimals : int or None, default=4
        How many to show; None for three and an exponent.

    Returns
    -------
    markup : str
        A ``data`` element, whose value is exact; a symbol that is read out as a word for a number
        that is none.
    """
    shown = digits(value, decimals)
    if math.isfinite(value):
        value = int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
        return f'<data value="{value!r}">{shown}</data>'
    word = "none" if math.isnan(value) else "infinite" if value > 0 else "minus infinite"
    kind = _class("none" if word == "none" else None)
    return f'<span{kind} role="img" aria-label="{word}" title="{word}">{shown}</span>'


def digits(value, decimals=4):
    """Write a number, the same way in text and plots.

    Parameters
    ----------
    value : float or int
        The number.
    decimals : int or None, default=4
        As for :func:`number`.

    Returns
    -------
    text : str
        The digits; a dash for NaN, and the sign of infinity.
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    # What is rounded to nothing has no sign.
    return f"{value:.3e}" if decimals is None else f"{value:z,.{decimals}f}"


def paragraph(markup, kind=None):
    """Wrap markup in a paragraph.

    Parameters
    ----------
    markup : str
        Escaped content.
    kind : str, default=None
        Class for the style sheet.

    Returns
    -------
    markup : str
        The paragraph.
    """
    return f"<p{_class(kind)}>{markup}</p>"


def listing(items, kind=None):
    """Make a list.

    Parameters
    ----------
    items : iterable of str
        Escaped content of each entry.
    kind : str, default=None
        Class for the style sheet.

    Returns
    -------
    markup : str
        The list.
    """
    return f"<ul{_class(kind)}>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def table(caption, head, rows, *, kind=None, marked=()):
    """Make a table that scrolls sideways where it is wider than the page.

    Parameters
    ----------
    caption : str
        Escaped text of the caption.
    head : list of str
        Escaped heads of the columns. One that starts with "#" is that of a column of numbers.
    rows : list of list of str
        Escaped cells. The first cell of a row that is a name heads the row; else the first.
    kind : str, default=None
        Class for the style sheet.
    marked : collection of int, default=()
        Rows to be set off.

    Returns
    -------
    markup : str
        The table.
    """
    numeric = [column.startswith("#") for column in head]
    heading = next((place for place, column in enumerate(head) if column.startswith("!")), 0)
    kinds = ["number" if is_number else None for is_number in numeric]
    if head[heading].startswith("!"):
        kinds[heading] = "heading"  # stays in view when the others scroll
        kind = f"{kind} named" if kind else "named"
    heads = "".join(
        f'<th scope="col"{_class(kind_of_column)}>{column.lstrip("#!")}</th>'
        for column, kind_of_column in zip(head, kinds, strict=True)
    )
    body = []
    for place, row in enumerate(rows):
        cells = "".join(
            f'<th scope="row">{cell}</th>'
            if column == heading
            else f"<td{_class('number' if numeric[column] else None)}>{cell}</td>"
            for column, cell in enumerate(row)
        )
        body.append(f"<tr{_class('marked' if place in marked else None)}>{cells}</tr>")
    label = re.sub(r"<[^>]*>", "", caption)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">'
        f"<table{_class(kind)}><caption><span>{caption}</span></caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>\n{chr(10).join(body)}\n</tbody></table></div>"
    )


def anchor(title):
    """Make the id of a section.

    Parameters
    ----------
    title : str
        Its title.

    Returns
    -------
    anchor : str
        Lower case, with hyphens.
    """
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-")


def section(title, *parts):
    """Make a section.

    Parameters
    ----------
    title : str
        Its title.
    *parts : str
        Markup; empty parts are left out.

    Returns
    -------
    markup : str
        The section.
    """
    own = anchor(title)
    body = "\n".join(part for part in parts if part)
    return (
        f'<section id="{own}" aria-labelledby="{own}-title">\n'
        f'<h2 id="{own}-title">{escaped(title)}</h2>\n{body}\n</section>'
    )


def _class(kind):
    return f' class="{kind}"' if kind else ""
