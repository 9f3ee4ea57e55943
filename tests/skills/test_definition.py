"""The skills of the package, each whole in one definition."""

import pytest
import yaml

from rearrange.errors import UserError
from rearrange.planner.home.problems import home_domain
from rearrange.skills.definition import SKILLS, SkillDefinition, skill_for
from rearrange.skills.deployed.deployment import rules_of
from rearrange.system.registry import resolved
from rearrange.tasks.rules.definition import TASKS


@pytest.mark.parametrize("name", SKILLS)
def test_what_a_definition_names_is_there(name):
    skill = SKILLS[name]
    assert skill.name == name and not TASKS[skill.task].is_planned
    assert yaml.safe_load(skill.recipe.read_text())["recipes"]
    for part in (skill.program, skill.teacher, skill.step, skill.reach):
        assert part is None or callable(resolved(part))
    assert rules_of(name).may_stop is not None


def test_every_action_of_the_home_is_one_skills():
    carried_out = [name for skill in SKILLS.values() for name in skill.operators]
    assert sorted(carried_out) == sorted(home_domain().actions)


def test_the_skill_of_a_task_is_found_and_a_home_has_none():
    assert skill_for("open_fridge") is SKILLS["open_fridge"]
    with pytest.raises(ValueError, match="no single skill solves task 'tidy_house'"):
        skill_for("tidy_house")


def test_a_skill_without_a_teacher_says_how_it_is_trained():
    skill = SkillDefinition(name="a", task="pick", recipe=None, program=print)
    with pytest.raises(UserError, match="^skill a has no teacher to imitate"):
        skill.start_teacher(None, None)
