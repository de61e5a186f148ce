"""A report as Markdown."""

from tpn.paper.report.document import Command, Document, Entry, Grid, Heading, Image, Paragraph, Part


def to_markdown(document: Document) -> str:
    """Images are files beside it, by their names."""
    return "\n\n".join([f"# {document.title}", *map(written, document.parts)]) + "\n"


def written(part: Part) -> str:
    """One part."""
    match part:
        case Heading():
            return f"## {part.text}"
        case Paragraph():
            return f"> **{part.text}**" if part.warning else part.text
        case Command():
            return f"    {part.text}"
        case Image():
            return f"![{part.title}]({part.name}.png)"
        case Grid():
            lines = [part.header, ("---",) * len(part.header)]
            return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in (*lines, *part.rows))


def cell(entry: str | Entry) -> str:
    """What stands in a table."""
    if isinstance(entry, str):
        return " ".join(entry.split()).replace("|", "\\|")
    return "<br>".join((f"**{entry.text}**" if entry.best else entry.text, *entry.below))
