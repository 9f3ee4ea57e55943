"""`rearrange export-homes`: our homes, robot and episodes as another simulator's data set."""

import sys
from collections.abc import Iterable

from tqdm import tqdm

from rearrange.configs.exchange import ExportHomesCfg
from rearrange.eval.runner import check_name
from rearrange.habitat.dataset import EPISODES, export
from rearrange.sim.homes.layout import SPLITS
from rearrange.system.files import user_path
from rearrange.tasks.episodes.files import check_num_episodes
from rearrange.tasks.rules.definition import TASKS


def run(cfg: ExportHomesCfg) -> int:
    """Writes the folder. Raises UserError for a wrong setting or folder."""
    check_name("split", cfg.split, SPLITS)
    tasks = [TASKS.find(name).name for name in cfg.tasks]
    check_num_episodes(cfg.num_episodes)
    folder = user_path(cfg.output)

    def show(indices: range) -> Iterable[int]:
        return tqdm(indices, unit="episode", disable=None, file=sys.stderr)

    summary = export(folder, cfg.split, tasks, cfg.num_episodes, cfg.seed, show)
    part = summary["splits"][cfg.split]
    print(f"{part['homes']} homes of {cfg.split} for Habitat: {folder}")
    for name, count in part["episodes"].items():
        print(f"  {count:>4} episodes  {EPISODES}/{cfg.split}/{name}")
    print(f"start habitat-lab in {folder} with habitat.dataset.split={cfg.split}")
    return 0
