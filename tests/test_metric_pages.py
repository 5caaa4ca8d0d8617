"""The user guide says the same nine things of every metric."""

import re
from pathlib import Path

import pytest

from sktransfer.metrics import metric_names

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "user_guide"
SAYS = (
    "Idea",
    "Needs",
    "Formula",
    "Range",
    "Direction",
    "Unchanged by",
    "Cost",
    "Smallest n",
    "Cannot see",
    "Reference",
)


def section(name):
    """The text between the label of a metric and that of the next one."""
    for page in GUIDE.glob("metrics*.rst"):
        parts = re.split(r"^\.\. _([\w-]+):\n", page.read_text(encoding="utf-8"), flags=re.M)
        labels = parts[1::2]
        if name in labels:
            start = stop = labels.index(name)
            while stop + 1 < len(labels) and labels[stop + 1] not in metric_names():
                stop += 1
            return "".join(parts[2::2][start : stop + 1])
    raise AssertionError(f"no page describes {name}")


@pytest.mark.parametrize("name", metric_names())
def test_the_guide_says_the_same_of_every_metric(name):
    text = section(name)
    said = re.findall(r"\*\*([^*]+?)[.?]?\*\*", text)
    for what in SAYS:
        assert any(heading.startswith(what) for heading in said), what
    assert re.search(r"(19|20)\d\d", text.partition("**Reference")[2])
