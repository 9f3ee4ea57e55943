"""Colours and ids: who is where by MuJoCo's own rays, and what each picture has to show."""

import mujoco
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.eval.benchmarks.homes.bench_depth import pixel_rays
from rearrange.sim.robot.depth import VISIBLE_GROUPS
from rearrange.tasks.registry import make_env

SIZE = 48
TURN = np.array([0.0] * 7 + [-1.0, 0.3, 0.8, -1.0], np.float32)  # arm, grip, base, stop


def make(**options):
    return make_env("pick", "val", 0, camera_size=SIZE, observation_delay=0, **options)


def geoms_hit(sim, camera):
    """The geom that each pixel's ray meets, by MuJoCo, [SIZE, SIZE]; -1: none."""
    rays, norms = pixel_rays(sim.model, sim.data, SIZE, camera)
    geoms, distances = np.empty(SIZE * SIZE, np.int32), np.empty(SIZE * SIZE)
    groups = np.isin(np.arange(mujoco.mjNGROUP), VISIBLE_GROUPS).astype(np.uint8)
    eye = sim.data.cam(camera).xpos
    mujoco.mj_multiRay(
        sim.model, sim.data, eye, rays, groups, True, -1, geoms, distances, None, len(geoms), 100.0
    )
    return geoms.reshape(SIZE, SIZE)


def name_of(sim, geom):
    """What a geom belongs to, by the names of the bodies that it hangs on."""
    if geom < 0:
        return "nothing"
    body = sim.model.body(int(sim.model.geom_bodyid[geom]))
    chain = [body.name]
    while body.id:
        body = sim.model.body(int(body.parentid[0]))
        chain.append(body.name)
    if "base_link" in chain:
        return "robot"
    if chain == ["world"]:
        return "floor"
    if chain[0].startswith("object_"):
        slot, objects = int(chain[0].removeprefix("object_")), sim.scene.objects
        return objects[slot].kind if slot < len(objects) else "spare"
    return "wall" if chain[0].startswith("wall_") else chain[-2]


@pytest.mark.parametrize("camera", ["head", "arm"])
def test_ids_are_those_of_the_geoms_that_mujocos_rays_meet(camera):
    env = make(panoptic=True)
    env.reset(options={"index": 3})
    for _ in range(20):
        observation, *_ = env.step(TURN)
    names, ids = env.panoptic_names(), observation[f"{camera}_panoptic"][:, :, 0]
    expected = np.array(
        [[name_of(env.sim, geom) for geom in row] for row in geoms_hit(env.sim, camera)]
    )
    seen = np.array([[names[i] for i in row] for row in ids.tolist()])
    assert (seen == expected).mean() > 0.995  # pixels on an edge may go either way
    assert len(set(seen.ravel())) > 3


def test_things_of_the_same_kind_have_ids_of_their_own():
    env = make(panoptic=True)
    env.reset(options={"index": 0})
    names, objects = env.panoptic_names(), env.sim.scene.objects
    assert [names[100 + i] for i in range(len(objects))] == [one.kind for one in objects]


def test_masks_fit_the_picture_beside_them():
    """Furniture painted in another colour looks different where its mask is, and nowhere else."""
    env = make(rgb="plain", panoptic=True)
    first, _ = env.reset(options={"index": 0})
    ids = first["head_panoptic"][:, :, 0]
    piece = np.bincount(ids[(ids >= 10) & (ids < 100)]).argmax()
    mask = ids == piece
    assert mask.sum() > 50
    model, name = env.sim.model, env.panoptic_names()[piece]
    painted = [geom for geom in range(model.ngeom) if name_of(env.sim, geom) == name]
    model.geom_rgba[painted, :3] = (1.0, 0.0, 1.0)
    changed = (env.observe()["head_rgb"] != first["head_rgb"]).any(axis=2)
    assert changed[mask].mean() > 0.99
    around = mask.copy()
    for axis in (0, 1):
        around |= np.roll(mask, 1, axis) | np.roll(mask, -1, axis)
    assert not changed[~around].any()


def test_the_arms_camera_sees_what_the_nozzle_points_at():
    env = make(panoptic=True)
    observation, _ = env.reset(options={"index": 0})
    data = env.sim.data
    camera, tip = data.cam("arm"), data.site("ee").xpos
    right, up, back = camera.xmat.reshape(3, 3).T
    away = tip - camera.xpos
    column = SIZE / 2 * (1 + (away @ right) / -(away @ back))
    row = SIZE / 2 * (1 - (away @ up) / -(away @ back))
    assert observation["arm_panoptic"][int(row + 1), int(column), 0] == 1  # the robot's nozzle
    assert np.abs([row - SIZE / 2, column - SIZE / 2]).max() < SIZE / 8


def test_pictures_are_drawn_again_after_a_step_and_the_same_from_the_same_state():
    env = make(rgb=True)
    first, _ = env.reset(options={"index": 1})
    again, state = make(rgb=True), env.get_state()
    again.set_state(state)
    shown = again.observe()
    for name in ("head_rgb", "arm_rgb"):
        assert first[name].shape == (SIZE, SIZE, 3) and first[name].dtype == np.uint8
        assert np.array_equal(shown[name], first[name])
        assert not np.array_equal(env.step(TURN)[0][name], first[name])


def test_without_colours_nothing_else_changes():
    def rollout(**options):
        env, kept = make(**options), []
        kept.append(env.reset(options={"index": 2})[0])
        kept += [env.step(TURN)[0] for _ in range(5)]
        return kept

    for bare, rich in zip(rollout(), rollout(rgb="plain", panoptic=True), strict=True):
        assert {*rich} - {*bare} == {"head_rgb", "arm_rgb", "head_panoptic", "arm_panoptic"}
        assert all(np.array_equal(bare[name], rich[name]) for name in bare)


def test_render_has_the_size_and_the_camera_that_were_asked_for():
    env = make(rgb=True, render_mode="rgb_array", render_size=[SIZE, SIZE], render_camera="head")
    observation, _ = env.reset(options={"index": 0})
    assert np.array_equal(env.render(), observation["head_rgb"])
    wide = make(render_mode="rgb_array", render_size=np.array([64, 36]))
    wide.reset(options={"index": 0})
    assert wide.render().shape == (36, 64, 3)


@pytest.mark.parametrize(
    "options, line",
    [
        ({"rgb": "nice"}, "rgb must be false, true or 'plain', got 'nice'"),
        ({"panoptic": 1}, "panoptic must be true or false, got 1"),
        ({"render_size": 640}, "render_size must be two whole numbers from 16 to 4096, width and"),
        ({"render_size": (640, 5000)}, "height, got (640, 5000)"),
        ({"render_size": np.zeros((2, 2))}, "render_size must be two whole numbers from 16 to"),
        ({"render_camera": "top"}, "render_camera must be one of third_person, head, arm; got"),
    ],
)
def test_what_is_not_to_be_had_is_one_line(options, line):
    with pytest.raises(UserError) as error:
        make(**options)
    assert line in str(error.value) and "\n" not in str(error.value)
