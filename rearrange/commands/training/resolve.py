"""The effective settings of a training: layers between the schema and the command line.

    schema, presets  <  first actions  <  what suits the spaces, or the skill's recipe  <  its stage
                     <  the command line's overrides

`train` takes the defaults for the environment's spaces (`space_defaults.yaml`), `train-skill` the
recipe of its kind and, with `stage=`, that stage (`stages.yaml`, `skill/NAME.yaml`).
"""

from __future__ import annotations

from typing import Any

from rearrange.commands.overrides import ParsedOverrides, read
from rearrange.commands.settings import Layer, compose, merged, yaml_file
from rearrange.commands.training.recipes import begins_with, recipes_of, weights_of
from rearrange.commands.training.training_env import (
    TrainingEnv,
    remote_environments,
    run_folder,
    stages_folder,
    training_env_of,
)
from rearrange.configs.stages import Recipe, Stage
from rearrange.configs.training import AnyRunCfg, TrainSkillCfg
from rearrange.errors import UserError
from rearrange.skills.first_actions import first_actions
from rearrange.system.files import user_path
from rearrange.tasks.gym_factory import read_spaces
from rearrange.ver.workers.spaces import action_spec, observation_spec

CHAIN = "imitation_ver"  # the method that is several trainings
EPISODES_APART = 1_000_000  # from a stage's first episode to that of the next, see `TrainerCfg`
RECIPE_NETWORKS = ("auto", "small")  # presets that recipes are for; others learn as the paper says


def load_training(verb: str, overrides: list[str]) -> AnyRunCfg:
    """The settings that a training verb will run with.

    Raises UserError for a mistake in the overrides, for values that do not go together, and for an
    environment that is not there or whose spaces the trainer cannot take.
    """
    return resolved(read(verb, overrides))


def resolved(given: ParsedOverrides) -> AnyRunCfg:
    """The same of what was read."""
    own = _last_of_chain(given) if given.values.get("method") == CHAIN else given
    layers = _skill_layers(own) if given.verb == "train-skill" else _env_layers(own)
    settings = compose(own, layers)
    settings.given = given
    training_env = training_env_of(settings)
    _spaces(training_env)  # what is wrong with the environment is better said before the work
    if getattr(settings, "method", "ver") != "ver" and settings.action_space != "full":
        raise UserError(
            f"the oracle moves the whole robot: method={settings.method} needs action_space=full, "
            f"got {settings.action_space}"
        )
    settings.run_dir = str(run_folder(settings, training_env))
    return settings


# --- any environment ------------------------------------------------------------------------------


def space_defaults() -> dict[str, Layer]:
    """What `train` takes for each kind of environment."""
    return yaml_file("space_defaults.yaml")


def _env_layers(given: ParsedOverrides) -> list[Layer]:
    draft = merged(given)
    kwargs = given_kwargs(given)
    remote_envs = remote_environments(draft.env, kwargs, draft.workers)
    training_env = TrainingEnv(draft.env, kwargs, "", remote_envs)
    observation, action = _spaces(training_env)
    is_seeing = any(len(spec.shape) == 3 for spec in observation.values())
    layers = [space_defaults()["pictures" if is_seeing else action.kind]]
    if draft.warm_start is None:
        layers.insert(0, _first(training_env))
    return layers


def _spaces(training_env: TrainingEnv) -> tuple[Any, Any]:
    if training_env.remote_envs is not None:
        return training_env.remote_envs.specs()
    observation_space, action_space = read_spaces(training_env.env_id, training_env.kwargs)
    return observation_spec(observation_space), action_spec(action_space)


def _first(training_env: TrainingEnv) -> Layer:
    slots = training_env.kwargs.get("action_space", "full")
    return {"policy": first_actions(training_env.known_id, slots)}


def given_kwargs(given: ParsedOverrides) -> dict[str, Any]:
    """The user's own overrides for the environment."""
    own = [(key.partition("."), value) for key, value in given.values.items()]
    return {name: value for (part, _, name), value in own if part == "env_kwargs"}


# --- a skill --------------------------------------------------------------------------------------


