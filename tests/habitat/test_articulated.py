"""The URDFs, read by their text alone, beside MuJoCo's model and the numbers of the spec."""

import json

import mujoco
import numpy as np
import pytest

from rearrange.sim.robot import fetch
from tests.habitat.conftest import HOME, Chain, geom_corners, pose_of, read_json, z_up

REPLICA = "data/replica_cad"


@pytest.fixture(scope="module")
def robot(exported):
    return Chain(exported / "data/robots/hab_fetch/robots/hab_suction.urdf")


@pytest.fixture(scope="module")
def counter(exported):
    return Chain(exported / REPLICA / "urdf/kitchen_counter/kitchen_counter.urdf")


@pytest.fixture(scope="module")
def fridge(exported):
    return Chain(exported / REPLICA / "urdf/fridge/fridge.urdf")


def test_robot_links_have_the_numbers_that_habitat_lab_uses(robot):
    """hab-spec 11."""
    assert robot.ids["base_link"] == 0
    assert (robot.ids["l_wheel_link"], robot.ids["r_wheel_link"]) == (2, 4)
    assert robot.ids["torso_lift_link"] == 6
    assert (robot.ids["head_pan_link"], robot.ids["head_tilt_link"]) == (8, 9)
    arm = ["shoulder_pan", "shoulder_lift", "upperarm_roll", "elbow_flex", "forearm_roll",
           "wrist_flex", "wrist_roll"]  # fmt: skip
    assert [robot.ids[f"{name}_link"] for name in arm] == list(range(15, 22))
    assert robot.ids["gripper_link"] == 22 and robot.ids["suction_link"] == 23
    assert robot.joints["suction_joint"].get("type") == "prismatic"
    assert robot.limits("suction_joint") == (0.0, 1e-4)
    assert len(robot.ids) == 25


def test_arm_joints_have_the_limits_of_the_model(robot, home):
    _, model, _ = home
    for joint in fetch.ARM_JOINTS:
        found = robot.limits(f"{joint.name}_joint")
        np.testing.assert_allclose(found, model.joint(joint.name).range, atol=1e-7)
        effort = float(robot.joints[f"{joint.name}_joint"].find("limit").get("effort"))
        motor = model.actuator(joint.name).forcerange[1]
        assert effort == pytest.approx(motor)


def test_what_the_robot_holds_meets_counter_fridge_drawers_and_doors(counter, fridge):
    """Groups of habitat-sim: 2 is static, 4 all but static; links without are a robot's, which what
    a robot holds passes through. All collisions of a link must say the same."""
    for chain, body in ((counter, counter.base), (fridge, "body")):
        for name, link in chain.links.items():
            groups = {part.get("group") for part in link.findall("collision")}
            assert groups <= {"2" if name == body else "4"}, name
        assert chain.links[body].findall("collision")


def test_the_robots_own_links_are_a_robots(robot):
    for link in robot.links.values():
        assert all(part.get("group") is None for part in link.findall("collision"))


def test_the_arm_is_drawn_from_within_where_its_capsules_are(robot, exported):
    trimesh = pytest.importorskip("trimesh", reason="trimesh, of the extra dev, is not installed")
    folder = exported / "data/robots/hab_fetch/robots"
    for joint, (_, start, end, radius) in zip(fetch.ARM_JOINTS, fetch.ARM_CAPSULES, strict=True):
        (inner,) = [
            visual
            for visual in robot.links[f"{joint.name}_link"].findall("visual")
            if visual.find("geometry/mesh") is not None
        ]
        path = folder / inner.find("geometry/mesh").get("filename")
        (mesh,) = trimesh.load(path, file_type="glb").geometry.values()
        corners = mesh.vertices @ pose_of(inner.find("origin"))[:3, :3].T
        low, high = np.minimum(start, end) - radius, np.maximum(start, end) + radius
        np.testing.assert_allclose(corners.min(axis=0), low, atol=1e-3)
        np.testing.assert_allclose(corners.max(axis=0), high, atol=1e-3)


