"""`rearrange export-skill`: the newest checkpoint of a training run as one small skill file."""

from pathlib import Path

from rearrange.configs.schema import ExportSkillCfg
from rearrange.errors import UserError
from rearrange.eval.files import atomic_write_bytes
from rearrange.skills.skill_files import read_skill, skill_bytes, skill_of_run
from rearrange.tasks.registry import SKILL_TASKS

MEGABYTE = 1_000_000


def run(cfg: ExportSkillCfg) -> int:
    """Writes the file, reads it back and says what it holds.

    Raises UserError for a folder without a skill of the home, and for a file that gets too large.
    """
    run_dir, output = Path(cfg.run).expanduser(), Path(cfg.output).expanduser()
    if not run_dir.is_dir():
        raise UserError(f"there is no folder {run_dir} of a training run")
    skill = skill_of_run(run_dir)
    names = {gym_id: name for name, gym_id in SKILL_TASKS.items()}
    if skill.env_id not in names:
        raise UserError(f"{run_dir} holds no skill of the home, it was trained in {skill.env_id}")
    content = skill_bytes(skill)
    size = len(content) / MEGABYTE
    if size > cfg.max_megabytes:
        raise UserError(
            f"the skill would take {size:.1f} MB, more than max_megabytes={cfg.max_megabytes:g}"
        )
    atomic_write_bytes(output, content)
    back = read_skill(output)
    print(f"{names[back.env_id]} after {back.origin['steps']} steps: {output}, {size:.1f} MB")
    return 0
