"""Writing a report: the HTML page, the Markdown with its images, and the CSV."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from tpn.files import make_folder, replacing, write_text
from tpn.paper.report.content import compose
from tpn.paper.report.document import Document, Image
from tpn.paper.report.report import Report
from tpn.paper.report.spreadsheet import to_csv


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write a report into a folder. Returns the paths: HTML, Markdown, CSV, and the images of the Markdown."""
    make_folder(folder)
    document = compose(report)
    texts = {".html": to_html(document), ".md": to_markdown(document), ".csv": to_csv(report)}
    images = {folder / f"{part.name}.png": part.png for part in document.parts if isinstance(part, Image)}
    for path, png in images.items():
        with replacing(path) as stream:
            stream.write(png)
    for ending, text in texts.items():
        write_text(folder / f"{report.name}{ending}", text)
    return [*(folder / f"{report.name}{ending}" for ending in texts), *images]


def to_html(document: Document) -> str:
    """Return the report as one HTML file that needs nothing else: no script, font or image from elsewhere."""
    return _templates(escape=True).get_template("report.html").render(document=document)


def to_markdown(document: Document) -> str:
    """Return the report as Markdown; its images are files beside it."""
    return _templates(escape=False).get_template("report.md").render(document=document)


@cache
def _templates(escape: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("tpn.paper.report"),
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["one_line"] = _one_line
    return environment


def _one_line(text: str) -> str:
    """Return text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")
