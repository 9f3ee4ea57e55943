"""rearrange: the Home Assistant Benchmark on MuJoCo.

    gymnasium.make("rearrange/Pick-v0")    known once this package is imported
    load_skill("pick")                     a trained skill that comes with the package
    RecordVideo(env, "videos")             films of any environment, as Gymnasium's wrapper
    evaluate, plan, train                  what the commands of these names do, see `library.py`

The folders `skills`, `planner`, `eval` and `configs` of the checkout are linked into this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

from rearrange import registries  # noqa: E402, where it is, is known by now
from rearrange.tasks.registry import register_all  # noqa: E402
from rearrange.workloads import skill_chain  # noqa: E402

if TYPE_CHECKING:
    from rearrange.eval.film.env_film import RecordVideo as RecordVideo
    from rearrange.library import EvaluationResult, PlanResult, Training
    from rearrange.skills.deployed.learned import TrainedPolicy

registries.add_all()
register_all()
skill_chain.register()


def load_skill(
    name: str | Path, folder: str | Path | None = None, *, is_sampling: bool = False
) -> TrainedPolicy:
    """A trained policy with its memory: `make_env()`, `reset()` and `act(observation)`.

    Args:
        name: of a skill, such as "pick"; or the path of a skill file or of a training run's folder.
        folder: where skills are looked for by name; None: those that come with the package.
        is_sampling: draw actions as in training instead of taking the most likely ones.

    Raises rearrange.errors.UserError if there is none, or the file is damaged.
    """
    from rearrange.skills.deployed import learned  # torch: only where it is used

    return learned.load_skill(name, folder, is_sampling=is_sampling)


def evaluate(**settings: Any) -> EvaluationResult:
    """Runs an agent, or what a training run learned (`run=`), through many episodes.

    Args:
        settings: of the command: `rearrange evaluate --help`. Nothing is written unless
            `output_dir` is given.

    Raises rearrange.errors.UserError for settings that do not fit.
    """
    from rearrange import library

    return library.evaluate(**settings)


def plan(**settings: Any) -> PlanResult:
    """The plan for an episode of the home, or for PDDL files (`domain=`, `problem=`).

    Args:
        settings: of the command: `rearrange plan --help`.

    Raises rearrange.errors.UserError for settings that do not fit, and where there is no plan.
    """
    from rearrange import library

    return library.plan(**settings)


def train(**settings: Any) -> Training:
    """Trains a skill of the home (`skill="pick"`) or in any Gymnasium environment (`env=`).

    Args:
        settings: of the commands: `rearrange train-skill --help`, `rearrange train --help`; those
            of parts in a dict, `ppo={"clip_coef": 0.1}`.

    Raises rearrange.errors.UserError for settings that do not fit, and
    rearrange.library.TrainingError for what ends a training early; its work is saved.
    """
    from rearrange import library

    return library.train(**settings)


def __getattr__(name: str) -> Any:
    """`RecordVideo`: imported, ffmpeg and all, only where it is used."""
    if name != "RecordVideo":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rearrange.eval.film.env_film import RecordVideo

    return RecordVideo
