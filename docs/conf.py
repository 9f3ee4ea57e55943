"""Sphinx: `./run docs` builds the pages into outputs/docs, without a network."""

project = "rearrange"
author = "the authors of rearrange"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["results/tidy_house*"]
html_theme = "furo"
html_title = "rearrange"
default_role = "code"  # `name` in a docstring
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"
# Results name the files of their day; tables of facts jump a heading now and then.
suppress_warnings = ["myst.header", "myst.xref_missing"]


def keep_drawings(app, what, name, obj, options, lines):
    """What a module's docstring draws or tabulates, indented by four, stays as it is typed."""
    if what != "module":
        return
    drawn, is_drawing = [], False
    for line in lines:
        is_indented = line.startswith("    ")
        if is_indented and not is_drawing:
            drawn += ["", ".. code-block:: text", ""]
        elif line and not is_indented and is_drawing:
            drawn.append("")
        is_drawing = is_indented or (is_drawing and not line)
        drawn.append(line)
    lines[:] = drawn


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", keep_drawings)
