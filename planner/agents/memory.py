"""The robot's memory of an episode: facts and places, from its own actions and touch alone.

    given with the task              which object is in which drawer, what is shut: HAB's initial
                                     state; the direction in which a drawer opens
    the hand closes in Pick          the target is held, and in no container
    the hand opens in Place          the target lies at the goal, if the hand was near it
    the hand opens anywhere else     the target lies below, on the floor
    what pushes to a goal has ended  the target lies there
    a skill that opens or shuts      the drawer or door is open, or shut
    ... is cut off, or another ends  it is neither, if the hand has moved with the handle; also as
                                     the robot then backs off with the handle in its hand
    the hand opens as it pulls       the drawer runs on to its stop
    Pick or Place fails again where  something has pushed it shut unnoticed, until it was opened
    a drawer or door stood open      again or that has failed too

Sensors are the suction and the hand's position, from the joints and the localisation behind HAB's
start, goal and compass sensors. An object that rolled away, was knocked over or is the wrong one is
believed to be in its planned place. No observation corrects that.
"""

from __future__ import annotations

import math
from collections import Counter
from copy import deepcopy

import numpy as np

from rearrange.planner.agents.beliefs import FLOOR, Beliefs
from rearrange.planner.home.calls import Call
from rearrange.planner.home.facts import HomeFacts, goal_name
from rearrange.sim.home import furniture as fur
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.predicates import AT_GOAL, CLOSED, OPENED

BESIDE = (
    1.0  # m from a goal within which a released object is at the goal's height, else on the floor
)
PULLED = 0.45  # m, by which the skill opens drawers (hab-spec 4.6)
RUNS_ON = 0.01  # m in a control step (0.3 m/s), faster than which a drawer that is let go runs on
MISSES = 2  # failures at an open drawer or door, after which it is opened again


