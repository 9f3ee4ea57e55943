"""A simulation of plain numbers, for rewards that can be worked out by hand.

The base stands at the origin and looks along x, so that base frame and world are the same.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from rearrange.sim.scene import Scene
from rearrange.tasks.rules.episode import EpisodeSpec, Target


class FakeSimulation:
    def __init__(self):
        self.base_pose = (0.0, 0.0, 0.0)
        self.ee = (0.5, 0.0, 1.0)  # at rest
        self.objects = [(2.0, 0.0, 1.0), (0.5, 3.0, 1.0)]
        self.joints = {"drawer_right_top": 0.0, "fridge_top_door": 0.0}
        self.markers = {
            "cab_push_point_5": (1.0, 0.0, 1.0),
            "fridge_push_point": (1.0, 0.0, 1.0),
        }
        self.held_object = self.held_marker = None
        self.hold_violation = False
        self.force_added = self.force_accum = self.force_instant = 0.0
        self.layout = SimpleNamespace(receptacles=())

    @property
    def ee_pos_w(self):
        return np.array(self.ee)

    ee_pos_b = ee_pos_w

    @property
    def is_holding(self):
        return self.held_object is not None or self.held_marker is not None

    def object_pos_w(self, index):
        return np.array(self.objects[index])

    def joint_position(self, name):
        return self.joints[name]

    def marker_pos_w(self, name):
        return np.array(self.markers[name])

    def drop(self):
        self.held_object = self.held_marker = None


@pytest.fixture
def sim():
    return FakeSimulation()


def make_episode(task, num_targets=1, marker=None, start_holding=False):
    """Objects 0 and 1; their goals are at (2, 1, 1) and (-1, 3, 1)."""
    starts, goals = [(2.0, 0.0, 1.0), (0.5, 3.0, 1.0)], [(2.0, 1.0, 1.0), (-1.0, 3.0, 1.0)]
    targets = tuple(
        Target(i, f"any_targets|{i}", starts[i], goals[i], "a", "b") for i in range(num_targets)
    )
    scene = Scene("nowhere", (), (0.0, 0.0, 0.0), (0.0,) * 7)
    return EpisodeSpec(
        task, "train", 0, 0, scene, targets, marker=marker, start_holding=start_holding
    )


@pytest.fixture
def episode():
    return make_episode
