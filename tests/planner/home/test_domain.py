"""What skills of other packages add to the home's planning domain, and whose mistakes are whose."""

from dataclasses import replace

import pytest

from rearrange.errors import UserError
from rearrange.planner.home.domain import DOMAINS, task_domain
from rearrange.planner.home.problems import DOMAIN_PATH, home_domain
from rearrange.skills.definition import SKILLS
from rearrange.tasks.rules.definition import TASKS

PREDICATES = "(pressed ?c - cab)"
ACTIONS = """(:action press
    :parameters (?c - cab ?r - robot)
    :precondition (robot_at ?c ?r)
    :effect (pressed ?c))"""


@pytest.fixture
def domain_with(monkeypatch):
    """domain_with(predicates, actions): of a task with a skill that adds these."""
    for registry in (TASKS, SKILLS, DOMAINS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))

    def domain(predicates, actions):
        task_domain.cache_clear()
        skill = replace(
            SKILLS["open_drawer"], name="press", operators={}, predicates=predicates,
            actions=actions,
        )  # fmt: skip
        SKILLS.add("press", skill)
        pressing = replace(
            TASKS["tidy_house"], name="pressing", env_id="test/Pressing-v0",
            skills=("navigate", "press", "pick"),
        )  # fmt: skip
        TASKS._entries["pressing"] = pressing
        return task_domain("pressing")

    yield domain
    task_domain.cache_clear()


def test_a_skill_adds_its_predicates_and_actions(domain_with):
    ours, domain = home_domain(), domain_with(PREDICATES, ACTIONS)
    assert set(domain.actions) - set(ours.actions) == {"press"}
    assert set(domain.predicates) - set(ours.predicates) == {"pressed"}


@pytest.mark.parametrize(
    "written",
    [
        lambda text: text + " ; the end (of it)",
        lambda text: text.replace("(:predicates", "( :Predicates"),
        lambda text: "; its (:predicates come later\n" + text,
    ],
    ids=["comment at the end", "space and capital", "comment before"],
)
@pytest.mark.parametrize("comment", ["", " ; (mine)"])
def test_a_domain_is_added_to_however_it_is_written(domain_with, written, comment, tmp_path):
    own = tmp_path / "own.pddl"
    own.write_text(written(DOMAIN_PATH.read_text()))
    DOMAINS._entries["home"] = replace(DOMAINS["home"], pddl=own)
    domain = domain_with(PREDICATES + comment, ACTIONS.replace("\n", " ") + comment)
    assert set(domain.actions) - set(home_domain().actions) == {"press"}
    assert set(domain.predicates) - set(home_domain().predicates) == {"pressed"}


@pytest.mark.parametrize(
    ("predicates", "actions", "said"),
    [
        (PREDICATES, ACTIONS[:-1], "the actions of skill press, line 1: this ( is never closed"),
        ("", ACTIONS, "the actions of skill press, line 4: predicate pressed is not declared"),
        (PREDICATES, ACTIONS.replace("?r - robot", "?r - robto"),
         "the actions of skill press, line 2: type robto is not declared"),
        ("(pressed ?c - cab", ACTIONS, "the predicates of skill press, line 1: this ( is never"),
        ("\n(opened_cab ?c - cab)", ACTIONS, "the predicates of skill press, line"),
    ],
    ids=["not closed", "not declared", "no such type", "predicate not closed", "declared twice"],
)  # fmt: skip
def test_a_mistake_in_a_skills_pddl_is_told_of_the_skill(domain_with, predicates, actions, said):
    with pytest.raises(UserError) as error:
        domain_with(predicates, actions)
    assert said.replace("`", "") in str(error.value).replace("`", "")
