"""The head of a report: the recommendation in one sentence, how sure it is, what to mind."""

from ..model_selection._consensus_choice import CONSENSUS
from ..model_selection._findings import WITHIN_NOISE
from ._report_markup import escaped, listing, name, paragraph, section, sentence, shortened

__all__ = ["advice", "certainty", "findings", "metric_markup"]

_MOST_NAMED = 4


def metric_markup(metric):
    """Mark up what a metric is called.

    Parameters
    ----------
    metric : str
        Its name.

    Returns
    -------
    markup : str
        The name, as code.
    """
    return f"<code>{escaped(shortened(metric, 40))}</code>"


def _several(names):
    """Write names in a sentence."""
    marked = [name(each) for each in names]
    if len(marked) > 1:
        marked[-2:] = [f"{marked[-2]} and {marked[-1]}"]
    return ", ".join(marked)


def _counted(n, what):
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def advice(facts):
    """Recommend in one sentence.

    It speaks of this metric and of these samples, and so of the sampling promise only.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A paragraph.
    """
    said, untrained = _advice(facts), _untrained_best(facts)
    if untrained and not _is_pretraining_beaten(facts):
        has = "has" if len(untrained) == 1 else "have"
        said += f" Mind that {_several(untrained)} {has} random weights."
    return f'<p class="advice" id="recommendation">{said}</p>'


def _advice(facts):
    best = [each.name for each in facts.scored if each.is_best]
    scored, n_all = len(facts.scored), len(facts.candidates)
    by = f"by {metric_markup(facts.metric)}"
    if facts.n_samples is not None:
        by += f" on {_counted(facts.n_samples, 'sample')}"
    first = name(facts.selector.best_name_)
    if scored == 1:
        if n_all == 1:
            return f"There is nothing to choose: {first} is the only candidate."
        return (
            f"Nothing was compared: of {n_all} candidates only {first} has a score {by}; see why "
            "the others failed before you fine-tune it."
        )
    of = f"of {n_all} candidates"
    top = next(each for each in facts.scored if each.name == facts.selector.best_name_)
    if _is_noise(facts):
        return (
            f"No candidate stands out: all {scored} with a score are within noise {by}, and "
            f"{first}, which scores highest, is no better founded than another choice."
        )
    if _is_pretraining_beaten(facts):
        return (
            f"Doubt that pretraining helps here: {first}, which scores highest {of} {by}, has "
            f"random weights{_and_tied(facts, best)}."
        )
    if not top.is_untrained and top.twin >= top.score:
        return (
            f"Doubt that pretraining helps here: {first} scores highest {of} {by}, but not higher "
            "than the same architecture with random weights."
        )
    if len(best) > 1:
        if len(best) <= _MOST_NAMED:
            return f"Fine-tune {_several(best)}, which share the highest score {of} {by}."
        return (
            f"Choose among {len(best)} candidates with the same highest score {of} {by}, such as "
            f"{first}."
        )
    return f"Fine-tune {first} first: {of} it has the highest score {by}{_and_tied(facts, best)}."


def _and_tied(facts, best):
    """Go on with the candidates that can't be told apart from the best, if that is known."""
    if facts.tied is None:
        return ""
    others = [each for each in facts.tied if each not in best]
    if not others:
        return ", and can be told apart from all others"
    named = _several(others) if len(others) < _MOST_NAMED else f"{len(others)} others"
    return f", though {named} can’t be told apart from it"


def _is_noise(facts):
    return any(said.startswith(WITHIN_NOISE) for said in facts.findings)


def _untrained_best(facts):
    return [each.name for each in facts.scored if each.is_best and each.is_untrained]


def _is_pretraining_beaten(facts):
    """Tell whether one candidate with random weights is before all, pretrained ones among them."""
    best = [each for each in facts.scored if each.is_best]
    return (
        not _is_noise(facts)
        and len(best) == 1
        and best[0].is_untrained
        and any(each.table.get("pretrained") is True for each in facts.scored)
    )


def certainty(facts):
    """State the two promises, each by itself.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A section.
    """
    cards = (_sampling(facts), _decision(facts))
    body = "".join(
        f'<div class="card"><h3>{title}</h3>{"".join(parts)}</div>' for title, *parts in cards
    )
    return section(
        "How sure is it?",
        paragraph(
            "Two questions with two answers, which need not agree: the first is about the metric "
            "and other samples, the second about fine-tuning.",
            "quiet",
        ),
        f'<div class="cards">{body}</div>',
    )


