"""Where the hand holds a handle in Habitat: at its tip, tied once for each grip."""

import sys
from types import SimpleNamespace

import pytest

from rearrange.eval.habitat.lab.starts import hold_handle_at_tip


class Grasp:
    """Stands for habitat-lab's grasp manager."""

    def __init__(self):
        self.snapped_marker_id, self._snap_constraints, self.made = None, [], []

    def create_hold_constraint(self, *what):
        self.made.append(what)
        return 70 + len(self.made)


@pytest.fixture
def sim(monkeypatch):
    point_to_point = object()
    kinds = SimpleNamespace(RigidConstraintType=SimpleNamespace(PointToPoint=point_to_point))
    monkeypatch.setitem(sys.modules, "magnum", SimpleNamespace(Vector3=lambda *xyz: xyz))
    monkeypatch.setitem(sys.modules, "habitat_sim", SimpleNamespace(physics=kinds))
    marker = SimpleNamespace(
        offset_position=(0.3, 0.0, 0.1), ao_parent=SimpleNamespace(object_id=15), link_id=7
    )
    removed = []
    return SimpleNamespace(
        grasp_mgr=Grasp(), removed=removed, remove_rigid_constraint=removed.append,
        kind=point_to_point,
        get_marker={"cab_push_point_7": marker}.__getitem__,
        articulated_agent=SimpleNamespace(params=SimpleNamespace(ee_offset=[(0.08, 0.0, 0.0)])),
    )  # fmt: skip


def test_nothing_is_tied_while_no_handle_is_held(sim):
    assert hold_handle_at_tip(sim, None) is None
    assert sim.removed == [] and sim.grasp_mgr.made == []


def test_a_new_grip_is_tied_at_the_tip_and_not_again(sim):
    sim.grasp_mgr.snapped_marker_id, sim.grasp_mgr._snap_constraints = "cab_push_point_7", [4]
    held = hold_handle_at_tip(sim, None)
    assert held == "cab_push_point_7" and sim.removed == [4]
    assert sim.grasp_mgr.made == [(sim.kind, (0.08, 0.0, 0.0), (0.3, 0.0, 0.1), 15, 7)]
    assert sim.grasp_mgr._snap_constraints == [71]
    assert hold_handle_at_tip(sim, held) == held and len(sim.grasp_mgr.made) == 1
    sim.grasp_mgr.snapped_marker_id = None
    assert hold_handle_at_tip(sim, held) is None
