"""`rearrange passport`: trained skills on the same episodes in MuJoCo and in habitat-lab."""

from pathlib import Path

from rearrange.commands.settings import load
from rearrange.configs.exchange import PassportCfg
from rearrange.configs.schema import EvaluateCfg
from rearrange.errors import UserError
from rearrange.eval.habitat.client import check_python
from rearrange.eval.habitat.lab.tasks import STOCK_TASKS
from rearrange.eval.habitat.passport import (
    SIMULATORS,
    TaskPassport,
    passport_json,
    passport_page,
    passport_table,
    task_passport,
)
from rearrange.eval.missing_episodes import print_line
from rearrange.habitat.dataset import SUMMARY, export
from rearrange.system.files import user_path
from rearrange.system.outputs import atomic_write_json, atomic_write_text, prepare_folder
from rearrange.tasks.episodes.files import check_num_episodes
from rearrange.tasks.rules.names import HOME_TASKS

_ACTS = {True: ["agent=learned"], False: ["agent=tp_srl", "looks=none"]}  # by: is it a skill's?


def run(cfg: PassportCfg) -> int:
    """Evaluates each task in both simulators. Raises UserError for what is missing."""
    for names, kind, known in (
        (cfg.skills, "skills", [name for name in STOCK_TASKS if name not in HOME_TASKS]),
        (cfg.tasks, "tasks", [name for name in STOCK_TASKS if name in HOME_TASKS]),
    ):
        for name in names:
            if name not in known:
                raise UserError(f"{kind} must be among {', '.join(known)}; got {name}")
    for number in (cfg.num_episodes, cfg.num_task_episodes):
        check_num_episodes(number)
    python, folder = check_python(cfg.habitat.python), user_path(cfg.output)
    prepare_folder(folder)
    wanted = ((cfg.skills, cfg.num_episodes), (cfg.tasks, cfg.num_task_episodes))
    data = cfg.habitat.data
    if data is None:
        data = str(folder / "data")
        for names, number in wanted:
            if names:
                export(Path(data), cfg.split, names, number, cfg.seed)
    elif not (user_path(data) / SUMMARY).is_file():
        raise UserError(f"habitat.data must be an export of ours (it has {SUMMARY}), got {data}")
    found: list[TaskPassport] = []
    for task, number in [(task, number) for names, number in wanted for task in names]:
        cfgs: dict[str, EvaluateCfg] = {}
        for name in SIMULATORS:
            words = [
                f"task={task}", *_ACTS[task in cfg.skills], f"split={cfg.split}",
                f"seed={cfg.seed}", f"num_episodes={number}", f"num_workers={cfg.num_workers}",
                f"record={cfg.record}", f"output_dir={folder / f'{task}-{name}'}",
                f"backend={name}",
            ]  # fmt: skip
            if name == "habitat":
                words += [f"habitat.python={python}", f"habitat.data={data}",
                          f"habitat.base={cfg.habitat.base}"]  # fmt: skip
            cfgs[name] = load("evaluate", words)
        found.append(task_passport(cfgs, min(cfg.num_resets, number), print_line))
    atomic_write_json(folder / "passport.json", passport_json(found))
    atomic_write_text(folder / "passport.html", passport_page(found, folder))
    print(f"\n{passport_table(found)}\n\npassport: {folder / 'passport.html'}")
    return 0
