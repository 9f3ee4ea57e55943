"""The page as people use it, in a real browser: load, drive, pick something up."""

import time

import pytest
from browser import browser_page, find_browser, program
from player import EPISODE, Player

MOST_S = 60.0  # of the robot's clock
SETTLE = 8  # steps of 1/30 s
PATIENCE_S = 1200.0  # a busy machine is slower than the robot


@pytest.fixture(scope="module")
def page():
    find_browser()
    with (
        program("task=pick", f"index={EPISODE}", "detail=0.3") as (process, port),
        browser_page(process, port) as page,
    ):
        yield page


def colours(page):
    """How many different pixels the picture has in a coarse grid."""
    return page.evaluate(
        """() => {
            const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
            const seen = new Set();
            for (let i = 0; i < pixels.length; i += 4 * 997)
                seen.add(pixels.slice(i, i + 3).join());
            return seen.size;
        }"""
    )


def test_the_page_says_what_to_do_and_shows_the_home(page):
    words = page.inner_text("#instruction")
    assert words.startswith("Pick up the master chef can on the table")
    assert page.inner_text("#big") == "Press a key that moves the robot to begin"
    assert colours(page) > 50
    assert "suction on, off" in page.inner_text("#help")


def test_a_drag_turns_the_camera_and_not_the_robot(page):
    before = page.evaluate("[state.number, canvas.toDataURL()]")
    box = page.locator("#view").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 200, y, steps=4)
    page.mouse.up()
    page.wait_for_function(f"state.number > {before[0]} + 3")
    assert page.evaluate("canvas.toDataURL()") != before[1]
    assert page.evaluate("state.clock") == 0.0


def look(page):
    """What is shown when all is let go and the arm has come to rest; then the clock stands.

    A busy machine may take seconds for a picture. Nobody would wait for it with the clock running.
    """
    steps = page.evaluate("state.steps")
    page.wait_for_function(f"state.steps >= {steps + SETTLE} || state.result !== ''")
    page.keyboard.press("p")
    page.wait_for_function("state.is_paused || state.result !== ''")
    state = page.evaluate("state")
    page.keyboard.press("p")
    page.wait_for_function("!state.is_paused || state.result !== ''")
    return state


def test_a_scripted_player_picks_the_thing_up_by_keys_within_a_minute(page):
    player, begun = Player(), time.monotonic()
    state = page.evaluate("state")
    while not state["result"] and time.monotonic() < begun + PATIENCE_S:
        move = player.move(state)
        for key in move.pressed:
            page.keyboard.press(key)
        for key in move.held:
            page.keyboard.down(key)
        page.wait_for_timeout(1000 * move.seconds)
        for key in move.held:
            page.keyboard.up(key)
        state = look(page)
    print(f"{state['clock']} s of the robot, {time.monotonic() - begun:.1f} s on this machine")
    assert state["result"] == "success"
    assert state["clock"] < MOST_S
    page.wait_for_function("document.getElementById('big').innerText === 'Done!'")


def test_the_next_episode_comes_with_enter(page):
    page.keyboard.press("Enter")
    page.wait_for_function(f"state.index === {EPISODE + 1} && !state.loading")
    page.wait_for_function("!state.is_started")
    assert page.input_value("#episode") == str(EPISODE + 1)


def test_sensors_and_plots_are_drawn(page):
    page.keyboard.down("w")
    page.wait_for_function("state.steps > 10")
    page.keyboard.up("w")
    rows = page.locator("#vectors tr")
    assert "joint" in rows.first.inner_text()
    assert "head_depth" in page.inner_text("#pictures")
    drawn = """id => new Set(document.getElementById(id).getContext("2d")
        .getImageData(0, 0, 420, 110).data).size > 3"""
    assert page.evaluate(drawn, "force") and page.evaluate(drawn, "rewards")
    assert "progress" in page.inner_text("#rewards + .legend")
