"""Hours of play leave the program's memory where it was."""

import os
import time
from pathlib import Path

import pytest
from browser import browser_page, find_browser, program
from player import EPISODE

MINUTES = float(os.environ.get("REARRANGE_VIEW_MINUTES", "5"))
WARM_UP_S = 90.0  # until each kind of thing has been done
EVERY_S = 20.0  # one more episode, and a look at the memory
MOST_GROWTH = 0.05  # of what it was after the warm-up
KEYS = ("w", "a", "ArrowUp", "r", "ArrowLeft", "s", "d", "ArrowDown", "f", "ArrowRight", " ", "c")


def resident(pid):
    """MiB of a process in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.slow
def test_memory_stays_flat():
    """REARRANGE_VIEW_MINUTES of driving, new episodes, and an agent now and then."""
    find_browser()
    sizes, heaps = [], []
    with (
        program("task=pick", f"index={EPISODE}", "detail=0.3") as (process, port),
        browser_page(port) as page,
    ):
        begun, index = time.monotonic(), 0
        while time.monotonic() < begun + WARM_UP_S + 60.0 * MINUTES:
            episode_ends = time.monotonic() + EVERY_S
            while time.monotonic() < episode_ends:
                key = KEYS[index % len(KEYS)]
                page.keyboard.down(key)
                page.wait_for_timeout(300)
                page.keyboard.up(key)
                page.mouse.move(300 + 5 * (index % 40), 300)
                index += 1
            if len(sizes) % 5 == 4:
                page.evaluate("ask('drive', 'teacher')")
                page.wait_for_function("state.driver === 'teacher'", timeout=120_000)
                page.wait_for_timeout(2000)
                page.evaluate("ask('drive', 'you')")
                page.wait_for_function("state.driver === 'you'", timeout=120_000)
            page.keyboard.press("Enter")
            sizes.append((time.monotonic() - begun, resident(process.pid)))
            heaps.append(page.evaluate("performance.memory.usedJSHeapSize / 2 ** 20"))
    for (seconds, size), heap in zip(sizes, heaps, strict=True):
        print(f"{seconds:6.0f} s  {size:6.0f} MiB  page {heap:5.1f} MiB")
    warm = [size for seconds, size in sizes if seconds > WARM_UP_S]
    third = max(1, len(warm) // 3)
    first, last = (sum(part) / len(part) for part in (warm[:third], warm[-third:]))
    print(f"first third {first:.0f} MiB, last third {last:.0f} MiB")
    assert last < (1.0 + MOST_GROWTH) * first
    assert max(heaps) < 100.0
