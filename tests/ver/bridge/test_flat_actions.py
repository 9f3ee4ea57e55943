"""Actions made of parts, against Gymnasium's own word on what a space contains."""

import numpy as np
import pytest
from gymnasium import spaces

from rearrange.errors import UserError
from rearrange.ver.bridge.flat_actions import flat_actions
from rearrange.ver.workers.spaces import action_spec

REAL = spaces.Dict(
    {
        "arm": spaces.Box(np.float32([-1.0, -0.1]), np.float32([2.0, 0.7])),
        "count": spaces.Box(0, 9, (2, 2), np.int32),
        "grip": spaces.Discrete(3, start=-1),
        "parts": spaces.Tuple([spaces.MultiBinary((2, 3)), spaces.MultiDiscrete([[2], [5]])]),
    }
)
CHOICES = spaces.Tuple(
    [spaces.Discrete(4), spaces.Dict({"use": spaces.MultiBinary(2), "turn": spaces.Discrete(3)})]
)


@pytest.mark.parametrize(("space", "kind", "size"), [(REAL, "box", 15), (CHOICES, "discrete", 4)])
def test_whatever_the_policy_says_is_an_action_of_the_space(space, kind, size):
    flat, rebuilt = flat_actions(space)
    spec = action_spec(flat)
    assert (spec.kind, spec.size) == (kind, size)
    rng = np.random.default_rng(0)
    for scale in (0.5, 1.0, 3.0):  # beyond the bounds too
        for _ in range(50):
            action = rng.uniform(-scale, scale, size).astype(np.float32)
            if kind == "discrete":
                action = rng.integers(spec.num_choices)
            assert space.contains(rebuilt(spec.to_env(action)))


def test_parts_come_back_in_their_places():
    flat, rebuilt = flat_actions(REAL)
    action = action_spec(flat).to_env(np.linspace(-1.0, 1.0, 15, dtype=np.float32))
    parts = rebuilt(action)
    assert parts["arm"].tolist() == pytest.approx([-1.0, 0.1 * -1 + 0.8 / 14], abs=1e-6)
    assert parts["count"].tolist() == [[1, 2], [3, 3]]  # 9 k / 14 of k = 2 to 5
    assert parts["grip"] == 0  # -1 + 2 * 6 / 14
    assert parts["parts"][0].tolist() == [[0, 1, 1], [1, 1, 1]]  # k / 14 of k = 7 to 12, rounded
    assert parts["parts"][1].tolist() == [[1], [4]]


def test_other_spaces_stay_and_what_has_no_numbers_is_refused():
    box = spaces.Box(-1.0, 1.0, (2,))
    flat, rebuilt = flat_actions(box)
    assert flat is box and rebuilt(3) == 3
    with pytest.raises(UserError, match="got Text"):
        flat_actions(spaces.Dict({"say": spaces.Text(5), "arm": box}))
    with pytest.raises(UserError, match="got an empty Dict"):
        flat_actions(spaces.Dict({}))
