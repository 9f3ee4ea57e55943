"""Old names of settings, which checkpoints, skill files and command lines may still use.

    policy.has_levelled  ->  policy.base_frame_vectors

Whoever reads one of these asks here first, so that the rest of the code knows new names only.
"""

from __future__ import annotations

from typing import Any, cast

RENAMED = {"policy.has_levelled": "policy.base_frame_vectors", "eyes": "camera_stage"}
"""Old name of a setting: its present name."""


def current_name(key: str) -> str:
    """The present name of a setting, written with a dot."""
    return RENAMED.get(key, key)


def with_current_names(values: Any, prefix: str = "") -> Any:
    """The same nested values, with settings renamed and their order kept."""
    # no deeper than the names go: a file may be nested as deeply as it likes
    if not isinstance(values, dict) or not any(old.startswith(prefix) for old in RENAMED):
        return cast("Any", values)
    return {
        current_name(f"{prefix}{key}")[len(prefix) :]: with_current_names(value, f"{prefix}{key}.")
        for key, value in cast("dict[str, Any]", values).items()
    }
