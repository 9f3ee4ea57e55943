"""`rearrange import-episodes`: Habitat's episode files in our homes, as far as they go."""

import sys

from tqdm import tqdm

from rearrange.configs.exchange import ImportEpisodesCfg
from rearrange.errors import UserError
from rearrange.habitat.counterparts import Gaps, counterpart
from rearrange.habitat.reading import read_habitat_episodes
from rearrange.system.files import user_path
from rearrange.system.outputs import prepare_file
from rearrange.tasks.episodes.files import write_episodes
from rearrange.tasks.rules.episode import EpisodeSpec


def run(cfg: ImportEpisodesCfg) -> int:
    """Writes what has a counterpart, and lists what has none; 1 if no episode has one.

    Raises UserError for a file that is none.
    """
    path, gaps = user_path(cfg.file), Gaps()
    output = None if cfg.output is None else prepare_file(user_path(cfg.output))
    if output is not None and output.exists() and output.samefile(path):
        raise UserError(f"output must be another file than {path}, whose episodes it would replace")
    episodes: list[EpisodeSpec] = []
    count = exact = 0
    for episode in tqdm(read_habitat_episodes(path), unit="episode", disable=None, file=sys.stderr):
        count += 1
        exact += episode.ours is not None
        spec = counterpart(episode, gaps)
        if spec is not None:
            episodes.append(spec)
    print(f"{path}: {count} episodes, {len(episodes)} have a counterpart here")
    if exact:
        print(f"  {exact} of them were exported from here and are as they were")
    if gaps.found:
        print("without a counterpart, and how often:")
    for line in gaps.lines():
        print(f"  {line}")
    if not episodes:
        return 1
    if output is not None:
        _check_new(episodes)
        write_episodes(output, episodes)
        print(f"written: {output}")
    return 0


def _check_new(episodes: list[EpisodeSpec]) -> None:
    """Raises UserError for a file that cannot be one of ours: two episodes that are the same."""
    keys = [(spec.task, spec.split, spec.seed, spec.index) for spec in episodes]
    if len({*keys}) < len(keys):
        raise UserError("the file must not hold an episode twice, it does: nothing is written")
