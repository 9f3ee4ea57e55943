"""The subset of YAML that our settings need: strings in lists and maps, a few levels deep."""

# pyright: basic
# PyYAML's stubs leave its events untyped.

from typing import Any

MOST_LEVELS = 20


def plain_yaml(text: str) -> Any:
    """The value of a YAML text, in which numbers and booleans remain strings.

    Aliases, by which a few lines become gigabytes, are refused.
    Raises ValueError for them, for too deep nesting and for anything that is not YAML.
    """
    import yaml

    class Loader(yaml.BaseLoader):
        level = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("it has an alias")
            self.level += 1
            if self.level > MOST_LEVELS:
                raise ValueError("it is nested too deeply")
            node = super().compose_node(parent, index)
            self.level -= 1
            return node

    try:
        return Loader(text).get_single_data()
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