FETCH = {  # fetch_ros at 9c38de6 (melodic-devel), fetch_description/robots/fetch.urdf: xyz and rpy
    "l_wheel_joint": ((0.0012914, 0.18738, 0.055325), (0.0, 0.0, 0.0)),
    "r_wheel_joint": ((0.0012914, -0.18738, 0.055325), (0.0, 0.0, 0.0)),
    "torso_lift_joint": ((-0.086875, 0.0, 0.37743), (0.0, 0.0, 0.0)),
    "torso_fixed_joint": ((-0.086875, 0.0, 0.377425), (0.0, 0.0, 0.0)),
    "head_pan_joint": ((0.053125, 0.0, 0.603001417713939), (0.0, 0.0, 0.0)),
    "head_tilt_joint": ((0.14253, 0.0, 0.057999), (0.0, 0.0, 0.0)),
    "head_camera_joint": ((0.055, 0.0, 0.0225), (0.0, 0.0, 0.0)),
    "head_camera_rgb_joint": ((0.0, 0.02, 0.0), (0.0, 0.0, 0.0)),
    "head_camera_depth_joint": ((0.0, 0.045, 0.0), (0.0, 0.0, 0.0)),
    "head_camera_depth_optical_joint": ((0.0, 0.0, 0.0), (-1.57079633, 0.0, -1.57079633)),
    "estop_joint": ((-0.12465, 0.23892, 0.31127), (1.5708, 0.0, 0.0)),
    "laser_joint": ((0.235, 0.0, 0.2878), (3.14159265, 0.0, 0.0)),
    "shoulder_pan_joint": ((0.119525, 0.0, 0.34858), (0.0, 0.0, 0.0)),
    "gripper_axis": ((0.16645, 0.0, 0.0), (0.0, 0.0, 0.0)),
}


def test_links_hang_where_the_public_urdf_of_fetch_has_them(robot):
    """The shoulder, which ours gives from the base at a lift of 0.15 m, within 0.1 mm."""
    for name, (xyz, rpy) in FETCH.items():
        origin = robot.joints[name].find("origin")
        np.testing.assert_allclose(Chain.numbers(origin, "xyz"), xyz, atol=1e-4, err_msg=name)
        np.testing.assert_allclose(Chain.numbers(origin, "rpy"), rpy, atol=1e-5, err_msg=name)
    efforts = {"torso_lift": 450.0, "head_pan": 0.32, "head_tilt": 0.68, "l_wheel": 8.85}
    for name, effort in efforts.items():
        assert float(robot.joints[f"{name}_joint"].find("limit").get("effort")) == effort


def test_hand_is_where_mujoco_has_it(robot, home):
    """The torso at the 0.15 m where habitat-lab holds it, the base at the origin, 20 arm poses."""
    _, model, _ = home
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    for _ in range(20):
        arm = rng.uniform(fetch.ARM_LOWER, fetch.ARM_UPPER)
        for joint, angle in zip(fetch.ARM_JOINTS, arm, strict=True):
            data.joint(joint.name).qpos[0] = angle
        mujoco.mj_kinematics(model, data)
        positions = {f"{j.name}_joint": a for j, a in zip(fetch.ARM_JOINTS, arm, strict=True)}
        frame = robot.frames(positions | {"torso_lift_joint": 0.15})["suction_link"]
        hand = z_up((frame @ [0.08, 0.0, 0.0, 1.0])[:3])
        np.testing.assert_allclose(hand, data.site("ee").xpos, atol=1e-6)
        forward = z_up(frame[:3, 0])
        own = data.site("ee").xmat.reshape(3, 3)[:, 0]
        np.testing.assert_allclose(forward, own, atol=1e-6)


def test_robot_collides_with_the_shapes_of_the_model(robot, home):
    """Bodies' masses and the sum of the volumes of boxes, cylinders and capsules."""
    _, model, _ = home
    volume = 0.0
    for link in robot.links.values():
        for part in link.findall("collision"):
            (shape,) = part.find("geometry")
            if shape.tag == "box":
                volume += np.prod(Chain.numbers(shape, "size"))
                continue
            r, length = float(shape.get("radius")), float(shape.get("length"))
            caps = 4 / 3 * np.pi * r**3 if shape.tag == "capsule" else 0.0
            volume += np.pi * r * r * length + caps
    theirs = 0.0
    for name in ("base", "torso", "head", "palm", "nozzle", *(f"{j.name}_capsule" for j in
                 fetch.ARM_JOINTS)):  # fmt: skip
        geom = model.geom(name)
        r, h, _ = size = geom.size
        theirs += {
            mujoco.mjtGeom.mjGEOM_BOX: 8 * np.prod(size),
            mujoco.mjtGeom.mjGEOM_CYLINDER: 2 * np.pi * r * r * h,
            mujoco.mjtGeom.mjGEOM_CAPSULE: 2 * np.pi * r * r * h + 4 / 3 * np.pi * r**3,
        }[mujoco.mjtGeom(int(geom.type[0]))]
    assert volume == pytest.approx(theirs, rel=1e-6)


