"""The documentation site: `sphinx-build -W docs docs/_build/html`. Tutorials are executed when it is built."""

import re

from sphinx.application import Sphinx

import thermoment

project = "thermoment"
author = "The thermoment developers"
copyright = author  # noqa: A001, a name that Sphinx asks for
release = version = thermoment.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"thermoment {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
exclude_patterns = ["_build", "jupyter_execute"]
nitpicky = True
suppress_warnings = ["myst.xref_missing"]  # links to files beside docs/ are plain text here; a test follows all links

# Pages: Markdown with equations between dollar signs and links to every heading.
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

# Tutorials: executed anew where they changed, never in a browser; a cell that fails stops the build.
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

# Reference: from the docstrings, where a word between backticks is code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "exclude-members": "set_fit_request, set_score_request"}
autodoc_mock_imports = ["cupy"]

_SECTIONS = {"Args:": "param {}", "Returns:": "returns"}


def _as_fields(_app: object, _what: str, _name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Docstrings are plain text but for two sections, which become lists: Args and Returns."""
    found, field = [], ""
    for line in lines:
        indented = len(line) - len(line.lstrip())
        if line.strip() in _SECTIONS and not indented:
            field = _SECTIONS[line.strip()]
            found.append("")
        elif line and not indented:
            field = ""
            found.append(_plain(line))
        elif field and indented == 4 and field == "returns":
            found.append(_plain(f":returns: {line.strip()}" if not found[-1] else f"    {line.strip()}"))
        elif field and indented == 4:
            names, _, text = line.strip().partition(": ")
            names = names.replace(", ", ",")  # a field has one name
            found.append(f":{field.format(names)}: \\ {_plain(text)}")  # so that "N." is no list
        else:
            found.append(_plain(line))
    lines[:] = found


def _plain(line: str) -> str:
    """A line in which |h| and 2 * x are not markup; what stands between backticks is left alone."""
    parts = line.split("`")
    parts[::2] = [re.sub(r"([*|]|(?<=\w)_\b)", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def setup(app: Sphinx) -> None:
    """Called by Sphinx when it begins."""
    app.connect("autodoc-process-docstring", _as_fields)
