"""Settings of every test and doctest, made before numpy and torch are imported."""

import os
import sys

import pytest

# scikit-learn only runs its array API checks when scipy found this at import; a run without it
# would look just as green with those checks skipped.
if os.environ.get("SCIPY_ARRAY_API") != "1":
    if "scipy" in sys.modules:
        raise pytest.UsageError(
            "scipy was imported before SCIPY_ARRAY_API=1 was set; run `make test`, or set it in "
            "the environment of pytest."
        )
    os.environ["SCIPY_ARRAY_API"] = "1"

os.environ.setdefault("MPLBACKEND", "Agg")

from hypothesis import settings

# No time limit per example: the machine may be busy. CI draws the same examples every time.
settings.register_profile("sktransfer", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("sktransfer")

collect_ignore = ["docs/conf.py"]
