"""The two halves of a step: what may be done in between, and what may not."""

import copy
import gc
import pickle
import threading
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError

import rearrange  # noqa: F401  (registers the ids)
from rearrange.errors import UserError
from tests.tasks.vector.test_home_vector_env import equal

LIMIT, N = 5, 4


def make(**more):
    homes = gymnasium.make_vec(
        "rearrange/Pick-v0", num_envs=N, vectorization_mode="vector_entry_point", camera_size=16,
        max_episode_steps=LIMIT, **({"threads": 2} | more),
    )  # fmt: skip
    homes.reset(seed=3)
    return homes


def drawn(seed):
    actions = np.random.default_rng(seed).uniform(-1.0, 1.0, (N, 11)).astype(np.float32)
    actions[:, -1] = -1.0  # no stop: the limit of time ends episodes
    return actions


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_halves_are_a_step_and_what_was_returned_stays_until_the_second(delay, mode):
    options = {"autoreset_mode": mode, "observation_delay": delay}
    halves, whole = make(copy=False, **options), make(**options)
    last = None
    for t in range(2 * LIMIT + 3):
        halves.step_async(drawn(t))
        if last is not None:
            given, kept = last
            for name, array in given.items():
                assert array.tobytes() == kept[name].tobytes()
        ours, theirs = halves.step_wait(), whole.step(drawn(t))
        equal(ours, theirs)
        last = ours[0], {name: array.copy() for name, array in ours[0].items()}
    halves.close(), whole.close()


def test_nothing_else_may_be_done_while_a_step_is_under_way():
    homes = make()
    state = homes.homes[0].get_state()
    with pytest.raises(NoAsyncCallError, match="step_async"):
        homes.step_wait()
    homes.step_async(drawn(0))
    for call in (
        partial(homes.step_async, drawn(1)), partial(homes.step, drawn(1)), homes.reset,
        partial(homes.set_state, 0, state), partial(copy.deepcopy, homes),
        partial(pickle.dumps, homes), partial(homes.call, "get_state"), homes.render,
        partial(homes.get_attr, "episode"), partial(homes.set_attr, "other", 1),
    ):  # fmt: skip
        with pytest.raises(AlreadyPendingCallError, match="step_wait"):
            call()
    after = homes.step_wait()
    same = make()
    equal(after, same.step(drawn(0)))
    homes.close(), same.close()


def test_a_wrong_action_begins_nothing():
    homes = make()
    with pytest.raises(UserError, match="finite"):
        homes.step_async(np.full((N, 11), np.nan))
    with pytest.raises(NoAsyncCallError):
        homes.step_wait()
    homes.step(drawn(0))
    homes.close()


@pytest.mark.parametrize("is_closed", [True, False])
def test_who_is_closed_or_forgotten_in_between_leaves_no_thread_at_work(is_closed):
    before = threading.active_count()
    homes = make(threads=3)
    homes.step_async(drawn(0))
    if is_closed:
        homes.close()
    del homes
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("helper_"):
            thread.join(10.0)
    assert threading.active_count() <= before


def test_a_closed_one_has_no_step_to_wait_for():
    homes = make()
    homes.step_async(drawn(0))
    homes.close()
    homes.close()
    with pytest.raises(NoAsyncCallError):
        homes.step_wait()


def test_a_step_ends_when_another_thread_closes_the_homes():
    homes, errors = make(threads=2), []

    def steps():
        try:
            while True:
                homes.step(drawn(0))
        except Exception as error:
            errors.append(error)

    stepping = threading.Thread(target=steps, daemon=True)
    stepping.start()
    while stepping.is_alive() and not errors and homes._begun is None:
        pass  # until a step is under way
    homes.close()
    stepping.join(20.0)
    assert not stepping.is_alive() and len(errors) == 1


@pytest.mark.parametrize("half", ["step_async", "step_wait"])
def test_who_is_interrupted_in_a_half_can_be_closed(half, monkeypatch):
    homes = make()
    call = homes._helpers.call

    def interrupted(job):
        call(job)
        raise KeyboardInterrupt

    if half == "step_async":
        monkeypatch.setattr(homes._helpers, "call", interrupted)
    else:
        monkeypatch.setattr(homes, "_shown", lambda: 1 / 0)
    with pytest.raises((KeyboardInterrupt, ZeroDivisionError)):
        homes.step(drawn(0))
    homes.close()
    assert not any(thread.is_alive() for thread in homes._helpers._threads)


def test_a_home_whose_reset_fails_does_not_keep_others_from_their_episode(monkeypatch):
    homes = make(autoreset_mode="Disabled")
    for t in range(LIMIT):
        *_, truncated, _ = homes.step(drawn(t))
    assert truncated.all()
    with monkeypatch.context() as patched:
        patched.setattr(homes.homes[0], "begin", lambda **_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            homes.reset(options={"reset_mask": np.array([True, True, False, False])})
    *_, truncated, _ = homes.step(drawn(0))
    assert truncated.tolist() == [True, False, True, True]
    homes.close()


def test_after_an_error_a_home_goes_on_with_what_it_saw_last(monkeypatch):
    homes, same = make(observation_delay=1), make(observation_delay=1)
    homes.step(drawn(0)), same.step(drawn(0))
    with monkeypatch.context() as patched:
        patched.setattr(homes.homes[1], "end_advance", lambda command: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            homes.step(drawn(1))
    seen = homes.step(drawn(2))[0]["joint"]
    assert seen[1].tobytes() == same.homes[1].current_observation["joint"].tobytes()
    homes.close(), same.close()
