"""A report as one HTML file that needs nothing else: no script, no font, no image from elsewhere."""

from html import escape

from tpn.paper.report.document import Command, Document, Entry, Grid, Heading, Image, Paragraph, Part

STYLE = """
:root { --ink: #22262b; --faint: #6b747d; --line: #dde2e6; --best: #e8f1ff; --accent: #2f6fde; --warn: #fff4de; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 76rem; margin: 2rem auto;
  padding: 0 1.25rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin-bottom: .5rem; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; padding-bottom: .2rem; border-bottom: 2px solid var(--accent); }
p { max-width: 60rem; }
p.warning { background: var(--warn); border-left: 4px solid #e07b00; padding: .6rem .9rem; }
pre { background: #f5f7f9; padding: .6rem .9rem; overflow-x: auto; border-radius: 4px; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .75rem 0; }
th, td { text-align: left; padding: .35rem .8rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; border-bottom-color: var(--ink); vertical-align: bottom; }
th.number, td.number { text-align: right; }
td small { display: block; color: var(--faint); font-size: .8em; line-height: 1.35; }
td.best { background: var(--best); font-weight: 600; }
td.best small { font-weight: 400; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: var(--faint); font-size: .9em; }
summary { cursor: pointer; color: var(--accent); }
details table { font-size: .85em; }
"""


def to_html(document: Document) -> str:
    """The whole page."""
    body = "\n".join(map(written, document.parts))
    title = escape(document.title)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def written(part: Part) -> str:
    """One part."""
    match part:
        case Heading():
            return f"<h2>{escape(part.text)}</h2>"
        case Paragraph():
            return f"<p{' class=warning' if part.warning else ''}>{escape(part.text)}</p>"
        case Command():
            return f"<pre>{escape(part.text)}</pre>"
        case Image():
            return f"<figure>{part.svg}<figcaption>{escape(part.title)}</figcaption></figure>"
        case Grid():
            numeric = [any(isinstance(row[place], Entry) for row in part.rows) for place in range(len(part.header))]
            head = "".join(
                f"<th{' class=number' if number else ''}>{escape(text)}</th>"
                for text, number in zip(part.header, numeric, strict=True)
            )
            rows = "\n".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in part.rows)
            table = f"<div class=wide><table>\n<tr>{head}</tr>\n{rows}\n</table></div>"
            more = f"<details><summary>{len(part.rows)} lines</summary>{table}</details>"
            return more if part.folded else table


def cell(entry: str | Entry) -> str:
    """What stands in a table."""
    if isinstance(entry, str):
        return f"<td>{escape(entry)}</td>"
    below = "".join(f"<small>{escape(text)}</small>" for text in entry.below)
    return f'<td class="number{" best" if entry.best else ""}">{escape(entry.text)}{below}</td>'