def test_counter_has_eight_joint_positions_each_with_its_links_number(counter):
    """hab-spec 11; drawers as in 2.3."""
    movable = [n for n in counter.order[1:] if counter.ids[n] >= 0]
    kinds = {Chain.end(j, "child"): j.get("type") for j in counter.joints.values()}
    assert [kinds[name] for name in movable] == ["prismatic"] * 8
    assert movable[1:] == ["drawer1_bottom", "drawer1_top", "drawer2_bottom", "drawer2_middle",
                           "drawer2_top", "drawer4", "drawer3"]  # fmt: skip
    assert [counter.ids[name] for name in movable] == list(range(8))


def test_fridge_has_two_joint_positions_the_top_door_second(fridge):
    kinds = {Chain.end(j, "child"): j.get("type") for j in fridge.joints.values()}
    assert [n for n in fridge.order[1:] if kinds[n] != "fixed"] == ["bottom_door", "top_door"]
    assert fridge.ids["top_door"] == 2


OURS = {"drawer1_bottom": "drawer_left_bottom", "drawer1_top": "drawer_left_top",
        "drawer2_bottom": "drawer_middle_bottom", "drawer2_middle": "drawer_middle_middle",
        "drawer2_top": "drawer_middle_top", "drawer3": "drawer_right_top",
        "drawer4": "drawer_right_bottom", "top_door": "fridge_top_door",
        "bottom_door": "fridge_bottom_door"}  # fmt: skip


@pytest.mark.parametrize("opening", [0.0, 0.4])
def test_drawers_and_doors_are_where_mujoco_has_them(exported, counter, fridge, home, opening):
    _, model, data = home
    moved = mujoco.MjData(model)
    for joint in OURS.values():
        moved.joint(joint).qpos[0] = opening
    mujoco.mj_kinematics(model, moved)
    scene = read_json(exported / REPLICA / f"configs/scenes/{HOME}.scene_instance.json")
    places = {a["template_name"]: a for a in scene["articulated_object_instances"]}
    parts = 0
    for name, chain in (("kitchen_counter", counter), ("fridge", fridge)):
        root, turn = np.eye(4), np.empty(9)
        mujoco.mju_quat2Mat(turn, np.array(places[name]["rotation"]))
        root[:3, :3], root[:3, 3] = turn.reshape(3, 3), places[name]["translation"]
        names = {j: Chain.end(e, "child") for j, e in chain.joints.items()}
        values = {joint: opening for joint, link in names.items() if link in OURS}
        for link, frame in chain.frames(values).items():
            if link not in OURS:
                continue
            np.testing.assert_allclose(
                chain.limits(next(j for j, child in names.items() if child == link)),
                model.joint(OURS[link]).range, atol=1e-6,
            )  # fmt: skip
            body = model.body(OURS[link])
            geoms = range(body.geomadr[0], body.geomadr[0] + body.geomnum[0])
            corners = [geom_corners(model, moved, model.geom(g).name) for g in geoms]
            for (pose, size), theirs in zip(chain.boxes(link), corners, strict=True):
                signs = np.array(np.meshgrid(*[[-0.5, 0.5]] * 3)).reshape(3, -1).T * size
                own = (root @ frame @ pose @ np.c_[signs, np.ones(8)].T).T[:, :3]
                np.testing.assert_allclose(z_up(own).min(axis=0), theirs.min(axis=0), atol=1e-4)
                np.testing.assert_allclose(z_up(own).max(axis=0), theirs.max(axis=0), atol=1e-4)
                parts += 1
    assert parts == 7 * 6 + 3


