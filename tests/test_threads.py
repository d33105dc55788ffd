"""Threads that wait: what the command line asks of OpenMP, and what the library says where cores are busy."""

import os
import subprocess
import sys
import warnings

import pytest

from regard import _threads

CODE = "from regard import _threads; import os; print(_threads.spin_briefly(), os.environ.get('GOMP_SPINCOUNT'))"


def run(code, **environment):
    quiet = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**quiet, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_spin_is_short_unless_the_user_has_said_otherwise():
    assert run(CODE) == f"True {_threads.TURNS}"
    assert run(CODE, GOMP_SPINCOUNT="7") == "False 7"
    assert run(CODE, OMP_WAIT_POLICY="ACTIVE") == "False None"


def test_it_is_too_late_once_torch_is_there():
    assert run("import torch; " + CODE) == "False None"


def test_the_command_line_sets_it_before_torch():
    code = (
        "import sys, os\nsys.argv = ['regard', 'list', 'scores']\nfrom regard.commands import main\n"
        "assert 'torch' not in sys.modules\nmain_done = False\n"
        "try: main()\nexcept SystemExit: pass\nprint(os.environ['GOMP_SPINCOUNT'])"
    )
    assert run(code).splitlines()[-1] == str(_threads.TURNS)


@pytest.mark.skipif(sys.platform != "linux", reason="only GNU's OpenMP spins so")
class TestNotice:
    @pytest.fixture(autouse=True)
    def fresh(self, monkeypatch):
        monkeypatch.setattr(_threads, "_warned", False)
        for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0))

    def test_busy_cores_are_named_once(self):
        with pytest.warns(UserWarning, match=r"99\.0 programs to run.*GOMP_SPINCOUNT"):
            _threads.notice_busy_cores(2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _threads.notice_busy_cores(2)

    @pytest.mark.parametrize(
        ("threads", "load", "environment"),
        [(1, 99.0, {}), (2, 0.1, {}), (2, 99.0, {"OMP_WAIT_POLICY": "passive"}), (2, 99.0, {"GOMP_SPINCOUNT": "9"})],
    )
    def test_nothing_is_said_where_nothing_is_lost(self, monkeypatch, threads, load, environment):
        monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _threads.notice_busy_cores(threads)
