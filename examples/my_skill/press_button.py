"""A skill of your own: press a button with the fingertip. This file and the YAML file are all.

    PYTHONPATH=examples/my_skill rearrange evaluate task=press_button:press_button num_episodes=5
    PYTHONPATH=examples/my_skill rearrange plan task=press_button:light_and_tidy

The home has no button, so the handle of a shut drawer serves as one: pressed is what the tip of the
hand has touched, suction off. That cannot be seen afterwards: the tasks remember it.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from rearrange.registries import SKILLS, TASKS
from rearrange.sim.home.furniture import MARKERS
from rearrange.sim.simulation import Simulation
from rearrange.skills.definition import DeploymentRules, Operator, Phrases, SkillDefinition
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle.doors import outward_of
from rearrange.skills.skill import GRIP, STOP, Program
from rearrange.skills.teacher.servo import Servo
from rearrange.skills.teacher.steering import turn_for
from rearrange.tasks.episodes.generate import OPEN_DRAWER, TIDY_HOUSE_EASY
from rearrange.tasks.rules.definition import TaskDefinition
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.home import HomeTask
from rearrange.tasks.rules.predicates import ee_to_marker, ee_to_rest
from rearrange.tasks.rules.rewards import Progress
from rearrange.tasks.rules.task import EE_AT_REST, Rules, Task

BUTTON = "cab_push_point_5"  # whose place `marker_rel_pos` shows, in the long tasks too
PRESSED = 0.04  # m, tip of the hand to the button: a slanted hand touches it with its rim
PRESS_REWARD = 5.0
RULES = Rules(
    max_episode_steps=250, slack=-0.005, max_instant=10_000.0, force_end_penalty=1.0
)  # fmt: skip
SENSORS = ("joint", "ee_pos", "relative_resting_position", "marker_rel_pos")


def is_pressed(sim: Simulation, button: str) -> bool:
    """Whether the tip of the hand, with nothing in it, is at the button now."""
    return not sim.is_holding and ee_to_marker(sim, button) < PRESSED


# --- the task: what is asked, what is seen, what it is worth -------------------------------------


class PressButton(Task):
    """Success: pressed once, hand back within 0.15 m of rest, then stop."""

    def __init__(self, name: str) -> None:
        super().__init__(name, RULES, SENSORS, num_markers=1)
        self._button, self._is_pressed = "", False
        self._closer = Progress()

    def start(self, sim: Simulation, episode: EpisodeSpec) -> None:
        self._button, self._is_pressed = episode.handle, False
        self._closer.forget()
        self._closer.step(ee_to_marker(sim, self._button))

    def grip_command(self, sim: Simulation, grip: float | None) -> float:
        return -1.0  # a button is not gripped

    def progress(self, sim: Simulation) -> tuple[float, str | None]:
        if self._is_pressed:
            return self._closer.step(ee_to_rest(sim)), None
        if not is_pressed(sim, self._button):
            return self._closer.step(ee_to_marker(sim, self._button)), None
        self._is_pressed = True
        self._closer.forget()  # from now on the way to rest counts
        self._closer.step(ee_to_rest(sim))
        return PRESS_REWARD, None

    def is_goal_reached(self, sim: Simulation) -> bool:
        return self._is_pressed and ee_to_rest(sim) < EE_AT_REST


TASKS.add(
    "press_button",
    TaskDefinition(
        name="press_button", env_id="my_skill/PressButton-v0", title="Press Button",
        rules=PressButton, episodes=OPEN_DRAWER,
    ),
)  # fmt: skip


# --- the skill: who can do it, how it is learned, when it is over --------------------------------


class PressServo(Servo):
    """Rules with an answer in every state: before the button, press, back off, rest, stop."""

    AWAY = 0.8  # m from the button to where the base stands
    FAR = 1.15  # m, from farther off it drives to a place before the button

    def __init__(self, robot: Robot, button: str) -> None:
        super().__init__(robot)
        self._button, self._has_pressed = button, False

    def act(self) -> np.ndarray:
        self._has_pressed |= is_pressed(self.sim, self._button)
        action = self._act()
        action[GRIP] = -1.0
        action[STOP] = 1.0 if self._has_pressed and self.is_resting else -1.0
        return action

    def _act(self) -> np.ndarray:
        button = self.sim.marker_pos_w(self._button)
        outward = outward_of(self.sim, MARKERS[self._button])
        off = self.hand_w - button
        along = float(off @ outward)
        beside = float(np.linalg.norm(off - along * outward))
        if self._has_pressed:
            is_near = along < 0.08 and beside < 0.15
            return self.reach(self.hand_w + 0.1 * outward) if is_near else self.rest((-0.2, 0.0))
        base = self._stand(button, outward)
        if base is not None and math.hypot(along, beside) > 0.2:
            return self.rest(base)
        is_ahead = beside < 0.04 + 0.15 * max(along, 0.0)
        return self.reach(button + (-0.02 if is_ahead else 0.12) * outward)

    def _stand(self, button: np.ndarray, outward: np.ndarray) -> np.ndarray | None:
        """Base action to where the button is ahead at arm's length; None: it is there."""
        away, bearing = self.towards(button)
        if away > self.FAR:
            facing = math.atan2(-outward[1], -outward[0])
            return self.drive_to((button + self.AWAY * outward)[:2], facing)
        pace = 0.0 if abs(away - self.AWAY) < 0.12 else 2.5 * (away - self.AWAY)
        if pace == 0.0 and abs(bearing) < 0.15:
            return None
        return np.array([np.clip(pace, -0.5, 0.5), turn_for(bearing)])


