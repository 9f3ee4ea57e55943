"""A trained skill inside a chain: when it ends, and which of its outputs are suppressed.

    skill          ends                                          its grip output
    navigate       its own stop, masked while its compass        none: the hold stays as it is
                   shows the target more than 2 m away
    pick           something held, hand at rest                  release ignored while holding
    place          nothing held, hand at rest                    grasp ignored once released
    open_*         its own stop                                  as it is
    close_*        its own stop                                  none: the hold stays as it is

Navigate, Pick and Place fail when their observations show no progress (`Progress`), except by
Habitat's rule (`looks=none`), which has only time limits.

The mask is that of the VER paper (appendix B), the rest Habitat-lab's (hab-spec 5.1); open and
close end by the stop that their training asks for, not by Habitat's way out of a start zone. No
stop output reaches the environment: only the chain calls stop.

Everything here reads the robot's own sensors: joints, suction, hand, compass. None is privileged.
So `pick` also ends with the wrong object, and `place` when the object was lost on the way. Policies
get the observations of their training, one step late if those were; guards and ends, which belong
to the task in training, read the current sensors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.skills.definition import SKILLS, DeploymentRules
from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import GRIP, STOP, Program
from rearrange.system.registry import resolved
from rearrange.tasks.rules.task import EE_AT_REST

MAX_STOP_DISTANCE = 2.0  # m, navigate may not stop further away (VER paper, appendix B)
ARM_RESET_LIMIT = 50  # control steps, hab-spec 5.1
ARM_RESET_DONE = 0.05  # rad, the largest difference of a joint, hab-spec 5.1
COMPASS = "goal_to_agent_gps_compass"
# A skill stands still if it moves by less than this within STILL_STEPS.
STILL_STEPS, STILL_HAND = 60, 0.05  # control steps; m of each coordinate
STILL_BASE = (0.08, 0.15)  # m and rad, of the compass
# Control steps without getting nearer by so many m, after which Navigate has stalled. A detour
# around furniture leads away from the goal, at 1 m/s, for no longer than this. The hand's detour
# around an open door takes most of an episode: Pick and Place have time limits instead.
PATIENCE, NEARER = 180, 0.1
STUCK = "stuck"

Observation = Mapping[str, np.ndarray]


class Policy(Protocol):
    """The interface of `LearnedPolicy`."""

    def reset(self, seed: int = 0, explore: bool = False) -> None: ...
    def act(self, observation: Observation) -> np.ndarray: ...


class Frames(NamedTuple):
    """Frames of the sensors' vectors, from the robot's joints and compass."""

    ee: np.ndarray  # [3, 3] columns: the end effector's axes, world
    yaw: float  # rad, of the base


class Senses:
    """The robot's observations at this step.

    `seen` is for the policies, delayed if they were trained so; `now` is not delayed.
    """

    def __init__(self) -> None:
        self.seen: Observation = {}
        self.now: Observation = {}
        self.seen_frames: Frames | None = None
        self._frames: Frames | None = None

    def update(self, seen: Observation, now: Observation, frames: Frames, delay: int) -> None:
        """Starts a new control step. `frames` are the current ones."""
        last, self._frames = self._frames, frames
        self.seen, self.now = seen, now
        self.seen_frames = last if delay and last is not None else frames

    @property
    def is_holding(self) -> bool:
        """Whether the suction holds something."""
        return bool(self.now["is_holding"][0] > 0.5)

    @property
    def is_at_rest(self) -> bool:
        """Whether the end effector is within 0.15 m of its resting point."""
        return bool(np.linalg.norm(self.now["relative_resting_position"]) < EE_AT_REST)


def _hold_stays(grip: float, is_holding: bool, is_released: bool) -> float:
    return 1.0 if is_holding else -1.0


OPEN = DeploymentRules()
CLOSE = DeploymentRules(grip=_hold_stays)
NAVIGATE = DeploymentRules(
    may_stop=lambda seen: bool(seen[COMPASS][0] <= MAX_STOP_DISTANCE),
    grip=_hold_stays,
    watched=(COMPASS,),
    is_driving=True,
)
PICK = DeploymentRules(
    has_ended=lambda senses: senses.is_holding and senses.is_at_rest,
    may_stop=lambda seen: False,
    grip=lambda grip, is_holding, is_released: 1.0 if is_holding else grip,
    watched=("obj_start_sensor", "relative_resting_position"),
)
PLACE = DeploymentRules(
    has_ended=lambda senses: not senses.is_holding and senses.is_at_rest,
    may_stop=lambda seen: False,
    grip=lambda grip, is_holding, is_released: -1.0 if is_released else grip,
    watched=("obj_goal_sensor", "relative_resting_position"),
)


def rules_of(skill: str) -> DeploymentRules:
    """The rules of a skill. Raises UserError for an unknown one."""
    return resolved(SKILLS[skill].deployment)


def run_policy(
    skill: str,
    policy: Policy,
    senses: Senses,
    view: Callable[[Observation], Observation],
    seed: int = 0,
    explore: bool = False,
    gives_up: bool = True,
) -> Program:
    """A trained skill as a program, from a fresh memory to its end.

    Args:
        view: converts an observation into the one the skill was trained with.
        seed: of the sampled actions.
        explore: always sample actions.
        gives_up: fail without progress; otherwise it never fails by itself.
    """
    policy.reset(seed, explore)
    rules = rules_of(skill)
    is_released = False
    progress = Progress(skill)
    while not rules.has_ended(senses):
        seen = view(senses.seen)
        if gives_up and progress.has_stalled(seen):
            return STUCK
        action = policy.act(seen)
        if action[STOP] > 0.0 and rules.may_stop(seen):
            return None
        is_released = is_released or not senses.is_holding
        action[GRIP] = rules.grip(float(action[GRIP]), senses.is_holding, is_released)
        action[STOP] = 0.0
        yield action
    return None


class Progress:
    """Detects from a skill's observations whether it makes progress."""

    def __init__(self, skill: str) -> None:
        rules = rules_of(skill)
        self._watched, self._is_driving = rules.watched, rules.is_driving
        self._still = STILL_BASE if self._is_driving else STILL_HAND
        self._recent: deque[np.ndarray] = deque(maxlen=STILL_STEPS)
        self._best, self._since = np.inf, 0

    def has_stalled(self, seen: Observation) -> bool:
        """Call once per control step."""
        if not self._watched:
            return False
        return self._stands_still(seen) or (self._is_driving and self._comes_no_nearer(seen))

    def _stands_still(self, seen: Observation) -> bool:
        self._recent.append(np.concatenate([seen[name] for name in self._watched]))
        if len(self._recent) < STILL_STEPS:
            return False
        spread = np.ptp(np.stack(self._recent), axis=0)
        return bool((spread < self._still).all())

    def _comes_no_nearer(self, seen: Observation) -> bool:
        distance = float(seen[COMPASS][0])
        self._since += 1
        if distance < self._best - NEARER:
            self._best, self._since = distance, 0
        return self._since > PATIENCE


def reset_arm(robot: Robot, senses: Senses) -> Program:
    """Moves the arm to the start posture of all skills, all joints arriving together.

    That is `ARM_START` (with a noise of 0.1 rad), not the oracle's `ARM_REST`. The grip is
    unchanged. Uses only the joint sensors and motor targets; obstacles are not considered.
    """
    robot.phase = "arm to its start"
    for _ in range(ARM_RESET_LIMIT):
        if np.abs(senses.now["joint"] - fetch.ARM_START).max() < ARM_RESET_DONE:
            break
        yield robot.action(towards_start(robot))
    robot.phase = ""
    return None


def towards_start(robot: Robot) -> np.ndarray:
    """Motor targets [7], rad, a step on a straight line towards `ARM_START`."""
    way = fetch.ARM_START - robot.sim.arm_target
    steps = max(1.0, float(np.abs(way).max()) / fetch.MAX_ARM_STEP)
    return robot.sim.arm_target + way / steps
