"""Every number of the slots has a place of its own, in memory that another process sees."""

import multiprocessing

import numpy as np
from gymnasium import spaces

from rearrange.ver.workers.shared_memory import SlotLayout, StepSlots
from rearrange.ver.workers.spaces import action_spec, observation_spec

SPACE = spaces.Dict(
    {"image": spaces.Box(0, 255, (3, 5, 1), np.uint8), "arm": spaces.Box(-1.0, 1.0, (7,))}
)
LAYOUT = SlotLayout(
    3, observation_spec(SPACE), action_spec(spaces.Box(-1.0, 1.0, (2,))), num_infos=0
)


def arrays_of(slots):
    own = {name: getattr(slots, name) for name in LAYOUT.arrays() if "/" not in name}
    return list((own | {f"o/{k}": v for k, v in slots.observation.items()}).values()) + list(
        slots.final.values()
    )


def fill(slots, offset):
    for number, array in enumerate(arrays_of(slots)):
        array[...] = number + offset


def test_no_array_reaches_into_another():
    slots = StepSlots.allocate(LAYOUT)
    assert not any(array.any() for array in arrays_of(slots))
    fill(slots, 1)
    for number, array in enumerate(arrays_of(slots), start=1):
        assert (array == number).all() and array.shape[0] == 3
        assert array.ctypes.data % array.dtype.itemsize == 0


def _in_child(layout, memory):
    fill(StepSlots(layout, memory), 50)


def test_another_process_writes_into_the_same_memory():
    context = multiprocessing.get_context("fork")
    slots = StepSlots.allocate(LAYOUT, context)
    child = context.Process(target=_in_child, args=(LAYOUT, slots.memory))
    child.start()
    child.join(10.0)
    for number, array in enumerate(arrays_of(slots), start=50):
        assert (array == number).all()


def test_a_message_keeps_its_end_and_replaces_the_one_before():
    slots = StepSlots.allocate(LAYOUT)
    slots.set_message(1, "ä" * 9000 + "the end")
    assert slots.get_message(1).endswith("ä" * 1900 + "the end")
    slots.set_message(1, "short")
    assert [slots.get_message(e) for e in range(3)] == ["", "short", ""]


def test_numbers_keep_their_size():
    slots = StepSlots.allocate(LAYOUT)
    slots.reward[1], slots.episode_number[2] = 1.0 + 2.0**-40, 2**40
    assert slots.reward[1] == 1.0 + 2.0**-40 and slots.episode_number[2] == 2**40
    assert slots.infos.shape == (3, 0) and slots.action.dtype == np.float32
