"""A few of the fuzzing harness's cases; FUZZ_CASES=100000 runs more of them."""

import os

from fuzz import fuzz
from fuzz_cases import Sample, samples

CASES = int(os.environ.get("FUZZ_CASES", "150"))


def test_damaged_input_is_taken_or_refused_in_one_line(tmp_path):
    failures = fuzz(CASES, 0, tmp_path)
    assert not failures, "\n".join(f"{f.case} {f.kind}: {f.what}" for f in failures[:5])


def test_every_sample_is_sound_as_it_is(tmp_path):
    for sample in samples(tmp_path):
        sample.parse(sample.content)


def test_a_traceback_is_found(tmp_path):
    kinds = [Sample("numbers", b"12", lambda content: int(content))]
    assert fuzz(20, 0, tmp_path, kinds)
