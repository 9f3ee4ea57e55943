"""`rearrange episodes`: generates episode files, and checks one."""

import sys

from tqdm import tqdm

from rearrange.configs.schema import EpisodesCfg
from rearrange.errors import UserError
from rearrange.eval.runner import check_split
from rearrange.system.files import user_path
from rearrange.system.outputs import prepare_file


def run(cfg: EpisodesCfg) -> int:
    """Generates or checks; 1 if a checked file differs from what the generator gives today."""
    return _generate(cfg) if cfg.what == "generate" else _check(cfg)


def _generate(cfg: EpisodesCfg) -> int:
    from rearrange.tasks.episodes.files import check_num_episodes, write_episodes
    from rearrange.tasks.episodes.generate import generate_episode
    from rearrange.tasks.rules.definition import TASKS

    check_split(cfg.split, cfg.homes)
    check_num_episodes(cfg.num_episodes)
    assert cfg.output is not None  # the settings see to it, for each of the two
    path = user_path(cfg.output)
    if not path.name.endswith(".json.gz"):
        raise UserError(f"output must end in .json.gz, got {cfg.output}")
    prepare_file(path)
    indices = tqdm(range(cfg.num_episodes), unit="episode", disable=None, file=sys.stderr)
    task = TASKS.find(cfg.task.name).name
    episodes = [
        generate_episode(task, cfg.split, cfg.seed, index, homes=cfg.homes) for index in indices
    ]
    write_episodes(path, episodes)
    print(f"{len(episodes)} episodes of {task}, {cfg.split}, seed {cfg.seed}: {path}")
    return 0


def _check(cfg: EpisodesCfg) -> int:
    from rearrange.sim.homes.layout import HAB, MIXED, PROCEDURAL, homes_of
    from rearrange.tasks.episodes.files import read_episodes
    from rearrange.tasks.episodes.generate import generate_episode
    from rearrange.tasks.rules.definition import TASKS

    assert cfg.file is not None
    TASKS.find(cfg.task.name)  # imports the module of a task of a user's own
    path = user_path(cfg.file)
    episodes = read_episodes(path)
    changed = []
    for spec in tqdm(episodes, unit="episode", disable=None, file=sys.stderr):
        homes = [homes_of(spec.scene.layout_id)]
        if homes[0] in (HAB, PROCEDURAL):
            homes.append(MIXED)  # it may have been drawn from both
        drawn = (spec.task, spec.split, spec.seed, spec.index)
        if not any(generate_episode(*drawn, homes=where) == spec for where in homes):
            changed.append(spec.index)
    kinds = sorted({(spec.task, spec.split, spec.seed) for spec in episodes})
    layouts = {spec.scene.layout_id for spec in episodes}
    print(f"{path}: {len(episodes)} episodes in {len(layouts)} apartments, well formed")
    for task, split, seed in kinds:
        print(f"  {task}, {split}, seed {seed}")
    if changed:
        shown = ", ".join(str(index) for index in changed[:10]) + (", ..." if changed[10:] else "")
        print(f"{len(changed)} differ from what the generator gives for them today: {shown}")
    return int(bool(changed))
