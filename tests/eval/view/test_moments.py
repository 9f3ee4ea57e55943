"""What the page shows of sensors, rewards and forces is what there is."""

import base64

import numpy as np
from player import EPISODE

from rearrange.eval.view.messages import Said
from rearrange.eval.view.moments import setup
from rearrange.eval.view.sensors import describe
from rearrange.eval.view.terms import KEPT, TERMS
from rearrange.tasks.registry import make_env


def test_depth_is_shown_as_the_policy_gets_it(session, page):
    page.held_keys = frozenset({"w"})
    session.advance(3)
    observation = session.stage.observation
    shown = session.look().state["sensors"]
    depth = shown["pictures"]["head_depth"]
    grey = np.frombuffer(base64.b64decode(depth["grey"]), np.uint8)
    wanted = np.rint(255 * observation["head_depth"].ravel())
    np.testing.assert_array_equal(grey, wanted)
    assert (depth["width"], depth["height"]) == (128, 128)
    np.testing.assert_allclose(shown["vectors"]["joint"], observation["joint"], atol=6e-4)


def test_long_vectors_become_strips_that_keep_their_range():
    strip = describe({"base_scan": np.linspace(-2.0, 6.0, 33, dtype=np.float32)})["pictures"]
    grey = np.frombuffer(base64.b64decode(strip["base_scan"]["grey"]), np.uint8)
    assert (strip["base_scan"]["width"], strip["base_scan"]["height"]) == (33, 1)
    assert (strip["base_scan"]["low"], strip["base_scan"]["high"]) == (-2.0, 6.0)
    assert grey[0] == 0 and grey[-1] == 255 and (np.diff(grey.astype(int)) > 0).all()


def test_terms_add_up_to_the_reward_and_name_what_happened(session, page):
    """Against the environment itself, which gives only the sum."""
    page.held_keys = frozenset({"w", "f"})  # down into the table
    session.advance(45)
    rows = session.look().state["history"]
    driven = session.stage.driven
    env = make_env("pick", split="val", depth=False)
    env.reset(options={"index": EPISODE})
    assert [row[0] for row in rows] == list(range(1, 46))
    for row, action, lead in zip(rows, driven.actions, driven.motor_leads, strict=True):
        env.sim.motor_lead = lead
        _, reward, *_, info = env.step(action)
        assert abs(sum(row[2:]) - reward) < 1e-4
        assert abs(row[1] - info["force_instant"]) < 0.01
        assert row[2 + TERMS.index("time")] == -0.005
        assert (row[2 + TERMS.index("contact")] < 0.0) == (env.sim.force_added > 0.0)


def test_a_moment_carries_the_last_steps_only(session, page):
    page.held_keys = frozenset({"a"})
    session.advance(KEPT + 20)
    rows = session.look().state["history"]
    assert [row[0] for row in rows] == list(range(21, KEPT + 21))
    session.hear(Said(frozenset(), ask="again"))
    assert session.look().state["history"] == []


def test_every_key_of_the_page_is_shown_once():
    shown = [row[0] for rows in setup()["keys"].values() for row in rows]
    assert len(shown) == len(set(shown))
