"""Threads that wait: what the command line asks of OpenMP, and what the library says where cores are busy."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what others use")
class TestSpareCores:
    @pytest.fixture(autouse=True)
    def two_cores(self, monkeypatch):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
        monkeypatch.setattr(_threads, "allowed_cores", lambda: 2.0)

    def used(self, monkeypatch, cores, own, seconds=1.0):
        """Over ``seconds`` the two cores were busy for ``cores`` seconds, ``own`` of them with this process."""
        monkeypatch.setattr(_threads, "_before", _threads._Used(100.0, 50.0, 3.0))
        monkeypatch.setattr(_threads, "_used", lambda: _threads._Used(100.0 + seconds, 50.0 + cores, 3.0 + own))

    @pytest.mark.parametrize(
        ("cores", "own", "spare", "threads"),
        [(1.0, 1.0, 2.0, 2), (2.0, 0.1, 0.1, 1), (1.4, 0.5, 1.1, 1), (0.3, 0.0, 1.7, 2)],
    )
    def test_what_others_use_is_not_ours(self, monkeypatch, cores, own, spare, threads):
        self.used(monkeypatch, cores, own)
        assert _threads.spare_cores() == pytest.approx(spare)
        self.used(monkeypatch, cores, own)
        assert _threads.threads_to_spare(2) == threads

    def test_the_user_s_own_word_counts(self, monkeypatch):
        self.used(monkeypatch, 2.0, 0.0)
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        assert _threads.threads_to_spare(2) == 2

    def test_an_old_reading_is_taken_again(self, monkeypatch):
        readings = iter([_threads._Used(1000.0, 60.0, 0.0), _threads._Used(1000.2, 60.2, 0.0)])
        monkeypatch.setattr(_threads, "_before", _threads._Used(0.0, 0.0, 0.0))
        monkeypatch.setattr(_threads, "_used", lambda: next(readings))
        assert _threads.spare_cores() == pytest.approx(1.0)

    def test_where_the_kernel_does_not_tell_all_cores_are_spare(self, monkeypatch):
        monkeypatch.setattr(_threads, "_used", lambda: None)
        assert _threads.spare_cores() == 2.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has control groups")
def test_a_container_s_quota_bounds_its_cores(monkeypatch):
    files = {"/sys/fs/cgroup/cpu.max": "150000 100000\n"}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))

    def read(self, **_):
        if str(self) not in files:
            raise FileNotFoundError(self)
        return files[str(self)]

    monkeypatch.setattr(Path, "read_text", read)
    assert _threads.allowed_cores() == 1.5
    files["/sys/fs/cgroup/cpu.max"] = "max 100000\n"
    assert _threads.allowed_cores() == 8
    files |= {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}
    assert _threads.allowed_cores() == 8


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what others use")
def test_a_real_busy_loop_is_seen():
    loop = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    busy = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(len(os.sched_getaffinity(0)))]
    try:
        code = "from regard import _threads; import time; time.sleep(0.5); print(_threads.threads_to_spare(64))"
        environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).strip() == "1"
    finally:
        for each in busy:
            each.kill()
            each.wait()
