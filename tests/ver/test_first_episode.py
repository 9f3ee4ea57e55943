"""`first_episode`: where a training's episodes begin, and stay when it is stopped and resumed."""

import pytest
from fake_env import FakeEnv

from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.workers.environment_worker import episode_seed
from tests.ver.test_trainer import E, S, trainer


@pytest.mark.parametrize("mode", ["ver", "batched"])
def test_a_training_begins_with_the_episode_it_is_told_to(tmp_path, mode):
    first, seen = 5_000_000, []

    class Listing(FakeEnv):
        def reset(self, *, seed=None, options=None):
            seen.append((self.index, seed))
            return super().reset(seed=seed, options=options)

    settings = {"mode": mode, "serial": mode == "ver", "first_episode": first}
    trainer(tmp_path, 4, Listing, after=2, **settings).run()
    trainer(tmp_path, 4, Listing, resume="auto", **settings).run()
    seen = [one for one in dict.fromkeys(seen) if one[1] != 3]  # what tries the environment has
    for env in range(E):
        seeds = [seed for e, seed in seen if e == env]
        assert len(seeds) > 2
        assert seeds == [episode_seed(3, env, first + number) for number in range(len(seeds))]


@pytest.mark.parametrize("first", [0, 5_000_000])
def test_a_training_stopped_before_any_answer_keeps_its_first_episode(tmp_path, first):
    """Its environments, in other processes, have mostly not said yet which episode they are in."""
    stopped = trainer(tmp_path, first_episode=first)
    stopped.request_stop()
    stopped.run()
    kept = load_newest(tmp_path / "checkpoints").manifest["snapshot"]["episode_numbers"]
    assert all(number in (first - 1, first) for number in kept)  # in none, or in the first one
    trainer(tmp_path, resume="auto", first_episode=first).run()
    kept = load_newest(tmp_path / "checkpoints").manifest["snapshot"]["episode_numbers"]
    # Others may have filled the rollouts before a slow process has begun its first episode.
    assert all(first - 1 <= number < first + S for number in kept) and max(kept) > first
