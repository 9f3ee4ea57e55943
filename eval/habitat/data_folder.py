"""The folder with the data that habitat-lab finds under its own paths.

an export of ours   has export.json: our homes, and of each episode the start that it has here
habitat-lab's own   ReplicaCAD and its RearrangeDataset-v0 files, as they are downloaded;
                    habitat-lab draws the starts of its skills itself
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rearrange.errors import UserError
from rearrange.eval.habitat.lab.tasks import STOCK_TASKS, episode_file
from rearrange.habitat.dataset import SUMMARY, exported
from rearrange.system.files import user_path


@dataclass(frozen=True)
class DataFolder:
    path: Path
    is_export: bool


def find_data(given: str | None, task: str, split: str, how: str) -> DataFolder:
    """The folder of `habitat.data`, with episodes of the task.

    Args:
        how: words that the command which would export them ends with.

    Raises UserError, in one line, where it has none.
    """
    wanted = f"rearrange export-homes output=DIR split={split} tasks={task}{how}"
    if given is None:
        raise UserError(f"backend=habitat needs habitat.data=, the folder of an export: {wanted}")
    path = user_path(given).resolve()
    if (path / SUMMARY).exists() or not (path / "data").is_dir():
        if exported(path, task, split)[0] == 0:
            raise UserError(f"habitat.data={path} has no episodes of {task}, {split}: {wanted}")
        return DataFolder(path, is_export=True)
    file = episode_file(STOCK_TASKS[task], split, is_export=False)
    if not (path / file).is_file():
        raise UserError(
            f"habitat.data={path} is no export (no {SUMMARY}), and for habitat-lab's own episodes "
            f"of {task}, {split}, it lacks {file}"
        )
    return DataFolder(path, is_export=False)
