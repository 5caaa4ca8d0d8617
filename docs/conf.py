"""Configuration of the documentation; it builds without a network."""

import os
import re
import sys
from pathlib import Path

import sktransfer

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "sktransfer"
author = "The sktransfer developers"
project_copyright = author
release = version = sktransfer.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "_ext"]
html_math_renderer = "mathml"

# Links into other projects need their inventories from the network; they are asked for by name.
intersphinx_mapping = {}
if os.environ.get("DOCS_ONLINE"):
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
    }
else:
    suppress_warnings = ["ref.term"]

autosummary_generate = True
autodoc_default_options = {"members": True, "inherited-members": True}
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_\d+_",
    "doc_module": ("sktransfer",),
    "backreferences_dir": "generated/backreferences",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "sktransfer"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "navigation_with_keys": False,
    "show_prev_next": True,
    "back_to_top_button": False,
}
# A landing page and single pages have nothing to list at their side.
html_sidebars = {"index": [], "getting_started": [], "changelog": []}


def skip_what_others_wrote(app, what, name, obj, skip, options):
    """Leave out the members that every scikit-learn estimator or torch module has."""
    owner = getattr(obj, "__module__", None) or ""
    if name.startswith("set_") and name.endswith("_request"):
        return True
    if owner.split(".")[0] in {"sklearn", "skorch", "torch", "builtins"}:
        return True
    return skip


def quote_fitted_names_in_types(app, what, name, obj, options, lines):
    """In `x_ : ndarray of shape (n_features_in_,)` keep reST from reading a link in the type."""
    for index, line in enumerate(lines):
        if declaration := re.match(r"\s*\w+ : ", line):
            head, kind = line[: declaration.end()], line[declaration.end() :]
            lines[index] = head + re.sub(r"(?<![\w`])(\w+_)(?![\w`])", r"`\1`", kind)


def setup(app):
    # Before numpydoc, which connects with the default priority.
    app.connect("autodoc-process-docstring", quote_fitted_names_in_types, priority=100)
    app.connect("autodoc-skip-member", skip_what_others_wrote)
