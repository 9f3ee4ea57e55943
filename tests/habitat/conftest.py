"""One small export, and the same homes in MuJoCo."""

import gzip
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco
import numpy as np
import pytest

from rearrange.habitat.dataset import export
from rearrange.sim.apartment import ApartmentWriter
from rearrange.sim.homes.layout import make_layout
from rearrange.sim.model import new_model

HOME = "v3_sc3_staging_05"


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A folder with the homes of val and three episodes of one task."""
    folder = tmp_path_factory.mktemp("habitat") / "set"
    export(folder, "val", ["rearrange_easy", "set_table"], 2)
    return folder


@pytest.fixture(scope="session")
def home():
    """(layout, model, data) of one apartment in MuJoCo, all closed."""
    layout, model = make_layout(HOME), new_model()
    ApartmentWriter(model).write_layout(layout)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return layout, model, data


def read_json(path: Path):
    if path.suffix == ".gz":
        return json.loads(gzip.decompress(path.read_bytes()))
    return json.loads(path.read_text())


def z_up(points):
    """Points of Habitat's in our axes, written out once more: x, -z, y."""
    points = np.asarray(points, float)
    return np.stack([points[..., 0], -points[..., 2], points[..., 1]], axis=-1)


def geom_corners(model, data, name):
    """The eight corners of a box in the world, [8, 3] m."""
    geom, signs = data.geom(name), np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    return geom.xpos + (signs * model.geom(name).size) @ geom.xmat.reshape(3, 3).T


class Chain:
    """A URDF by its text alone: numbers of links, frames at joint positions."""

    def __init__(self, path: Path) -> None:
        self.root = ET.parse(path).getroot()
        self.joints = {j.get("name"): j for j in self.root.findall("joint")}
        self.links = {link.get("name"): link for link in self.root.findall("link")}
        children = {self.end(j, "child") for j in self.joints.values()}
        (self.base,) = set(self.links) - children
        self.order, self.frames_of = [], {}
        self._walk(self.base)
        self.ids = {name: i - 1 for i, name in enumerate(self.order)}

    @staticmethod
    def end(joint, which):
        return joint.find(which).get("link")

    @staticmethod
    def numbers(element, key):
        return np.array([float(v) for v in element.get(key).split()])

    def _walk(self, link):
        self.order.append(link)
        for name in sorted(self.joints):
            if self.end(self.joints[name], "parent") == link:
                self._walk(self.end(self.joints[name], "child"))

    def limits(self, joint):
        limit = self.joints[joint].find("limit")
        return float(limit.get("lower")), float(limit.get("upper"))

    def frames(self, positions):
        """{link: 4 x 4} in the root's frame; `positions` by joint, others 0."""
        found = {self.base: np.eye(4)}
        for link in self.order[1:]:
            (joint,) = [j for j in self.joints.values() if self.end(j, "child") == link]
            place = pose_of(joint.find("origin"))
            value, move = positions.get(joint.get("name"), 0.0), np.eye(4)
            if joint.get("type") == "prismatic":
                move[:3, 3] = value * self.numbers(joint.find("axis"), "xyz")
            elif joint.get("type") in ("revolute", "continuous"):
                quat, move3 = np.empty(4), np.empty(9)
                mujoco.mju_axisAngle2Quat(quat, self.numbers(joint.find("axis"), "xyz"), value)
                mujoco.mju_quat2Mat(move3, quat)
                move[:3, :3] = move3.reshape(3, 3)
            found[link] = found[self.end(joint, "parent")] @ place @ move
        return found

    def boxes(self, link, use="collision"):
        """(pose in the link, full sizes) of each box."""
        for part in self.links[link].findall(use):
            yield pose_of(part.find("origin")), self.numbers(part.find("geometry/box"), "size")


def pose_of(origin):
    """4 x 4 of an <origin>: turns about the fixed x, then y, then z."""
    roll, pitch, yaw = Chain.numbers(origin, "rpy")
    pose = np.eye(4)
    for axis, angle in ((0, roll), (1, pitch), (2, yaw)):
        quat, turn = np.empty(4), np.empty(9)
        mujoco.mju_axisAngle2Quat(quat, np.eye(3)[axis], angle)
        mujoco.mju_quat2Mat(turn, quat)
        pose[:3, :3] = turn.reshape(3, 3) @ pose[:3, :3]
    pose[:3, 3] = Chain.numbers(origin, "xyz")
    return pose
