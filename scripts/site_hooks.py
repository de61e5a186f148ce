"""What the documentation site adds to MkDocs: equations as MathML, and the reference that is made from the code.

    python -m mkdocs build --strict          (`make docs`)

In a page, `<!-- commands -->` stands for the reference of the command line, `<!-- settings -->` for the settings of all
methods, and `<!-- include: FILE.md -->` for a file of the repository. Equations are rendered when the site is built, so
that the pages need no script for them.
"""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

from scripts.site_reference import command_reference, settings_reference

ROOT = Path(__file__).parents[1]
INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)(#[^)]*)?\)")
FIGURE = re.compile(r"(!\[[^\]]*\]\(docs/images/figures/[\w-]+)-light\.svg\)")
EQUATION = re.compile(r'<(span|div) class="arithmatex">(?:\\\((.*?)\\\)|\\\[(.*?)\\\])</\1>', re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what is generated."""
    markdown = INCLUDE.sub(lambda match: included(ROOT / match.group(1)), markdown)
    for marker, made in (("<!-- commands -->", command_reference), ("<!-- settings -->", settings_reference)):
        if marker in markdown:
            markdown = markdown.replace(marker, made())
    return markdown


def on_page_content(page_html: str, **_: Any) -> str:
    """Render the equations of a page."""
    return EQUATION.sub(rendered, page_html)


def included(file: Path) -> str:
    """Return a file of the repository, its links into docs/ as links of the site and all others as plain text."""
    text = FIGURE.sub(r"\1-light.svg#only-light)\1-dark.svg#only-dark)", file.read_text(encoding="utf-8"))
    return LINK.sub(_site_link, text)


def rendered(match: re.Match[str]) -> str:
    """Return an equation as MathML."""
    inline, display = match.group(2), match.group(3)
    latex = re.sub(r"\\tag\{(\d)\}", r"\\qquad (\1)", html.unescape(inline if display is None else display).strip())
    return convert(latex, display="inline" if display is None else "block")


def _site_link(match: re.Match[str]) -> str:
    text, target, anchor = match.groups()
    return f"[{text}]({target[5:]}{anchor or ''})" if target.startswith("docs/") else text
