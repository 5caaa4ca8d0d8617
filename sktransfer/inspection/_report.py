"""A selection as one page of HTML that needs nothing else."""

import os
from datetime import UTC, datetime
from pathlib import Path

from sklearn.utils.validation import check_is_fitted

from .. import __version__
from ..model_selection import TransferabilitySelector
from ..utils._files import try_to_write, write_file
from ._report_advice import advice, certainty, findings
from ._report_facts import facts_of
from ._report_markup import anchor, escaped, shortened
from ._report_record import record
from ._report_style import STYLE
from ._report_tables import baselines, cost, metrics, problems, ranking

__all__ = ["check_report_path", "write_report"]

_SECTIONS = (certainty, findings, ranking, metrics, baselines, cost, problems, record)
# Nothing is loaded and nothing runs, whatever a name holds.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write_report(selector, path, *, title=None):
    """Write what a selection found into one HTML file.

    The file has everything in it, styles and plots too, and loads nothing. It recommends in one
    sentence, says how sure that is, and has the ranking with intervals, the baselines, the cost,
    what went wrong, and what is needed to repeat it. What wasn't computed, it says. The data are
    not in it.

    Read more in the :ref:`User Guide <report>`.

    Parameters
    ----------
    selector : TransferabilitySelector
        A fitted selector.
    path : str or path
        The file, in a folder that exists. One that is there is replaced, as a whole and in the
        end.
    title : str, default=None
        What the report is about, such as the name of the data.

    Returns
    -------
    path : Path
        The file.

    Raises
    ------
    TypeError
        If the selector is none.
    NotFittedError
        If it isn't fitted.
    ValueError
        If there can't be a file of this name.
    OSError
        If it can't be written, for a full disk.

    See Also
    --------
    sktransfer.model_selection.TransferabilitySelector.report : The same as a method.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> from sktransfer.inspection import write_report
    >>> from sktransfer.model_selection import TransferabilitySelector
    >>> X, y = load_iris(return_X_y=True)
    >>> candidates = [("one", PCA(n_components=1)), ("two", PCA(n_components=2))]
    >>> selector = TransferabilitySelector(candidates, n_resamples=40).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = write_report(selector, Path(folder) / "iris.html", title="iris")
    ...     print(report.read_text(encoding="utf-8")[:15])
    <!DOCTYPE html>
    """
    if not isinstance(selector, TransferabilitySelector):
        raise TypeError(
            f"'selector' must be a TransferabilitySelector. Got {type(selector).__name__} instead."
        )
    if title is not None and not isinstance(title, str):
        raise TypeError(f"'title' must be a str or None. Got {type(title).__name__} instead.")
    check_is_fitted(selector)
    path = check_report_path(path)
    page = _page(facts_of(selector), title)
    # Through a link to the file that it leads to, or the link would be replaced.
    write_file(Path(os.path.realpath(path)), page.encode("utf-8"))
    return path


def check_report_path(path, argument="'path'"):
    """Check that a file can be written, before there is something to write.

    Parameters
    ----------
    path : str or path
        The file.
    argument : str, default="'path'"
        What it was passed as, for messages.

    Returns
    -------
    path : Path
        The file.

    Raises
    ------
    TypeError
        If it is no path.
    ValueError
        If it is a folder or a device, its folder isn't there, or no file can be made in it.
    """
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise TypeError(f"{argument} must be a str or a path. Got {type(path).__name__} instead.")
    text = os.fspath(path)
    expected = f"{argument} must name a file in a folder that exists."
    if not text or "\0" in text:
        raise ValueError(f"{expected} Got {text!r} instead.")
    path, target = Path(text), Path(os.path.realpath(text))
    # Not the methods of a path, which raise where a name is too long.
    if os.path.isdir(path) or text.endswith(("/", os.sep)):
        raise ValueError(f"{expected} {text!r} is a folder.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{expected} {text!r} is no ordinary file.")
    if not os.path.isdir(target.parent):
        raise ValueError(f"{expected} There is no folder {str(path.parent)!r}.")
    try:
        try_to_write(target)
    except OSError as error:
        raise ValueError(f"{expected} {text!r} can't be written: {error.strerror}.") from error
    return path


def _page(facts, title):
    """Put a page together."""
    best = shortened(facts.selector.best_name_)
    heading = "Which network to fine-tune" + (f": {title}" if title else "")
    sections = [part for part in (write(facts) for write in _SECTIONS) if part]
    titles = [part.split("</h2>")[0].rsplit(">", 1)[1] for part in sections]
    links = "".join(f'<li><a href="#{anchor(each)}">{each}</a></li>' for each in titles)
    body = "\n".join(sections)
    now = datetime.now(UTC)
    about = f"{len(facts.candidates)} candidates"
    if facts.n_samples is not None:
        about += f", {facts.n_samples:,} samples"
    date = f'<time datetime="{now.isoformat(timespec="seconds")}">{now:%Y-%m-%d %H:%M} UTC</time>'
    return f"""<!DOCTYPE html>
<html lang="en" dir="ltr">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="sktransfer {escaped(__version__)}">
<title>{escaped(shortened(heading, 120))} ({escaped(best)})</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{escaped(heading)}</h1>
<p class="quiet">{about}. Report of {date}, sktransfer {escaped(__version__)}.</p>
</header>
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main>
{advice(facts)}
{body}
</main>
<footer>
<p>A score is a cheap guess at the result of fine-tuning, from features that stay as they are. It
orders candidates on these data only. Shorten the list with it, then fine-tune the few at the
top.</p>
</footer>
</body>
</html>
"""
