"""Pages show what they are given as text, and on a phone as a column."""

from html.parser import HTMLParser

from rearrange.system.html import page, table


class Cells(HTMLParser):
    """The cells of a page: the head that each names, its link and its text."""

    def __init__(self):
        super().__init__()
        self.cells, self.metas = [], {}

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "td":
            self.cells.append([attrs["data-head"], None, ""])
        if tag == "a":
            self.cells[-1][1] = attrs["href"]
        if tag == "meta" and "name" in attrs:
            self.metas[attrs["name"]] = attrs["content"]

    def handle_data(self, data):
        if self.cells:
            self.cells[-1][2] += data.strip()


def test_every_cell_names_its_head_for_windows_too_narrow_for_a_table():
    text = page("<b>", [table(("a 'b'", "c"), [("<i>", ("1", "x'.mp4")), (2, 3)])])
    found = Cells()
    found.feed(text)
    assert found.cells == [
        ["a 'b'", None, "<i>"], ["c", "x'.mp4", "1"], ["a 'b'", None, "2"], ["c", None, "3"],
    ]  # fmt: skip
    assert "<b>" not in text and "<i>" not in text
    assert "width=device-width" in found.metas["viewport"]
