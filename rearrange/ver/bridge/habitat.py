"""Packages that Habitat needs in its Python, and how to install them.

habitat-sim 0.3.4 with Bullet and habitat-lab 0.3.320260507 work together; the latter pins
gym<0.23.1 and numpy==1.26.4, so Habitat needs its own Python environment (hab-spec 11).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from contextlib import suppress

PREFIX = "habitat:"
"""An id of Habitat's environments begins with it."""
_NEEDED = {  # package: module, how to install it
    "habitat-sim": (
        "habitat_sim", "conda install habitat-sim withbullet headless -c conda-forge -c aihabitat"
    ),
    "habitat-lab": ("habitat", "pip install habitat-lab==0.3.320260507"),
}  # fmt: skip


def versions_here() -> dict[str, str]:
    """Habitat's packages in this Python; one built by hand, without a version, counts too."""
    found = {}
    for package, (module, _) in _NEEDED.items():
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
            continue
        with suppress(ImportError, ValueError):
            if importlib.util.find_spec(module) is not None:
                found[package] = "of unknown version"
    return found


def lacking(versions: dict[str, str]) -> str | None:
    """The missing packages for Habitat and how to install them, as part of a line; None: none.

    Args:
        versions: of its packages, by name.
    """
    missing = [package for package in _NEEDED if package not in versions]
    if not missing:
        return None
    ways = ", then ".join(_NEEDED[package][1] for package in missing)
    return f"{' and '.join(missing)} (there: {ways})"
