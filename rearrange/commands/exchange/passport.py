"""`rearrange passport`: trained skills on the same episodes in MuJoCo and in habitat-lab."""

from pathlib import Path

from rearrange.commands.settings import load
from rearrange.configs.exchange import PassportCfg
from rearrange.configs.schema import EvaluateCfg
from rearrange.errors import UserError
from rearrange.eval.habitat.client import check_python
from rearrange.eval.habitat.passport import (
    SIMULATORS,
    SkillPassport,
    passport_json,
    passport_page,
    passport_table,
    skill_passport,
)
from rearrange.eval.habitat.tasks import STOCK_TASKS
from rearrange.eval.missing_episodes import print_line
from rearrange.habitat.dataset import export
from rearrange.system.files import user_path
from rearrange.system.outputs import atomic_write_json, atomic_write_text, prepare_folder


def run(cfg: PassportCfg) -> int:
    """Evaluates each skill in both simulators. Raises UserError for what is missing."""
    for skill in cfg.skills:
        if skill not in STOCK_TASKS:
            raise UserError(f"skills must be among {', '.join(STOCK_TASKS)}; got {skill}")
    python, folder = check_python(cfg.habitat.python), user_path(cfg.output)
    prepare_folder(folder)
    data = cfg.habitat.data
    if data is None:
        data = str(folder / "data")
        export(Path(data), cfg.split, cfg.skills, cfg.num_episodes, cfg.seed)
    found: list[SkillPassport] = []
    for skill in cfg.skills:
        cfgs: dict[str, EvaluateCfg] = {}
        for name in SIMULATORS:
            words = [
                f"task={skill}", "agent=learned", f"split={cfg.split}", f"seed={cfg.seed}",
                f"num_episodes={cfg.num_episodes}", f"num_workers={cfg.num_workers}",
                f"record={cfg.record}", f"output_dir={folder / f'{skill}-{name}'}",
                f"backend={name}",
            ]  # fmt: skip
            if name == "habitat":
                words += [f"habitat.python={python}", f"habitat.data={data}"]
            cfgs[name] = load("evaluate", words)
        found.append(skill_passport(cfgs, min(cfg.num_resets, cfg.num_episodes), print_line))
    atomic_write_json(folder / "passport.json", passport_json(found))
    atomic_write_text(folder / "passport.html", passport_page(found, folder))
    print(f"\n{passport_table(found)}\n\npassport: {folder / 'passport.html'}")
    return 0
