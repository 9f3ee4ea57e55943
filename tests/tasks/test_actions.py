"""Action vectors."""

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.tasks.actions import ActionReader, action_slots
from rearrange.tasks.rules.names import TASKS


def test_sizes_of_the_spaces():
    """hab-spec 1.6, and Habitat 2.0's for the stationary ones."""
    assert {len(action_slots(task, "full")) for task in TASKS} == {11}
    sizes = {"navigate": 3, "pick": 10, "place": 10, "open_drawer": 11, "tidy_house": 11}
    assert {task: len(action_slots(task, "skill")) for task in sizes} == sizes
    sizes = {"navigate": 3, "pick": 8, "place": 8, "open_drawer": 9, "open_fridge": 11}
    assert {task: len(action_slots(task, "stationary")) for task in sizes} == sizes
    with pytest.raises(UserError, match="full, skill, stationary"):
        action_slots("pick", "all")


def test_an_action_is_clipped():
    command = ActionReader(action_slots("pick", "full")).read(np.linspace(-3.0, 3.0, 11))
    assert command.arm == pytest.approx([-1, -1, -1, -1, -0.6, 0, 0.6])
    assert (command.grip, command.base, command.stop) == (1.0, [1.0, 1.0], True)


def test_slots_that_a_space_lacks_do_nothing():
    command = ActionReader(action_slots("navigate", "skill")).read([0.5, -0.5, 1.0])
    assert command == ([0.0] * 7, None, [0.5, -0.5], True)
    command = ActionReader(action_slots("pick", "skill")).read(np.ones(10))
    assert not command.stop


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_action_must_be_finite(bad):
    action = np.zeros(11)
    action[9] = bad
    with pytest.raises(ValueError, match="finite numbers, got .* in slot 9"):
        ActionReader(action_slots("pick", "full")).read(action)


@pytest.mark.parametrize(
    "bad",
    [["1"] * 11, np.zeros(11, complex), [None] * 10 + [{}], np.zeros(11, "M8[s]"), [10**400] * 11],
)
def test_an_action_must_be_numbers(bad):
    with pytest.raises(UserError, match="action must be finite numbers"):
        ActionReader(action_slots("pick", "full")).read(bad)


@pytest.mark.parametrize("bad", [np.zeros(10), np.zeros((1, 11)), 0.0])
def test_an_action_must_have_its_shape(bad):
    with pytest.raises(ValueError, match="shape"):
        ActionReader(action_slots("pick", "full")).read(bad)
