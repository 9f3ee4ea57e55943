"""A world of plain numbers with the doors of the real one, for tests of the evaluation.

Episode `index` lasts 5 + index % 3 steps and succeeds unless index % 4 == 3.
"""

import os
import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from rearrange.errors import UserError
from rearrange.tasks.rules.episode import Target

RECEPTACLES = (
    "receptacle_aabb_Tbl1_Top1_frl_apartment_table_01",
    "receptacle_aabb_Sofa_frl_apartment_sofa",
)


class FakeEnv:
    action_space = SimpleNamespace(shape=(11,))

    def __init__(self):
        self.unwrapped = self
        self.sim = SimpleNamespace(base_pose=(0.0, 0.0, 0.0))
        self.episode = None

    def reset(self, *, options):
        self.index, self.steps = options["index"], 0
        bowl = SimpleNamespace(kind="024_bowl")
        scene = SimpleNamespace(layout_id=f"layout_{self.index % 2}", objects=(bowl,))
        target = Target(0, "any_targets|0", (0.0,) * 3, (1.0,) * 3, *RECEPTACLES)
        self.episode = SimpleNamespace(
            task="tidy_house", index=self.index, scene=scene, targets=(target,)
        )
        self.sim.base_pose = (0.0, 0.0, 0.0)
        return {"x": np.zeros(1)}, self._info()

    def step(self, action):
        self.steps += 1
        self.sim.base_pose = (0.1 * self.steps, 0.0, 0.0)
        is_over = self.steps == 5 + self.index % 3
        return {"x": np.zeros(1)}, 0.0, is_over, False, self._info()

    def close(self):
        pass

    def _info(self):
        placed = self.index % 4 != 3
        picked = self.steps >= 3
        return {
            "success": placed and self.steps >= 5,
            "stages": {"stage_0_5": picked, "stage_1": placed and self.steps >= 5},
            "force_accum": 2.5 * self.steps,
            "failure": None,
        }


class FakeAgent:
    status = "place(any_targets|0, TARGET_any_targets|0): lowering"
    plan_lines = ["+ pick(any_targets|0)", "> place(any_targets|0, TARGET_any_targets|0)"]

    def __init__(self):
        self.attempts, self.failure = [], None

    def reset(self, observation, info):
        self.attempts, self.failure = [("navigate", True)], "place(any_targets|0): object lost"

    def act(self, observation, info):
        if len(self.attempts) < 2:
            self.attempts.append(("pick", True))
        return np.zeros(11, dtype=np.float32)


def make_env_and_agent(cfg):
    if cfg.split == "nowhere":
        raise UserError("unknown split 'nowhere'")
    return FakeEnv(), FakeAgent()


class RemovingAgent(FakeAgent):
    """Removes the output folder at its first episode but one."""

    def reset(self, observation, info):
        super().reset(observation, info)
        if self.env.index == 1:
            shutil.rmtree(self.folder)


def make_removing_world(cfg):
    env, agent = FakeEnv(), RemovingAgent()
    agent.env, agent.folder = env, Path(cfg.video_dir).parent
    return env, agent


class DyingAgent(FakeAgent):
    """Kills its process in episode 2 unless a file says that this has happened."""

    def __init__(self, mark):
        super().__init__()
        self.mark = Path(mark)

    def act(self, observation, info):
        if self.env.index == 2 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(observation, info)


def make_dying_world(cfg):
    env, agent = FakeEnv(), DyingAgent(cfg.renderer)
    agent.env = env
    return env, agent


class HangingAgent(DyingAgent):
    def act(self, observation, info):
        if self.env.index == 2 and not self.mark.exists():
            self.mark.touch()
            time.sleep(600)
        return FakeAgent.act(self, observation, info)


def make_hanging_world(cfg):
    env, agent = FakeEnv(), HangingAgent(cfg.renderer)
    agent.env = env
    return env, agent


class BrokenAgent(FakeAgent):
    def act(self, observation, info):
        raise ZeroDivisionError("one divided by zero")


def make_broken_world(cfg):
    return FakeEnv(), BrokenAgent()


class SlowAgent(FakeAgent):
    """Takes its time, and leaves a mark in the output folder at the start of each episode."""

    def reset(self, observation, info):
        super().reset(observation, info)
        (self.folder / f"started_{self.env.index}").touch()

    def act(self, observation, info):
        time.sleep(0.05)
        return super().act(observation, info)


def make_slow_world(cfg):
    env, agent = FakeEnv(), SlowAgent()
    agent.env, agent.folder = env, Path(cfg.video_dir).parent
    return env, agent


class ShortAgent(FakeAgent):
    """Takes a fifth of a second an episode."""

    def act(self, observation, info):
        time.sleep(0.03)
        return super().act(observation, info)


def make_short_world(cfg):
    return FakeEnv(), ShortAgent()


class Record:
    def to_json(self):
        return {}


def make_nothing(cfg):
    return None, None
