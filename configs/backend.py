"""Which simulator: ours, or Habitat, and where that is."""

from dataclasses import dataclass

from rearrange.configs.checks import check as _check

BACKENDS = ("mujoco", "habitat")
HABITAT_BASES = ("driven", "stock")


@dataclass(kw_only=True)
class HabitatCfg:
    python: str | None = None
    """backend=habitat: the interpreter that has habitat-sim and habitat-lab, or the folder of its
    environment."""
    data: str | None = None
    """backend=habitat: the folder that `export-homes` wrote, with the task's episodes; or one that
    has habitat-lab's own (ReplicaCAD) in data/, for agent=learned."""
    base: str = "driven"
    """backend=habitat: driven, where the robot's base drives through a control step at its speed
    and slides along the navmesh's edge, as here; or stock, habitat-lab's own, which is moved at
    once and stays where it touches the edge, as in published results."""

    def __post_init__(self) -> None:
        is_known = self.base in HABITAT_BASES
        _check(is_known, f"habitat.base must be {' or '.join(HABITAT_BASES)}, got {self.base}")


def check_backend(backend: str, habitat: HabitatCfg) -> None:
    """Raises ValueError for an unknown simulator, and for settings of one that is not used."""
    is_known = backend in BACKENDS
    _check(is_known, f"backend must be {' or '.join(BACKENDS)}, got {backend}")
    is_used = backend == "habitat" or habitat == HabitatCfg()
    _check(is_used, f"habitat.* settings are for backend=habitat, got {backend}")