def teacher(robot: Robot, episode: EpisodeSpec) -> PressServo:
    return PressServo(robot, episode.handle)


def program(robot: Robot, episode: EpisodeSpec) -> Program:
    """The oracle, here no more than the rules carried out."""
    servo = PressServo(robot, episode.handle)
    while (action := servo.act())[STOP] < 0.0:
        yield action
    return None


SKILLS.add(
    "press_button",
    SkillDefinition(
        name="press_button", task="press_button", recipe=Path(__file__).with_suffix(".yaml"),
        program=program, teacher=teacher, deployment=DeploymentRules(grip=lambda *_: -1.0),
        reach="rearrange.planner.agents.oracle_skills:reach_handle",
        operators={"press_button": Operator((0,))},
        phrases=Phrases("press the button", "pressing the button", "the button was pressed"),
        predicates="(pressed ?c - cab)",
        actions="""(:action press_button
            :parameters (?c - cab ?r - robot)
            :precondition (and (robot_at ?c ?r) (not_holding ?r) (closed_cab ?c))
            :effect (pressed ?c))""",
    ),
)  # fmt: skip


# --- its use in a plan ---------------------------------------------------------------------------


class LightAndTidy(HomeTask):
    """As Tidy House (easy), with the light on in the end, which the button is for."""

    def __init__(self, name: str) -> None:
        super().__init__(name, num_targets=2, max_steps=3000)
        self._is_light = False

    def start(self, sim: Simulation, episode: EpisodeSpec) -> None:
        super().start(sim, episode)
        self._is_light = False

    def progress(self, sim: Simulation) -> tuple[float, str | None]:
        self._is_light |= is_pressed(sim, BUTTON)
        return super().progress(sim)

    def is_goal_reached(self, sim: Simulation) -> bool:
        return self._is_light and super().is_goal_reached(sim)

    def planner_facts(self) -> list[tuple[str, ...]]:
        return [("pressed", BUTTON)] if self._is_light else []


TASKS.add(
    "light_and_tidy",
    TaskDefinition(
        name="light_and_tidy", env_id="my_skill/LightAndTidy-v0", title="Light and Tidy",
        rules=LightAndTidy, episodes=TIDY_HOUSE_EASY, domain="home",
        goals=(("pressed", BUTTON),), skills=("navigate", "pick", "place", "press_button"),
        stage_skills=2 * (("navigate", "pick"), ("navigate", "place")),
    ),
)  # fmt: skip
