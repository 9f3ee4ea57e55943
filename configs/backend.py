"""Which simulator: ours, or Habitat, and where that is."""

from dataclasses import dataclass

from rearrange.configs.checks import check as _check

BACKENDS = ("mujoco", "habitat")


@dataclass(kw_only=True)
class HabitatCfg:
    python: str | None = None
    """backend=habitat: the interpreter that has habitat-sim and habitat-lab, or the folder of its
    environment."""
    data: str | None = None
    """backend=habitat: the folder that `export-homes` wrote, with the task's episodes."""


def check_backend(backend: str, habitat: HabitatCfg) -> None:
    """Raises ValueError for an unknown simulator, and for settings of one that is not used."""
    is_known = backend in BACKENDS
    _check(is_known, f"backend must be {' or '.join(BACKENDS)}, got {backend}")
    is_used = backend == "habitat" or habitat == HabitatCfg()
    _check(is_used, f"habitat.python and habitat.data are for backend=habitat, got {backend}")
