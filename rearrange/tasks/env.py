"""RearrangeEnv: one simulation, one task and its sensors as a Gymnasium environment.

    reset: episode = f(task, split, seed, index) -> world -> observation
    step:  action -> command -> four physics substeps -> task's reward -> sensors and image

With `observation_delay=1`, the default, the policy acts on the observation of the previous step, as
in the VER paper: a_t ~ pi(. | o_{t-1}) for all sensors. The first observation is therefore returned
twice.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from os import PathLike, fspath
from typing import Any

import gymnasium
import numpy as np

from rearrange.checked_arguments import check_choice, check_flag, checked_reset_options, whole
from rearrange.errors import UserError
from rearrange.sim.homes.layout import HAB, SPLITS, check_homes, check_unchanged, homes_of
from rearrange.sim.robot.depth import DepthCamera
from rearrange.sim.simulation import Simulation
from rearrange.sim.world_state import Placeholder, WorldState
from rearrange.system.checked_json import quoted
from rearrange.tasks.actions import ActionReader, Command, action_slots
from rearrange.tasks.cameras import ColourSensors, VisualsCache, Window, panoptic_names
from rearrange.tasks.env_options import MAX_CAMERA_SIZE, RESET_OPTIONS, check_equal, lead, of_states
from rearrange.tasks.episodes.driven import drive_up
from rearrange.tasks.episodes.files import load_episode
from rearrange.tasks.episodes.generate import STARTS
from rearrange.tasks.floor_way import FLOOR_WAY, way_sensor
from rearrange.tasks.observations import Sensors, observation_space
from rearrange.tasks.ranges import CAMERA_ONLY, RangeSensors
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.rulebook import make_task, most_steps
from rearrange.tasks.rules.task import check_outcome

_NOT_GIVEN = ("self", "__class__")
_STATE = (  # what an episode changes, beside the world
    "seed", "episode", "is_success", "_next_index", "_num_steps", "_current",
)  # fmt: skip
_IN_STATES = {*_STATE, "task", "np_random", "world", "options", "way"}


class RearrangeEnv(gymnasium.Env):
    """One task of the benchmark.

    Args:
        task: its name, or `package.module:Name`, which imports the module.
        split: "train", "val" or "test": which apartments.
        seed: of the stream of episodes; `reset(seed=s)` starts stream s at its first index. None: a
            unique stream, so that the environments of a vector differ.
        camera_size: pixels per side of `head_depth` and of each picture below.
        depth: False: no image, and a step costs a fraction.
        ranges: True: adds `coarse_depth` and `base_scan`, see `ranges`; "camera": the former only.
        floor_way: adds `floor_way`, the way to the one goal as far as the camera has seen.
        rgb: True: adds `head_rgb` and `arm_rgb`, see `cameras`; "plain": cheaper, simpler shapes.
        panoptic: adds `head_panoptic` and `arm_panoptic`, ids of the things in those images.
        handle_sensors: adds `marker_rel_pos` and `marker_js`, positions and joints of handles.
            HAB's tasks had them in Habitat-lab 0.2.2.
        observation_delay: 0 or 1 control steps.
        motor_lead: rad by which a motor's target may lead its joint; None: any, as in HAB.
        action_space: "full", "skill" or "stationary", see `actions`.
        max_episode_steps: overrides the task's limit. `gymnasium.make` takes this keyword for a
            limit of its own, which can only be shorter and tells no failure; `make_env`, and
            `make_vec` unless told to be "sync" or "async", mean this one.
        starts: "chain" varies the starts of episodes, "varied" the apartments too, "driven" lets
            the robot drive there, "reach" starts half of them within reach: for training, see
            `generate`.
        success_scale, force_scale: factors on the benchmark's thresholds of success (0.5 to 1) and
            limits of force (0.1 to 1): for training, so that a borderline stop or push fails.
        homes: "hab", "procedural", "mixed" (either), or a home's JSON file, which must not change.
        index_offset, index_stride: the stream's indices are offset, offset + stride, ...: K
            environments with offsets 0..K-1 and stride K share a stream without overlap.
        render_mode, render_camera: None or "rgb_array"; "third_person", "head" or "arm".
        render_size: width and height of `render`'s images, pixels.

    Raises UserError for an unknown value or one out of range.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(
        self,
        task: str = "pick",
        split: str = "train",
        seed: int | None = None,
        *,
        camera_size: int = 128,
        depth: bool = True,
        ranges: bool | str = False,
        floor_way: bool = False,
        rgb: bool | str = False,
        panoptic: bool = False,
        handle_sensors: bool = False,
        observation_delay: int = 1,
        motor_lead: float | None = None,
        action_space: str = "full",
        max_episode_steps: int | None = None,
        starts: str = "task",
        success_scale: float = 1.0,
        force_scale: float = 1.0,
        homes: str | PathLike[str] = HAB,
        index_offset: int = 0,
        index_stride: int = 1,
        render_mode: str | None = None,
        render_size: Sequence[int] = (640, 480),
        render_camera: str = "third_person",
    ) -> None:
        homes = fspath(homes) if isinstance(homes, PathLike) else homes
        given = {name: value for name, value in locals().items() if name not in _NOT_GIVEN}
        self.init_kwargs: dict[str, Any] = given
        self.task = make_task(task)
        check_choice("split", split, SPLITS)
        check_choice("starts", starts, STARTS)
        check_flag("depth", depth)
        check_flag("handle_sensors", handle_sensors)
        check_flag("floor_way", floor_way)
        observation_delay = whole("observation_delay", observation_delay, 0, 1)
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        if not isinstance(ranges, bool) and ranges != CAMERA_ONLY:
            raise UserError(f"ranges must be false, true or {CAMERA_ONLY!r}, got {ranges!r}")
        self.split, self.observation_delay = split, observation_delay
        self.task.set_scales(success_scale, force_scale)
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
            self.init_kwargs["seed"] = seed  # copies go on with the same episodes
        self._home_digest = check_homes(homes)
        self.seed, self._starts, self.homes = whole("seed", seed, 0), starts, homes
        self._offset = whole("index_offset", index_offset, 0)
        self._stride = whole("index_stride", index_stride, 1)
        limit = max_episode_steps
        self._limit = None if limit is None else whole("max_episode_steps", limit, 1)
        self._max_steps = self._steps_in(homes)
        camera_size = whole("camera_size", camera_size, 1, MAX_CAMERA_SIZE)
        self.actions = ActionReader(action_slots(self.task.name, action_space))
        self._sensors = Sensors(self.task, handle_sensors)
        self._motor_lead = lead(motor_lead)
        self.sim = Simulation(self._motor_lead)
        self._camera = DepthCamera(self.sim.model, "head", camera_size) if depth else None
        self.action_space = self.actions.space
        self._ranges = RangeSensors(self.sim.model, ranges is True) if ranges else None
        self._way = way_sensor(self.sim, self.task) if floor_way else None
        self._visuals = VisualsCache()
        self._colours = ColourSensors(self.sim.model, camera_size, rgb, panoptic, self._visuals)
        self.observation_space = observation_space(
            self._sensors, camera_size if depth else None, self._ranges, self._way is not None,
            self._colours.spaces(),
        )  # fmt: skip
        self.render_mode = render_mode
        self._window = Window(render_size, render_camera, self._visuals)
        self.episode: EpisodeSpec | None = None
        self._prepared: EpisodeSpec | None = None
        self._current: dict[str, np.ndarray] = {}
        self._next_index, self._num_steps, self.is_success = self._offset, 0, False

    @property
    def current_observation(self) -> dict[str, np.ndarray]:
        """The current observation, without delay."""
        return self._current

    def keep_observation(self) -> None:
        """Copies it out of the arrays that `observe` was given: they are for something else now."""
        self._current = {name: value.copy() for name, value in self._current.items()}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Starts the stream's next episode, or that of options["index"], or options["episode"].

        The stream continues after a given index; a given episode does not move it.
        """
        info = self.begin(seed=seed, options=options)
        # A copy: with a delay the next step returns this observation again.
        first = {name: value.copy() for name, value in self.observe().items()}
        return first, info

    def step(self, action):
        """One control step of 1/30 s.

        Raises ValueError for an action of a wrong shape or that is not finite, RuntimeError before
        the first reset and for a world or reward that is no longer finite.
        """
        previous = self._current
        outcome = self.advance(action)
        current = self.observe()
        return previous if self.observation_delay else current, *outcome

    def begin(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """`reset` without its observation: returns the info. Call `observe` next."""
        seed = None if seed is None else whole("seed", seed, 0)
        given = checked_reset_options(options, RESET_OPTIONS)
        if "episode" in given and "index" in given:
            raise UserError("reset options must have an index or an episode, got both")
        first = self._next_index if seed is None else self._offset
        index = whole("index", given.get("index", first), 0)
        if "episode" in given:
            episode = given["episode"]
        else:
            episode = self._episode(self.seed if seed is None else seed, index)
        self.task.check_episode(episode)  # a task of one's own may draw what is none of its own
        sim = self.sim
        sim.reset(episode.scene)  # refuses what only it knows: joints, kinds of objects
        super().reset(seed=seed)  # from here on nothing that was given is wrong
        if seed is not None:
            self.seed, self._next_index = seed, first
        if "episode" not in given:
            self._next_index = index + self._stride
        self._max_steps = self._steps_in(homes_of(episode.scene.layout_id))
        sim.motor_lead = self._motor_lead
        if episode.start_holding:
            sim.snap_object(episode.targets[episode.target_index].object)
        if self._starts == "driven":
            drive_up(sim, episode)
        self.episode, self._num_steps, self.is_success = episode, 0, False
        self.task.start(sim, episode)
        self._sensors.start(episode)
        if self._way is not None:
            self._way.begin(sim, self._sensors.goal())
        self._visuals.start()
        return self._info(False, None, False)

    def advance(self, action) -> tuple[float, bool, bool, dict[str, Any]]:
        """`step` without its observation: reward, terminated, truncated, info.

        Call `observe` next. Raises as `step`.
        """
        if self.episode is None:
            raise RuntimeError("reset must be called before step")
        command = self.actions.read(action)
        self.begin_advance(command)
        self.sim.run_step()
        return self.end_advance(command)

    def begin_advance(self, command: Command) -> int:
        """`advance` up to the physics; returns what `substep_kernel.run_worlds` takes."""
        sim = self.sim
        return sim.begin_step(command.arm, self.task.grip_command(sim, command.grip), command.base)

    def end_advance(self, command: Command) -> tuple[float, bool, bool, dict[str, Any]]:
        """`advance` from the physics on."""
        sim = self.sim
        sim.end_step()
        self._num_steps += 1
        outcome = self.task.step(sim, command.stop)
        self.is_success = outcome.success
        check_outcome(sim, self.episode, self._num_steps, outcome)
        truncated = not outcome.terminated and self._num_steps >= self._max_steps
        is_stop = command.stop and self.task.rules.is_stop_used
        failure = "time_limit" if truncated else outcome.failure
        info = self._info(outcome.success, failure, is_stop)
        return outcome.reward, outcome.terminated, truncated, info

    def observe(
        self, out: dict[str, np.ndarray] | None = None, pictures: list[int] | None = None
    ) -> dict[str, np.ndarray]:
        """The current observation, in new arrays or in those of `out`, which it then keeps.

        Args:
            pictures: `head_depth`, of `out`, is left to `depth_kernel.draw_pictures`, which takes
                what is appended here; colours are left to `colour`.
        """
        observation = self._sensors.read(self.sim, out)
        if self._camera is not None:
            picture = None if out is None else out["head_depth"]
            if picture is None or pictures is None:
                picture = self._camera.render(self.sim.data, picture)
            else:
                pictures.append(self._camera.begin(self.sim.data, picture))
            observation["head_depth"] = picture
        if self._ranges is not None:
            observation |= self._ranges.read(self.sim, out)
        if self._way is not None:
            self._way.look(self.sim)
            observation[FLOOR_WAY] = self._way.read(None if out is None else out[FLOOR_WAY])
        if out is None or pictures is None:
            observation |= self._colours.read(self.sim, out)
        self._current = observation if out is None else out
        return self._current

    def colour(self, out: dict[str, np.ndarray]) -> None:
        """Draws the colour and panoptic images of now, which takes a hundred times a step."""
        self._colours.read(self.sim, out)

    def prepare(self, seed: int | None = None) -> None:
        """Draws the next episode in advance: its reset then takes one millisecond, not ten.

        Args:
            seed: of the coming reset; None: the stream continues.
        """
        index = self._next_index if seed is None else self._offset
        self._prepared = self._episode(self.seed if seed is None else seed, index)

    def render(self) -> np.ndarray | None:
        """An image as in films, [height, width, 3] uint8; None without a render mode.

        Raises RuntimeError before the first reset.
        """
        if self.render_mode is None:
            return None
        if self.episode is None:
            raise RuntimeError("reset must be called before render")
        return self._window.draw(self.sim)

    def panoptic_names(self) -> dict[int, str]:
        """Meaning of the ids in `head_panoptic` and `arm_panoptic` in this episode."""
        return panoptic_names(self.sim)

    def close(self) -> None:
        """Releases the renderer. May be called again."""
        self._window.close()

    def get_state(self) -> dict[str, Any]:
        """A copy of the episode's state, for `set_state` of an equal environment.

        It can be pickled. Raises RuntimeError before the first reset.
        """
        state = {name: getattr(self, name) for name in _STATE}
        state["options"] = of_states(self.init_kwargs)
        state |= {"task": vars(self.task), "np_random": self.np_random}
        state["way"] = None if self._way is None else self._way.state()
        # A task may have kept the simulation: in the state a placeholder stands for it.
        state = copy.deepcopy(state, {id(self.sim): Placeholder.SIMULATION})
        return state | {"world": WorldState.of(self.sim)}

    def set_state(self, state: dict[str, Any], *, looks_anew: bool = False) -> None:
        """Continues from a `get_state`, bit for bit, any number of times.

        Args:
            looks_anew: the state may be of an environment with other sensors and another
                motor_lead: the observation and the lead are this one's.

        Raises UserError for the state of another task, and of one with other options.
        """
        if not isinstance(state, dict) or not state.keys() >= _IN_STATES:
            raise UserError(f"a state must be what get_state returned, got {quoted(state)}")
        if state["task"]["name"] != self.task.name:
            raise UserError(f"a state of {self.task.name} is needed, got {state['task']['name']}")
        check_equal(of_states(self.init_kwargs), state["options"], looks_anew)
        state["world"].put_into(self.sim)
        state = {name: value for name, value in state.items() if name not in ("world", "options")}
        state = copy.deepcopy(state, {id(Placeholder.SIMULATION): self.sim})
        vars(self.task).update(state.pop("task"))
        self.np_random = state.pop("np_random")
        way = state.pop("way")
        vars(self).update(state)
        assert self.episode is not None  # there is no state before the first reset
        self._max_steps = self._steps_in(homes_of(self.episode.scene.layout_id))
        self._sensors.start(self.episode)
        if self._way is not None:
            self._way.go_on(way, self.sim, self._sensors.goal())
        self._visuals.start()
        if looks_anew:
            self.sim.motor_lead = self._motor_lead
            self.observe()

    def __reduce__(self):
        """Copies and pickles are independent environments in the same state."""
        state = self.get_state() if self.episode is not None else None
        return partial(type(self), **self.init_kwargs), (), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.set_state(state)

    # --- private -------------------------------------------------------------------------------

    def _steps_in(self, homes: str) -> int:
        """Control steps after which an episode in such a home is cut off."""
        return self._limit or most_steps(self.task, homes, self.homes)

    def _episode(self, seed: int, index: int) -> EpisodeSpec:
        """The episode of that index in the stream of a seed."""
        ahead, wanted = self._prepared, (self.split, seed, index)
        if ahead is not None and (ahead.split, ahead.seed, ahead.index) == wanted:
            return ahead
        check_unchanged(self.homes, self._home_digest, "this environment")
        return load_episode(self.task.name, *wanted, self._starts, self.homes)

    def _info(self, success: bool, failure: str | None, is_stop: bool) -> dict[str, Any]:
        sim, episode = self.sim, self.episode
        assert episode is not None
        return {
            "success": success,
            "stages": {name: bool(is_done) for name, is_done in self.task.stages.items()},
            "failure": failure,
            "is_stop_called": is_stop,
            "num_steps": self._num_steps,
            "force_accum": sim.force_accum,
            "force_instant": sim.force_instant,
            "episode_index": episode.index,
            "scene": episode.scene.layout_id,
        }
