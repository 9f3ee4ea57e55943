"""The driven base of habitat-lab, with a hand-made simulator of one dimension."""

import sys
from types import SimpleNamespace

import pytest

from rearrange.configs.backend import HABITAT_BASES
from rearrange.eval.habitat.lab.driven_base import SUBSTEPS, base_overrides, drive

FREQ = 120.0


class Body:
    """A base that physics carries along at its speed, as Bullet does a fixed one's."""

    def __init__(self):
        self.transformation = SimpleNamespace(translation=0.0, yaw=0.0)
        self.root_linear_velocity = self.root_angular_velocity = 0.0
        self.awake = False


class World:
    """Stands for habitat-lab's simulator."""

    ctrl_freq = FREQ

    def __init__(self, body):
        self.body, self.log = body, []

    def internal_step(self, dt):
        assert dt == -1 and self.body.awake
        at = self.body.transformation
        moved = at.translation + self.body.root_linear_velocity / FREQ
        turned = at.yaw + self.body.root_angular_velocity / FREQ
        self.body.transformation = SimpleNamespace(translation=moved, yaw=turned)
        self.log.append((moved, turned))

    def step_filter(self, start, end):
        return min(end, 0.05)  # the navmesh's edge


def test_the_base_drives_evenly_and_ends_at_its_goal_at_rest():
    body = Body()
    world = World(body)
    goal = SimpleNamespace(translation=0.024, yaw=0.08)
    drive(world, body, goal, 0.08)
    assert world.log == [pytest.approx((0.006 * k, 0.02 * k)) for k in range(1, SUBSTEPS + 1)]
    assert body.transformation is goal
    assert body.root_linear_velocity == 0.0 and body.root_angular_velocity == 0.0


@pytest.fixture
def action(monkeypatch):
    """The registered action, on a hand-made `BaseVelAction` that moves along x alone."""

    class Stock:
        def __init__(self, sim, robot):
            self._sim, self.cur_articulated_agent = sim, robot
            self.cur_grasp_mgr = SimpleNamespace(snap_idx=None)
            still = 0.0
            self.base_vel_ctrl = SimpleNamespace(linear_velocity=still, angular_velocity=still)

        def step(self, speed):
            control = self.base_vel_ctrl
            control.linear_velocity = speed
            control.integrate_transform = lambda seconds, state: SimpleNamespace(
                rotation=state.rotation,
                translation=state.translation + seconds * control.linear_velocity,
            )
            if speed != 0.0:
                self.update_base()

    found = {}
    registry = SimpleNamespace(
        register_task_action=lambda made, name: found.__setitem__(name, made)
    )
    rotation = SimpleNamespace(to_matrix=lambda: None)
    made = SimpleNamespace(
        Quaternion=SimpleNamespace(from_matrix=lambda matrix: rotation),
        Matrix4=SimpleNamespace(
            from_=lambda turn, at: SimpleNamespace(translation=at, yaw=0.0, rotation=lambda: None)
        ),
    )
    state = SimpleNamespace(
        RigidState=lambda turn, at: SimpleNamespace(rotation=turn, translation=at)
    )
    actions = SimpleNamespace(BaseVelAction=Stock)
    monkeypatch.setitem(sys.modules, "magnum", made)
    monkeypatch.setitem(sys.modules, "habitat_sim", state)
    monkeypatch.setitem(sys.modules, "habitat.core.registry", SimpleNamespace(registry=registry))
    monkeypatch.setitem(sys.modules, "habitat.tasks.rearrange.actions.actions", actions)
    words = base_overrides("driven")
    (name,) = found
    assert f"habitat.task.actions.base_velocity.type={name}" in words
    body = Body()
    body.transformation.rotation = lambda: None
    robot = SimpleNamespace(sim_obj=body, params=SimpleNamespace(base_offset=0.0))
    return found[name](World(body), robot)


def test_physics_goes_on_whether_the_base_is_asked_to_move_or_not(action):
    body, world = action.cur_articulated_agent.sim_obj, action._sim
    action.step(2.4)
    assert body.transformation.translation == pytest.approx(2.4 / FREQ)
    action.step(0.0)
    assert len(world.log) == 2 * SUBSTEPS and world.log[-1][0] == pytest.approx(2.4 / FREQ)
    for _ in range(5):
        action.step(2.4)
    assert body.transformation.translation == 0.05  # and not beyond the navmesh's edge


def test_what_is_held_comes_along(action):
    calls = []
    action.cur_grasp_mgr = SimpleNamespace(
        snap_idx=3, update_object_to_grasp=lambda: calls.append(action._sim.log[-1])
    )
    action.step(1.2)
    assert len(calls) == 1


def test_the_settings_names_are_those_that_there_are():
    assert "habitat.simulator.ac_freq_ratio=2" in base_overrides("stock")
    assert HABITAT_BASES == ("driven", "stock")