def test_bodies_cover_what_the_pieces_do(exported, counter, fridge, home):
    _, model, data = home
    scene = read_json(exported / REPLICA / f"configs/scenes/{HOME}.scene_instance.json")
    places = {a["template_name"]: a for a in scene["articulated_object_instances"]}
    for chain, link, piece, name in ((counter, "kitchen_counter", "counter", "kitchen_counter"),
                                     (fridge, "body", "fridge", "fridge")):  # fmt: skip
        root, turn = np.eye(4), np.empty(9)
        mujoco.mju_quat2Mat(turn, np.array(places[name]["rotation"]))
        root[:3, :3], root[:3, 3] = turn.reshape(3, 3), places[name]["translation"]
        frame = chain.frames({})[link]
        for i, (pose, size) in enumerate(chain.boxes(link, "visual")):
            centre = z_up((root @ frame @ pose @ [0, 0, 0, 1])[:3])
            np.testing.assert_allclose(centre, data.geom(f"{piece}_{i:02d}").xpos, atol=1e-5)
            assert np.prod(size) == pytest.approx(8 * np.prod(model.geom(f"{piece}_{i:02d}").size))


def test_links_frames_are_their_inertial_frames(robot, counter, fridge):
    """Habitat takes the latter for the former."""
    for chain in (robot, counter, fridge):
        for name, link in chain.links.items():
            origin = link.find("inertial/origin")
            assert origin.get("xyz") == origin.get("rpy") == "0 0 0", name
            x, y, z = (float(link.find("inertial/inertia").get(k)) for k in ("ixx", "iyy", "izz"))
            assert 0 < x <= y + z and 0 < y <= x + z and 0 < z <= x + y, name  # else it takes none


def test_door_turns_as_heavily_as_in_mujoco(fridge, home):
    _, model, _ = home
    link = fridge.links["top_door"]
    mass = float(link.find("inertial/mass").get("value"))
    about = float(link.find("inertial/inertia").get("izz"))
    body = model.body("fridge_top_door")
    assert mass == pytest.approx(body.mass[0])
    dof = model.jnt_dofadr[model.joint("fridge_top_door").id]
    assert about == pytest.approx(model.dof_M0[dof], rel=1e-4)


def test_receptacles_lie_where_ours_do(exported, counter, fridge, home):
    layout, _, _ = home
    scene = read_json(exported / REPLICA / f"configs/scenes/{HOME}.scene_instance.json")
    found = {}
    for instance in scene["object_instances"] + scene["articulated_object_instances"]:
        name = instance["template_name"]
        place, turn = np.eye(4), np.empty(9)
        mujoco.mju_quat2Mat(turn, np.array(instance["rotation"]))
        place[:3, :3], place[:3, 3] = turn.reshape(3, 3), instance["translation"]
        chain = {"kitchen_counter": counter, "fridge": fridge}.get(name)
        if chain is None:
            config = read_json(exported / REPLICA / f"configs/objects/{name}.object_config.json")
        else:
            config = read_json(exported / REPLICA / f"urdf/{name}/{name}.ao_config.json")
        for receptacle, box in config.get("user_defined", {}).items():
            assert receptacle.startswith("receptacle_aabb_")
            assert ("parent_link" in box) == (chain is not None)
            frame = place if chain is None else place @ chain.frames({})[box["parent_link"]]
            up, scale = np.array(box["up"]), np.array(box["scale"])
            assert sorted(up) == [0, 0, 1] and (scale > 0).all()
            bottom = frame @ np.append(np.array(box["position"]) - up * scale, 1.0)
            assert z_up(frame[:3, :3] @ up)[2] == pytest.approx(1.0)
            found[f"{name}_:0000|{receptacle}"] = z_up(bottom[:3]), sorted(scale * (1 - up))
    assert set(found) == {f"{r.parent}|{r.name}" for r in layout.receptacles}
    for r in layout.receptacles:
        pos, half = found[f"{r.parent}|{r.name}"]
        np.testing.assert_allclose(pos, r.pos, atol=1e-5)
        np.testing.assert_allclose(half, sorted([0.0, *r.half]), atol=1e-7)


def test_configs_are_plain_json(exported):
    """No NaN, which habitat-sim's reader refuses."""
    paths = list(exported.rglob("*.json"))
    assert len(paths) > 60
    for path in paths:
        json.loads(path.read_text(), parse_constant=pytest.fail)
