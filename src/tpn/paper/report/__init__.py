"""The report of an experiment: our numbers beside the published ones, as a page, as Markdown and as CSV."""

from pathlib import Path

from tpn.files import make_folder, replacing, write_text
from tpn.paper.report.content import compose
from tpn.paper.report.document import Image
from tpn.paper.report.markdown import to_markdown
from tpn.paper.report.page import to_html
from tpn.paper.report.spreadsheet import to_csv
from tpn.paper.report.subject import Report

__all__ = ["Report", "write_report"]


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write the page, the Markdown with its images, and the CSV. Returns their paths, the page's first."""
    make_folder(folder)
    document = compose(report)
    files = {".html": to_html(document), ".md": to_markdown(document), ".csv": to_csv(report)}
    for part in document.parts:
        if isinstance(part, Image):
            with replacing(folder / f"{part.name}.png") as stream:
                stream.write(part.png)
    for ending, text in files.items():
        write_text(folder / f"{report.name}{ending}", text)
    return [folder / f"{report.name}{ending}" for ending in files]
