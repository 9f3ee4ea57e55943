"""Settings as YAML: what is read, and what is refused in one line."""

import pytest

from rearrange.system.plain_yaml import plain_yaml


def test_texts_lists_and_maps_are_read():
    assert plain_yaml("env: A-v0\nsizes: [64, 64]\npolicy:\n  name: mlp\n") == {
        "env": "A-v0", "sizes": ["64", "64"], "policy": {"name": "mlp"}
    }  # fmt: skip
    assert plain_yaml("") is None


@pytest.mark.parametrize(
    "text",
    [
        "[" * 4000,
        "a: " + "[" * 30 + "]" * 30,
        "a: &a [1]\nb: *a",
        "{",
        "a: b: c",
        "\x00",
        "- - " * 99,
    ],
)
def test_depth_aliases_and_nonsense_are_refused(text):
    with pytest.raises(ValueError):
        plain_yaml(text)