def _skill_layers(given: ParsedOverrides) -> list[Layer]:
    known = recipes_of(given.choices["skill"])
    name = given.values.get("stage")
    if name is None and "preset" in given.values:
        raise UserError("preset= is for one stage, stage=NAME; `train-skills` runs them all")
    own: list[Layer] = []
    if name is not None:
        preset = given.values.get("preset", "laptop")
        own = [stage_layer(known.stage(preset, name), known.stages[preset], given)]
    draft = merged(given, own)
    kind = kind_of(draft.method, draft.warm_start, draft.env_kwargs.get("depth"))
    has_recipe = draft.policy.name in RECIPE_NETWORKS
    recipes = known.recipes[kind] if has_recipe else ()
    layers = [] if kind == "fresh" else [{"env_kwargs": known.env_kwargs}]
    layers += [recipe_layer(recipe) for recipe in recipes]
    if has_recipe:
        layers.append({"policy": {"name": "small"}})
    if draft.serial or draft.scheme.name == "serial" or draft.mode == "batched":
        layers.append({"overlap": False})
    if kind == "fresh":
        kwargs = {"action_space": draft.action_space, **draft.env_kwargs}
        layers.insert(0, _first(TrainingEnv(draft.skill.env, kwargs, "")))
    return [*layers, *own]


def kind_of(method: str, warm_start: str | None, depth: bool | None) -> str:
    """Which kind of recipe a training takes, see `configs/stages.py`."""
    if method == "imitation":
        return "imitation"
    if warm_start is None:
        return "fresh"
    return "blind" if depth is False else "tuning"


def recipe_layer(recipe: Recipe) -> Layer:
    """A recipe as a nested mapping of settings."""
    layer: dict[str, Any] = dict(recipe.settings)
    if recipe.env_kwargs:
        layer["env_kwargs"] = recipe.env_kwargs
    if recipe.total_steps is not None:
        layer["total_steps"] = recipe.total_steps
    return layer


def stage_layer(stage: Stage, stages: list[Stage], given: ParsedOverrides) -> Layer:
    """A stage as a nested mapping of settings; the run of the stage before it lies beside its own.

    Raises UserError for a stage that is no training.
    """
    if stage.method == "average":
        raise UserError(f"stage {stage.name} averages weights: `train-skills` does it")
    values = given.values
    run_dir = values.get("run_dir")
    if run_dir is None:
        folder = stages_folder(values.get("preset", "laptop"), values.get("seed", 0))
        run_dir = folder / given.choices["skill"].rpartition(":")[2] / stage.name
    layer = dict(recipe_layer(stage)) | {"method": stage.method, "run_dir": str(run_dir)}
    layer["first_episode"] = EPISODES_APART * stages.index(stage)
    if (first := begins_with(stages, stage)) is not None:
        earlier = next(other for other in stages if other.name == first)
        folder = user_path(run_dir).parent / first
        layer["warm_start"] = str(weights_of(earlier, folder))
    return layer


# --- imitation, then VER --------------------------------------------------------------------------


def chain(given: ParsedOverrides) -> list[AnyRunCfg]:
    """The trainings of method=imitation_ver, the last of which is the run itself.

    Without pictures a step costs a fraction, and what can be learned so is learned first.
    """
    last = resolved(given)
    assert isinstance(last, TrainSkillCfg)  # no other has a method
    run_dir, own = last.folder, {"env_kwargs.depth": False, "resume": "auto"}
    parts = [("imitation", {"method": "imitation"}, last.imitation.total_steps)]
    if last.camera_stage:
        values = {"method": "ver", "warm_start": str(run_dir / "imitation")}
        parts.append(("blind", values, last.blind_steps))
    stages = []
    for place, (name, values, num_steps) in enumerate(parts):
        first = last.first_episode - EPISODES_APART * (len(parts) - place)
        values = values | own | {"run_dir": str(run_dir / name), "first_episode": first}
        if num_steps:
            values["total_steps"] = num_steps
        stages.append(resolved(given.changed(values, without=("total_steps",))))
    last.resume = "auto"
    return [*stages, last]


def _last_of_chain(given: ParsedOverrides) -> ParsedOverrides:
    """What the last training of method=imitation_ver begins with stands whatever was given."""
    draft = merged(given)
    run_dir = run_folder(draft, TrainingEnv("", {}, draft.skill.name))
    first = draft.first_episode + EPISODES_APART * (1 + draft.camera_stage)
    if draft.camera_stage:
        return given.changed({"warm_start": str(run_dir / "blind"), "first_episode": first})
    own = {"warm_start": str(run_dir / "imitation"), "env_kwargs.depth": False}
    return given.changed(own | {"first_episode": first})