class Memory(Beliefs):
    """The memory of one episode.

    Args:
        first: the initial facts; copied.
    """

    def __init__(self, sim: Simulation, episode: EpisodeSpec, first: HomeFacts) -> None:
        super().__init__(sim, episode)
        self.facts = deepcopy(first)
        self._goals = {target.name: np.array(target.goal) for target in episode.targets}
        self._homes = {target.name: target.goal_container for target in episode.targets}
        self._ways: dict[str, list[np.ndarray]] = {}  # of handles in the hand: [3] m, world
        self._shift = np.zeros(3)  # from the hand to the held handle on its way
        self._gripped: str | None = None  # the handle in the hand
        self._left: np.ndarray | None = None  # where it was as its skill ended
        self._misses: Counter[str] = Counter()  # by handle: failures since its state was doubted
        self._doubted: set[str] = set()

    def feel(self, is_holding: bool) -> None:
        """Call once per control step with whether the suction holds something."""
        was_holding = self._was_holding
        super().feel(is_holding)
        hand = np.array(self._sim.ee_pos_w)
        if was_holding and not is_holding and self.facts.held is not None:
            self._has_let_go(self.facts.held, hand)
        if not is_holding:
            if self._gripped is not None:
                self._runs_on(self._gripped, hand)
            self._gripped = None
        elif self._gripped is None and self.facts.held is None:
            self._gripped = self._handle()
        if self._gripped is not None:
            way = self._ways.setdefault(self._gripped, [hand])
            if not was_holding:  # a handle stays where it was released
                self._shift = way[-1] - hand
            way.append(hand + self._shift)
            if self._call is None:  # its skill is over
                self._left = hand if self._left is None else self._left
                if math.dist(hand[:2], self._left[:2]) > CLOSED:
                    self.facts.states[self._gripped] = "between"
            else:
                self._left = None
        elif is_holding and not was_holding and self._call and self._call.is_picking:
            self.facts.held = self._call.target
            self.facts.placed.pop(self._call.target, None)
            self.facts.containers[self._call.target] = None

    def end(self, call: Call, failure: str | None, state: str | None = None) -> None:
        """Call when a skill has ended, by itself or with `failure`.

        Args:
            state: what the skill makes of the handle that it acts on, "open" or "closed"; None: it
                is not there to move it.
        """
        handle = call.entity
        if (call.is_picking or call.is_placing) and failure is not None:
            self._doubt(self._container(call))
        if failure is None and call.is_placing and not call.is_carrying:
            self._has_come(call)
        if handle not in fur.MARKERS or call.is_driving:
            return
        if handle in self._doubted:
            self._doubted.remove(handle)
            if failure is not None:  # it may well have been open
                self.facts.states[handle] = "open"
                return
        if failure is not None or state is None:
            if self.moved(handle) > CLOSED:
                self.facts.states[handle] = "between"
            return
        self.facts.states[handle] = state
        joint = fur.MARKERS[handle]
        if state == "closed":
            self._ways.pop(handle, None)
        elif joint in fur.DRAWERS and self.moved(handle) < OPENED["drawer"]:
            self._ways[handle] = [np.zeros(3), self._opened_unfelt(joint)]

    def _container(self, call: Call) -> str | None:
        """The handle of what a Pick takes from or a Place puts into."""
        if call.is_picking:
            return self.facts.containers[call.target]
        return self._container_at(call.destination)

    def _container_at(self, goal: str) -> str | None:
        """The handle of what a target's goal lies in."""
        joint = self._homes[goal]
        return fur.MARKER_OF_JOINT[joint] if joint else None

    def _doubt(self, handle: str | None) -> None:
        """Counts failures at an open container, until it is believed to have been pushed shut."""
        if handle is None or self.facts.states.get(handle) != "open":
            return
        self._misses[handle] += 1
        if self._misses[handle] == MISSES:
            self._misses[handle] = 0
            self._doubted.add(handle)
            self.facts.states[handle] = "between"

    def moved(self, marker: str) -> float:
        """Distance that a handle has moved in the hand since it was first held, m."""
        way = self._ways.get(marker, [])
        return float(np.linalg.norm((way[-1] - way[0])[:2])) if way else 0.0

    def _runs_on(self, handle: str, hand: np.ndarray) -> None:
        """The hand has let go of a handle. Trained skills do so at full speed: in 30 of 30 drawers
        of val the hand's way was 0.42 to 0.46 m and the drawer at its stop, 0.5 m out."""
        way, joint = self._ways.get(handle), fur.MARKERS[handle]
        if joint not in fur.DRAWERS or way is None:  # None: believed shut with the handle in hand
            return
        out = np.array(self._sim.data.joint(joint).xaxis)
        if (hand + self._shift - way[-1]) @ out > RUNS_ON:
            way.append(way[0] + self._travel(joint) * out)

    def _opened_unfelt(self, drawer: str) -> np.ndarray:
        """Displacement of a drawer that was pulled out without suction, [3] m, world."""
        return PULLED * np.array(self._sim.data.joint(drawer).xaxis)

    def _handle(self) -> str | None:
        """The handle that the running skill moves; a skill of your own may grip what is none."""
        call = self._call
        if call is None or call.is_driving or call.is_picking or call.is_placing:
            return None
        return call.entity if call.entity in fur.MARKERS else None

    def _has_let_go(self, held: str, hand: np.ndarray) -> None:
        self.facts.held = None
        place = self._places[held]
        call = self._call
        is_placing = call is not None and call.is_placing
        goal = call.destination if call is not None and is_placing else held
        away = math.dist(hand[:2], self._goals[goal][:2])
        if is_placing and away < AT_GOAL:
            self.facts.placed[held] = goal_name(goal)
            self.facts.containers[held] = self._container_at(goal)
        height = self._goals[goal][2] if is_placing and away < BESIDE else FLOOR
        self._let_go[place] = np.array([*hand[:2], height])

    def _has_come(self, call: Call) -> None:
        """What holds nothing, such as a skill that pushes, says that its target is at a goal."""
        self.facts.placed[call.target] = goal_name(call.destination)
        self.facts.containers[call.target] = self._container_at(call.destination)
        self._let_go[self._places[call.target]] = self._goals[call.destination].copy()

    def _pulled(self, joint: str) -> np.ndarray:
        way = self._ways.get(fur.MARKER_OF_JOINT.get(joint, ""), [])
        if len(way) < 2:
            return np.zeros(3)
        out = np.array([*(way[-1] - way[0])[:2], 0.0])
        # if it was pushed in unnoticed and pulled again, it is at most fully open
        return out * min(1.0, self._travel(joint) / max(float(np.linalg.norm(out)), 1e-9))

    def _travel(self, drawer: str) -> float:
        """How far a drawer can have been pulled out since the robot took over, m."""
        return fur.DRAWER_TRAVEL - self._first[drawer]
