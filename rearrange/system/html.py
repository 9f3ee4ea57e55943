"""HTML pages as single files: a style for wide and narrow windows, and tables.

On a phone each row of a table becomes a small table of its own, so that nothing has to be scrolled
sideways.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; overflow-wrap: anywhere }
h1 { margin-bottom: 0 } h2 { margin-top: 2.5rem } .quiet { color: #666 }
.success { font-size: 2.5rem; margin: 1rem 0 0 }
table { border-collapse: collapse; margin: 1rem 0 } img, video { max-width: 100%; height: auto }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
pre { white-space: pre-wrap; background: #f4f4f4; padding: .5rem .8rem; margin: .3rem 0 1rem }
@media (max-width: 40rem) {
  table, tbody, tr { display: block } tr { padding: .5rem 0; border-bottom: 1px solid #ddd }
  th { display: none } td { display: flex; justify-content: space-between; gap: 1rem; border: 0 }
  td, td:first-child { padding: .1rem 0; text-align: right }
  td::before { content: attr(data-head); color: #666; text-align: left }
}
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 }
  th, td, tr { border-color: #444 } .quiet, td::before { color: #999 } pre { background: #282828 }
  a { color: #8bf } img { background: #fff } }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """A whole page; the parts are HTML."""
    return (
        f"<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>{escape(title)}</title>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


Cell = str | float | None | tuple[str | float, str | None]
"""A value, or a value and the file that it links to, if any."""


def table(heads: Sequence[str], rows: Iterable[Iterable[Cell]]) -> str:
    """A cell is a value, or a value and the file it links to."""

    def cell(head: str, value: Cell) -> str:
        value, link = value if isinstance(value, tuple) else (value, None)
        begin, text = f"<td data-head='{escape(head, quote=True)}'>", escape(str(value))
        return f"{begin}<a href='{escape(link, quote=True)}'>{text}</a>" if link else begin + text

    body = "\n".join(
        "<tr>" + "".join(cell(head, value) for head, value in zip(heads, row, strict=True))
        for row in rows
    )
    return f"<table><tr>{''.join(f'<th>{escape(head)}' for head in heads)}\n{body}</table>"
