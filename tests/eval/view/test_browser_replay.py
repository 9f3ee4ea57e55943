"""An evaluation seen again in a real browser, which has a file to itself: one is open at a time."""

from browser import browser_page, find_browser, program, wait_for_page
from evaluated import FAILURE, SUCCESS, real_record, write_evaluation


def test_an_evaluation_is_replayed_failures_first(tmp_path):
    find_browser()
    record = real_record()
    write_evaluation(tmp_path, record)
    with (
        program(f"run={tmp_path}", "detail=0.3") as (process, port),
        browser_page(process, port) as page,
    ):
        rows = page.locator("#evaluated li")
        assert [rows.nth(i).get_attribute("data-index") for i in range(2)] == [
            str(FAILURE),
            str(SUCCESS),
        ]
        assert record.result() in rows.first.inner_text()
        page.select_option("#speed", "8")
        wait_for_page(page, process, "state.result !== ''")
        page.wait_for_function("document.getElementById('message').innerText !== ''")
        assert page.inner_text("#message") == "As it was evaluated, to the step."
        rows.nth(1).click()
        page.wait_for_function(f"state.index === {SUCCESS} && !state.loading")
