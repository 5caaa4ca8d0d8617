"""Formulas as MathML, which every current browser shows without a script or a download.

Sphinx ships renderers that need LaTeX on the building machine or a script from the network when
a page is read. docutils can translate LaTeX itself; this registers that translation with Sphinx.
"""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError


def _translate(self, node, as_block):
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        where = f"{node.source}:{node.line}"
        raise ExtensionError(f"{where}: no MathML for {node.astext()!r}: {error}") from error


def visit_inline(self, node):
    """Write one formula inside a line of text."""
    self.body.append(self.starttag(node, "span", "", CLASS="math"))
    self.body.append(_translate(self, node, as_block=False) + "</span>")
    raise nodes.SkipNode


def visit_block(self, node):
    """Write one formula on a line of its own."""
    self.body.append(self.starttag(node, "div", "", CLASS="math"))
    self.body.append(_translate(self, node, as_block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
