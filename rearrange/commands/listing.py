"""`rearrange list`: the tasks, agents, splits and renderers there are."""

from rearrange.commands.words import CONFIG_DIR, group_options
from rearrange.configs.schema import ListCfg

SPLITS = {
    "train": "apartments to learn in",
    "val": "apartments never trained in, for choosing and for the figures of a run",
    "test": "apartments never trained in, for the last figures only",
}
RENDERERS = {
    "auto": "plain",
    "plain": "ours, smooth edges and soft shadows; needs nothing",
    "warp": "ray traced with shadows, on the CPU; pip install 'rearrange[video]'",
    "egl": "OpenGL; needs a GPU's driver or Mesa",
}


def run(cfg: ListCfg) -> int:
    """Prints the lists."""
    from omegaconf import OmegaConf

    from rearrange.planner.agents.agent import AGENTS

    lists = {"splits": SPLITS, "renderers": RENDERERS}
    if cfg.what in ("all", "tasks"):
        files = ((name, CONFIG_DIR / "task" / f"{name}.yaml") for name in group_options("task"))
        lists = {"tasks": {name: OmegaConf.load(file).title for name, file in files}} | lists
    if cfg.what in ("all", "agents"):
        lists["agents"] = {
            name: (agent.__doc__ or "").split("\n")[0] for name, agent in AGENTS.items()
        }
    for title, entries in lists.items():
        if cfg.what in ("all", title):
            print(f"{title}:")
            for name, meaning in entries.items():
                print(f"  {name:<24}{meaning}".rstrip())
    return 0
