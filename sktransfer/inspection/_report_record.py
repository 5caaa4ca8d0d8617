"""The last section of a report: what is needed to repeat the selection."""

from ._report_markup import escaped, name, paragraph, section, sentence, table
from ._report_tables import class_table

__all__ = ["record"]


def record(facts):
    """Show what a selection was made from.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A section.
    """
    kept = facts.record
    parts = [_weights(facts)]
    if not kept:
        why = "The selector was fitted by a version that kept no record of data and versions."
        return section("Reproducibility record", paragraph(why), *parts)
    rows = [[label, _long(value)] for label, value in _facts(kept)]
    parts.insert(0, table("Data, splits, seeds and options", ["fact", "value"], rows))
    if kept["class_counts"]:
        parts.append(class_table(kept["class_counts"]))
    metrics = [[name(m, whole=True), _long(escaped(what))] for m, what in kept["metrics"].items()]
    parts.append(table("Metrics with all parameters", ["metric", "what it is"], metrics))
    candidates = [
        [name(candidate, whole=True), _long(escaped(what))]
        for candidate, what in kept["candidates"].items()
    ]
    head = ["candidate", "what it is"]
    parts.append(table("Candidates with their parameters", head, candidates))
    versions = [[escaped(package), escaped(version)] for package, version in _versions(kept)]
    parts.append(table("Versions", ["package", "version"], versions))
    return section(
        "Reproducibility record",
        paragraph("The data themselves are not in this file.", "quiet"),
        *parts,
    )


def _facts(kept):
    splits = kept["splits"]
    low, high = splits["n_rows"]
    sizes = f"{low:,} rows" if low == high else f"{low:,} to {high:,} rows"
    seed = kept["resampling_seed"]
    yield "fitted at", escaped(kept["created"])
    yield "number of samples", f'<data value="{kept["n_samples"]}">{kept["n_samples"]:,}</data>'
    yield "data", escaped(kept["data"])
    yield "kind of target", escaped(kept["target"])
    yield "SHA-256 of the target, in the order of its rows", _code(kept["target_digest"])
    yield "cv", _code(splits["cv"])
    if splits["digest"] is None:
        yield "rows that were scored", f"all, {sizes}"
    else:
        yield "rows that were scored", f"{splits['n_splits']} splits, {sizes} each"
        yield "SHA-256 of the row numbers", _code(splits["digest"])
    yield "seed of the resamples", "no resamples" if seed is None else str(seed)
    weighted = kept["sample_weight"]
    yield "sample weights for", escaped(", ".join(weighted)) if weighted else "no metric"
    for option, value in kept["options"].items():
        yield _code(option), _code(value)


def _versions(kept):
    yield from kept["versions"].items()
    yield "platform", kept["platform"]


def _weights(facts):
    rows = []
    for each in facts.candidates:
        weights, digest = each.table["weights"], each.table["weights_hash"]
        pretrained = {True: "yes", False: "no, random"}.get(each.table["pretrained"], "not known")
        rows.append(
            [
                name(each.name, whole=True),
                _long(sentence(str(weights))) if weights else _unknown(),
                pretrained,
                _code(digest) if digest else _unknown(),
            ]
        )
    head = ["candidate", "weights", "pretrained", "hash of the weights"]
    return table("Weights of the candidates", head, rows, kind="all")


def _unknown():
    return '<span class="none">none known</span>'


def _code(value):
    return f'<code class="long">{escaped(value)}</code>'


def _long(markup):
    return f'<span class="long">{markup}</span>'
