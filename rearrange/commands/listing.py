"""`rearrange list`: the available tasks, agents, splits and renderers."""

from rearrange.configs.schema import ListCfg
from rearrange.tasks.rules.definition import TASKS

SPLITS = {
    "train": "apartments to learn in",
    "val": "apartments never trained in, for model selection and a run's own evaluations",
    "test": "apartments never trained in, for final results only",
}
RENDERERS = {
    "auto": "plain",
    "plain": "ours, smooth edges and soft shadows; needs nothing",
    "warp": "ray traced with shadows, on the CPU; pip install 'rearrange[video]'",
    "egl": "OpenGL; needs a GPU's driver or Mesa",
}


def run(cfg: ListCfg) -> int:
    """Prints the lists."""
    from rearrange.planner.agents.agent import AGENTS

    lists = {"splits": SPLITS, "renderers": RENDERERS}
    if cfg.what in ("all", "tasks"):
        lists = {"tasks": {name: task.title for name, task in sorted(TASKS.items())}} | lists
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
