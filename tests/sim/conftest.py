"""One simulated home for all tests (a reset forgets everything), and simple scenes for it."""

import numpy as np
import pytest

from rearrange.sim.home.house import floor_plan
from rearrange.sim.home.objects import KINDS
from rearrange.sim.homes.layout import make_layout
from rearrange.sim.robot import fetch
from rearrange.sim.scene import ObjectPlacement, Scene
from rearrange.sim.simulation import Simulation

LAYOUT = "v3_sc0_staging_00"
HOLD_STILL = np.zeros(7)


@pytest.fixture(scope="session")
def sim() -> Simulation:
    return Simulation()


@pytest.fixture(scope="session")
def open_floor():
    """The point of a layout's floor that is farthest from everything: layout id -> (x, y)."""

    def find(layout_id: str = LAYOUT) -> tuple[float, float]:
        plan = floor_plan(make_layout(layout_id), {})
        clearance = [plan.clearance_at(x, y) for x, y in plan.free_centres]
        x, y = plan.free_centres[int(np.argmax(clearance))]
        return float(x), float(y)

    return find


@pytest.fixture(scope="session")
def make_scene(open_floor):
    """A scene with the robot on the open floor, its arm at rest."""

    def make(
        *objects: tuple[str, tuple[float, float, float]],
        base: tuple[float, float, float] | None = None,
        arm=fetch.ARM_START,
        joints: dict[str, float] | None = None,
        layout_id: str = LAYOUT,
    ) -> Scene:
        placements = tuple(ObjectPlacement(kind, pos, (1, 0, 0, 0)) for kind, pos in objects)
        base = base or (*open_floor(layout_id), 0.0)
        return Scene(layout_id, placements, base, tuple(float(v) for v in arm), joints or {})

    return make


@pytest.fixture(scope="session")
def on_table():
    """Centre of an object standing on the dining table, `dx`, `dy` from its middle."""

    def place(kind: str, dx: float = 0.0, dy: float = 0.0, layout_id: str = LAYOUT):
        for receptacle in make_layout(layout_id).receptacles:
            if receptacle.piece == "table_01":
                x, y, z = receptacle.pos
                return kind, (x + dx, y + dy, z + KINDS[kind].half_height)
        raise AssertionError("no table")

    return place


@pytest.fixture(scope="session")
def run(sim):
    """Control steps with a constant command."""

    def steps(count: int, arm=HOLD_STILL, grip: float | None = None, base=(0.0, 0.0)) -> None:
        for _ in range(count):
            sim.step(arm, grip, base)

    return steps


@pytest.fixture(scope="session")
def wake(sim):
    """Wakes the scene's objects (what is parked below the floor sleeps on)."""

    def objects() -> None:
        for i in range(sim.num_objects):
            dof = sim.model.body_dofadr[sim.model.geom_bodyid[sim.object_geom(i)]]
            sim.data.qvel[dof] = 1e-6

    return objects
