"""Hours of play leave the program's memory where it was."""

import os
import time
from pathlib import Path

import pytest
from browser import browser_page, find_browser, program, wait_for_page
from player import EPISODE

MINUTES = float(os.environ.get("REARRANGE_VIEW_MINUTES", "5"))
MOVES = 60  # in an episode, each of a key held for 0.3 s
AGENT_EVERY = 5  # episodes: then an agent takes over for a while
WARM_UP = AGENT_EVERY  # episodes, until each kind of thing has been done
LEAST = 6  # episodes after it, however slow the machine
MOST_GROWTH = 0.05  # of what it was after the warm-up
KEYS = ("w", "a", "ArrowUp", "r", "ArrowLeft", "s", "d", "ArrowDown", "f", "ArrowRight", " ", "c")


def resident(pid):
    """MiB of a process in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def hand_over(page, process, driver):
    """Somebody else drives, as soon as the machine gets to it."""
    page.evaluate("driver => ask('drive', driver)", driver)
    wait_for_page(page, process, f"state.driver === '{driver}' && !state.loading")


def play(page, first_key):
    """An episode's worth of keys."""
    for index in range(first_key, first_key + MOVES):
        key = KEYS[index % len(KEYS)]
        page.keyboard.down(key)
        page.wait_for_timeout(300)
        page.keyboard.up(key)
        page.mouse.move(300 + 5 * (index % 40), 300)


@pytest.mark.slow
def test_memory_stays_flat():
    """REARRANGE_VIEW_MINUTES of driving, new episodes, and an agent now and then."""
    find_browser()
    sizes, heaps = [], []
    with (
        program("task=pick", f"index={EPISODE}", "detail=0.3") as (process, port),
        browser_page(process, port) as page,
    ):
        begun, warm_since = time.monotonic(), None
        while len(sizes) < WARM_UP + LEAST or time.monotonic() < warm_since + 60.0 * MINUTES:
            episode = len(sizes) + 1
            play(page, MOVES * episode)
            if episode % AGENT_EVERY == 0:
                hand_over(page, process, "teacher")
                steps = page.evaluate("state.steps")
                wait_for_page(page, process, f"state.steps > {steps} + 60 || state.result")
                hand_over(page, process, "you")
            page.keyboard.press("Enter")
            wait_for_page(page, process, f"state.index === {EPISODE + episode} && !state.loading")
            sizes.append((time.monotonic() - begun, resident(process.pid)))
            heaps.append(page.evaluate("performance.memory.usedJSHeapSize / 2 ** 20"))
            if episode == WARM_UP:
                warm_since = time.monotonic()
    for (seconds, size), heap in zip(sizes, heaps, strict=True):
        print(f"{seconds:6.0f} s  {size:6.0f} MiB  page {heap:5.1f} MiB")
    warm = [size for _, size in sizes[WARM_UP:]]
    third = max(1, len(warm) // 3)
    first, last = (sum(part) / len(part) for part in (warm[:third], warm[-third:]))
    print(f"first third {first:.0f} MiB, last third {last:.0f} MiB")
    assert last < (1.0 + MOST_GROWTH) * first
    assert max(heaps) < 100.0