def _names(facts, names):
    untrained = {each.name for each in facts.candidates if each.is_untrained}
    return listing(
        (
            name(each, whole=len(str(each)) < 200)
            + (' <span class="quiet">(untrained)</span>' if each in untrained else "")
            for each in names
        ),
        "names",
    )


def _sampling(facts):
    title = "Sampling: would other samples give the same best?"
    if facts.tied is None:
        if facts.metric == CONSENSUS and getattr(facts.selector, "uncertainty_", {}):
            why = (
                "Not available: the deciding score is a consensus of ranks, which are relative to "
                "the candidates compared and are not resampled. The table of metrics has the "
                "intervals of each."
            )
            return title, paragraph(why)
        why = (
            "Not computed: the selector was fitted with <code>n_resamples=0</code>, so nothing is "
            "known of how far scores and ranks depend on the sample. <code>n_resamples=200</code> "
            "(<code>--resamples 200</code>) adds it."
        )
        return title, paragraph(why)
    found = facts.uncertainty
    n = "" if facts.n_samples is None else f", {facts.n_samples:,} rows"
    n_others = len(facts.tied) - 1
    lead = (
        f"{_counted(len(facts.tied), 'candidate')} of {len(facts.candidates)} can’t be told apart "
        "from the best:"
        if n_others
        else "One candidate can be told apart from all others:"
    )
    scheme = {
        "dirichlet": f"{found.n_resamples} random weightings of the rows (Bayesian bootstrap)",
        "half": f"{found.n_resamples} random halves of the rows",
        "tenth": f"{found.n_resamples} resamples that leave out a random tenth of the rows",
    }.get(found.scheme, f"{found.n_resamples} resamples")
    is_among = "is among them" if n_others else "is this one"
    promise = (
        f"The candidate with the highest <em>expected</em> score by {metric_markup(facts.metric)}, "
        f"over fresh samples of this size{n}, {is_among} with a probability of about "
        f"{found.level:g}. Of more data another one may be the best. Found from {escaped(scheme)}, "
        "the same for all candidates. This says nothing of fine-tuning."
    )
    return title, paragraph(lead), _names(facts, facts.tied), paragraph(promise)


def _decision(facts):
    title = "Decision: which is the best after fine-tuning?"
    if facts.decision is None:
        why = (
            "No decision set: the package has no calibration for this selection. There is one for "
            "metrics with default parameters, or the consensus of LogME and PACTran, on class "
            "labels without <code>cv</code> and weights. Fine-tune several of the first."
        )
        return title, paragraph(why)
    found = facts.decision
    n = len(found.names)
    lead = (
        f"{_counted(n, 'candidate')} of {len(facts.candidates)} may be the best:"
        if n
        else "The set is empty, since no candidate has a score."
    )
    promise = sentence(found.statement, facts.names)
    return title, paragraph(lead), _names(facts, found.names) if n else "", paragraph(promise)


def _of_random_weights(facts):
    """Say first that the best candidate is untrained, in the words of the findings if they do."""
    untrained = _untrained_best(facts)
    quoted = [repr(each) for each in untrained]
    said = [
        each
        for each in facts.findings
        if ("untrained" in each or "random weights" in each)
        and "untrained twin" not in each
        and any(name in each for name in quoted)
    ]
    if said or not untrained:
        return said
    has = "has" if len(untrained) == 1 else "have"
    return [
        f"{', '.join(quoted)} {has} the highest score and random weights: by "
        f"{facts.metric!r} no pretrained candidate is better."
    ]


def findings(facts):
    """Say what should be known before acting on the ranking.

    Parameters
    ----------
    facts : Facts
        What the selection says.

    Returns
    -------
    markup : str
        A section.
    """
    unsuited = facts.selector._unsuited_warnings(facts.metric, facts.selector.metrics_)
    said = _of_random_weights(facts) + [message for message, _ in unsuited]
    said += [each for each in facts.findings if each not in said]
    said = [sentence(each, facts.names) for each in said]
    if said:
        body = listing(said)
    elif facts.baselines:
        body = paragraph(
            "Baselines and uncertainty, as far as they were computed, gave no reason for doubt that"
            " could be told from chance."
        )
    else:
        body = ""
    if not facts.baselines:
        body += paragraph(
            "No baselines were computed (<code>baselines=None</code>), so this report can’t say "
            "whether model size or an untrained network would have done as well."
        )
    return section("Before you act on it", body)
