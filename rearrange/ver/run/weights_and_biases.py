"""Weights & Biases (`logger=wandb`), instead of TensorBoard.

    wandb_id    in the run's folder: the W&B run that a resumed training continues
    wandb/      W&B's own files; with WANDB_MODE=offline everything stays here, for `wandb sync`

The package `wandb` is imported only here, and only if it is chosen. Project, entity and mode are
W&B's own settings, WANDB_PROJECT and so on; without one the project is `rearrange`.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import logging
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rearrange.errors import UserError, described
from rearrange.system.files import write_whole_file
from rearrange.ver.run.tensorboard import Film

ID_FILE = "wandb_id"
ID_BYTES = 8
PROJECT = "rearrange"
LOGGERS = ("tensorboard", "wandb")

logger = logging.getLogger(__name__)


def check_logger(name: str) -> None:
    """Raises ValueError for an unknown logger, or one whose package is missing."""
    if name not in LOGGERS:
        raise ValueError(f"logger must be one of {', '.join(LOGGERS)}; got '{name}'")
    if name == "wandb" and importlib.util.find_spec("wandb") is None:
        raise ValueError("logger=wandb needs the package wandb: pip install wandb")


class WeightsAndBiases:
    """Writes to a W&B run; has the methods of `TensorBoard`.

    Raises UserError if W&B cannot start a run: no key, no network.
    """

    def __init__(self, run_dir: Path) -> None:
        self._wandb: Any = importlib.import_module("wandb")
        project = os.environ.get("WANDB_PROJECT", PROJECT)
        try:
            self._run: Any = self._wandb.init(
                project=project, name=run_dir.name, dir=str(run_dir), id=_id_of(run_dir),
                resume="allow",
            )  # fmt: skip
        except Exception as error:  # whatever W&B says
            why = described(error)
            raise UserError(
                f"logger=wandb cannot begin a run: {why}; WANDB_MODE=offline keeps it here"
            ) from error
        # A step axis of our own: steps that are trained again after a kill are logged again.
        self._run.define_metric("*", step_metric="step")

    def show_numbers(self, values: Mapping[str, float | None], step: int) -> None:
        """Writes those that are not None."""
        known = {name: value for name, value in values.items() if value is not None}
        self._tell(known | {"step": step})

    def show_settings(self, settings: Mapping[str, Any]) -> None:
        """Writes them as the run's config."""
        if self._run is not None:
            self._run.config.update(dict(settings), allow_val_change=True)

    def show_film(self, film: Film, step: int) -> None:
        """Adds it to the metrics of its step."""
        video = self._wandb.Video(io.BytesIO(film.content), format="gif")
        self._tell({film.name: video, "step": step})

    def close(self) -> None:
        """May be called twice."""
        if self._run is not None:
            self._run.finish()
            self._run = None

    def _tell(self, values: dict[str, Any]) -> None:
        if self._run is None:
            return
        try:
            self._run.log(values)
        except OSError as error:  # the numbers are in metrics.jsonl
            logger.warning("nothing more for W&B: %s", error)
            self._run = None


def _id_of(run_dir: Path) -> str:
    """The id of a folder's run, created once."""
    path = run_dir / ID_FILE
    if path.is_file():
        found = path.read_text(encoding="ascii", errors="replace").strip()
        if len(found) == 2 * ID_BYTES and found.isalnum():
            return found
    new = secrets.token_hex(ID_BYTES)
    write_whole_file(path, f"{new}\n".encode())
    return new
