"""The doctor finds what does not work, and says what to do about it."""

import json

from rearrange.commands import doctor
from rearrange.configs.benches import DoctorCfg


def test_programs_that_crash_hang_or_fail_are_findings_not_ends():
    assert doctor._try("print('a'); print('b')", 10.0) == (True, "b")
    works, why = doctor._try("raise ValueError('no driver')", 10.0)
    assert not works and why == "ValueError: no driver"
    works, why = doctor._try("import os; os.kill(os.getpid(), 11)", 10.0)
    assert (works, why) == (False, "crashed with signal 11")
    works, why = doctor._try("while True: pass", 0.3)
    assert (works, why) == (False, "no answer in 0.3 s")


def test_missing_package_is_needed_and_missing_renderer_is_not(monkeypatch, tmp_path, capsys):
    def renderer(name, timeout_s):
        is_plain = name == "plain"
        return doctor.Finding(f"renderer {name}", "", is_plain, is_plain, "install it")

    monkeypatch.setattr(doctor, "_renderer", renderer)
    monkeypatch.setattr(doctor, "_gpu", lambda timeout_s: doctor.Finding("GPU", "none"))
    output = tmp_path / "doctor.json"
    assert doctor.run(DoctorCfg(output=str(output))) == 0
    assert "renderer warp (if you want it): install it" in capsys.readouterr().out
    monkeypatch.setattr(doctor, "PACKAGES", ("mujoco", "surely-not-a-package"))
    assert doctor.run(DoctorCfg(output=str(output))) == 1
    assert "FIX  surely-not-a-package" in capsys.readouterr().out
    found = {finding["name"]: finding for finding in json.loads(output.read_text())["findings"]}
    assert found["mujoco"]["is_good"] and not found["surely-not-a-package"]["is_good"]
    assert found["disk here"]["value"].endswith("GiB free")


def test_plain_renderer_is_found_working():
    assert doctor._renderer("plain", 120.0).is_good
