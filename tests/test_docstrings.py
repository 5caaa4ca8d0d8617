"""Every public object is documented, in numpydoc form, with an example, and on the API page."""

import doctest
import importlib
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
from numpydoc.validate import validate

import sktransfer

ROOT = Path(__file__).resolve().parents[1]
with open(ROOT / "pyproject.toml", "rb") as settings:
    IGNORED = set(tomllib.load(settings)["tool"]["numpydoc_validation"]["checks"]) - {"all"}


def public_packages():
    """The packages and modules whose path has no underscore and that list their public names."""
    found = [sktransfer]
    for module in pkgutil.walk_packages(sktransfer.__path__, "sktransfer."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            found.append(importlib.import_module(module.name))
    return [package for package in found if hasattr(package, "__all__")]


PACKAGES = public_packages()
# Path as a user writes it -> object; constants such as `__version__` have no docstring.
SYMBOLS = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in PACKAGES
    for name in package.__all__
    if callable(getattr(package, name))
}


def public_members(path, cls):
    """Public methods and properties that this package wrote, not those inherited from others."""
    for name, member in inspect.getmembers(cls):
        if name.startswith("_"):
            continue
        owner = next(base for base in cls.__mro__ if name in base.__dict__)
        if not owner.__module__.startswith("sktransfer"):
            continue
        raw = owner.__dict__[name]
        # scikit-learn's `available_if` wraps a method in a descriptor of its own.
        raw = getattr(raw, "fn", raw)
        if inspect.isroutine(member) or isinstance(raw, property) or inspect.isfunction(raw):
            yield f"{path}.{name}"


def documented_paths():
    for path, symbol in SYMBOLS.items():
        yield path
        if inspect.isclass(symbol) and not issubclass(symbol, Warning):
            yield from public_members(path, symbol)


PATHS = sorted(set(documented_paths()))


def test_there_is_something_to_validate():
    assert {"sktransfer.metrics", "sktransfer.model_selection"} <= {p.__name__ for p in PACKAGES}
    assert "sktransfer.metrics.LogME.fit" in PATHS
    assert len(PATHS) > 50


@pytest.mark.parametrize("path", PATHS)
def test_docstring_is_valid_numpydoc(path):
    found = validate(path)
    assert found["docstring"].strip(), f"{path} has no docstring"
    errors = [f"{code}: {text}" for code, text in found["errors"] if code not in IGNORED]
    assert errors == []


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, symbol in SYMBOLS.items()
        if not (inspect.isclass(symbol) and issubclass(symbol, Warning))
    ],
)
def test_docstring_has_an_example_that_runs(path):
    """That it gives what it says is checked by the doctests of the same run."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(SYMBOLS[path]))
    assert any(not line.options.get(doctest.SKIP) for line in examples)


def test_no_doctest_is_skipped():
    """An example that is skipped is not known to work."""
    skipping = [
        path.relative_to(ROOT).as_posix()
        for folder in ("sktransfer", "docs")
        for path in (ROOT / folder).rglob("*.[pr][ys]*")
        if "doctest: +SKIP" in path.read_text(encoding="utf-8")
    ]
    assert skipping == []


def listed_on_the_api_pages():
    """Full paths in the autosummary lists of docs/api, below the module each list stands under."""
    listed = []
    for page in sorted((ROOT / "docs" / "api").glob("*.rst")):
        module, inside = None, False
        for line in page.read_text(encoding="utf-8").splitlines():
            if found := re.match(r"\.\. (?:currentmodule|automodule):: (\S+)", line):
                module = found[1]
            elif line.startswith(".. autosummary::"):
                inside = True
            elif inside and (found := re.match(r"   (\w[\w.]*)$", line)):
                listed.append(f"{module}.{found[1]}")
            elif inside and line and not line.startswith("   "):
                inside = False
    return listed


def test_the_api_pages_list_every_public_symbol_once():
    listed = listed_on_the_api_pages()
    assert sorted(listed) == sorted(set(listed))
    assert sorted(listed) == sorted(SYMBOLS)
