"""A thousand spoiled PDDL files end in a plan or in one line, never in anything else."""

from pathlib import Path
from random import Random

import pytest

from rearrange.errors import UserError
from rearrange.planner.home.plan import solve
from rearrange.planner.home.problems import DOMAIN_PATH, task_problem

PDDL = Path(__file__).with_name("pddl")
NUM_MUTANTS = 1000
MAX_NODES = 300  # a spoiled goal can make the search long; its length is not what is tested here


def texts():
    """(domain, problem) of the home and of the classic domains."""
    home = task_problem(
        "home",
        {"bowl": "cab_push_point_5", "apple": "fridge"},
        {"TARGET_bowl": None, "TARGET_apple": "fridge"},
        [("bowl", "TARGET_bowl"), ("apple", "TARGET_apple")],
        {"cab_push_point_5": "closed", "fridge": "open"},
    )
    yield DOMAIN_PATH.read_text(), home
    for problem in ("gripper-4", "blocks-sussman", "logistics-2", "lights-3", "zoo-walk"):
        domain = problem.split("-")[0]
        yield (PDDL / f"{domain}.pddl").read_text(), (PDDL / f"{problem}.pddl").read_text()


def mutate(text, random):
    """The text with one accident: cut, reordered, misnamed, doubled, or a character gone wrong."""
    tokens = text.split(" ")
    spot, other = sorted(random.sample(range(len(tokens)), 2))
    lines = text.splitlines()
    match random.randrange(13):
        case 0:
            return text[: random.randrange(len(text))]
        case 1:
            return text[random.randrange(len(text)) :]
        case 2:
            start, end = sorted(random.sample(range(len(text)), 2))
            return text[:start] + text[end:]
        case 3:
            tokens[spot], tokens[other] = tokens[other], tokens[spot]
        case 4:
            tokens[spot] = tokens[other]
        case 5:
            tokens.insert(spot, tokens[other])
        case 6:
            del tokens[spot]
        case 7:
            tokens[spot] = random.choice(["nonsense", "?z", "object", ":goal", "and", "=", "-"])
        case 8:
            random.shuffle(lines)
            return "\n".join(lines)
        case 9:
            line = random.choice(lines)
            return "\n".join([line if random.random() < 0.1 else old for old in lines])
        case 10:
            position = random.randrange(len(text))
            character = random.choice("()?:;-=|\0\n\t\"'\\9é\N{SNOWMAN}")
            return text[:position] + character + text[position + random.randrange(2) :]
        case 11:
            start, end = sorted(random.sample(range(len(text)), 2))
            return text[:end] + text[start:]
        case 12:
            old, new = random.choice(text.split()).strip("()"), random.choice(tokens).strip("()")
            return text.replace(old, new, random.choice([1, -1])) if old else text
    return " ".join(tokens)


@pytest.mark.parametrize("part", range(10))
def test_mutated_files_give_a_plan_or_one_line(part, capfd):
    random = Random(part)
    originals = list(texts())
    solved = 0
    for _ in range(NUM_MUTANTS // 10):
        pair = list(random.choice(originals))
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            which = random.randrange(2)
            pair[which] = mutate(pair[which], random) or " "
        try:
            solve(*pair, max_nodes=MAX_NODES)
            solved += 1
        except UserError as error:
            message = str(error)
            assert message and "\n" not in message and len(message) < 500, message
    assert 0 < solved < NUM_MUTANTS // 10  # the mutants are neither harmless nor hopeless
    assert capfd.readouterr() == ("", "")
