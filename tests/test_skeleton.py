"""Set-up: what `make` does on machines that are not this one, played with stand-ins for Python and pip."""

import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"

pytestmark = pytest.mark.skipif(
    os.name != "posix" or not shutil.which("make"), reason="the Makefile is for Unix shells"
)

# Stands for the Python of a new .venv: writes down what pip is asked for, and fails where the test says so.
# It sleeps in short naps, since a shell runs its trap only when the command in front has ended.
VENV_PYTHON = """#!/bin/sh
trap 'exit 1' INT # as pip does
case "$*" in
    *"import pip"*) exit 0 ;;
    *importlib.metadata*) grep -q 'torch==' "$LOG" ;;
    "- "*) cat >/dev/null; [ "${CPU_INDEX_ANSWERS:-yes}" = yes ] ;;
    *"pip"*install*)
        echo "$*" >>"$LOG"
        case "$*" in *"${SLEEP_ON:-nothing}"*) touch "$LOG.sleeping"; for _ in $(seq 300); do sleep 0.1; done ;; esac
        case "$*" in *"${FAIL_ON:-nothing}"*) exit 1 ;; esac ;;
esac
"""

# Stands for the machine's Python: answers who it is, and creates the .venv.
PYTHON = f"""#!/bin/sh
case "$1" in
    -c) echo "3.12 able" ;;
    -m) echo "venv $3" >>"$LOG"; mkdir -p .venv/bin; cat >.venv/bin/python <<'END'
{VENV_PYTHON}
END
    chmod +x .venv/bin/python ;;
esac
"""


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    """A copy of the set-up files, a `uname` that says Linux, and a Python 3.12 that is a stand-in."""
    (tmp_path / "clone" / "tools").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "tools/setup.sh"):
        shutil.copy(ROOT / name, tmp_path / "clone" / name)
    for missing in ("python3.13", "python3.11", "python3"):
        program(tmp_path / "bin" / missing, "#!/bin/sh\nexit 127\n")
    program(tmp_path / "bin/python3.12", PYTHON)
    program(tmp_path / "bin/uname", "#!/bin/sh\necho ${SYSTEM:-Linux}\n")
    return Machine(tmp_path)


class Machine:
    def __init__(self, home):
        self.clone, self.bin, self.log = home / "clone", home / "bin", home / "log"
        self.log.touch()

    def start(self, *command, **environment):
        quiet = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("MAKE", "PYTHON", "TORCH_INDEX", "MFLAGS", "REGARD"))
        }
        path = f"{self.bin}:/usr/bin:/bin"
        return subprocess.Popen(
            command,
            cwd=self.clone,
            env={**quiet, "PATH": path, "LOG": str(self.log), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *command, **environment):
        process = self.start(*command, **environment)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def make(self, target="demo", **environment):
        return self.run("make", f".venv/.ready-{target}", **environment)

    def installs(self):
        return [line for line in self.log.read_text().splitlines() if " install " in line]

    def ready(self, target="demo"):
        return (self.clone / f".venv/.ready-{target}").exists()


def answer(machine, name, text):
    """Put a Python on the machine that describes itself as ``text``."""
    program(machine.bin / name, f"#!/bin/sh\necho '{text}'\n")


def find(machine, **environment):
    return machine.run("sh", "tools/setup.sh", "python", **environment)


class TestWhichPython:
    def test_the_newest_that_runs(self, machine):
        answer(machine, "python3", "3.14 able")
        answer(machine, "python3.11", "3.11 able")
        assert find(machine) == (0, "python3.12\n")

    def test_the_plain_name_where_there_is_no_other(self, machine):
        (machine.bin / "python3.12").write_text("#!/bin/sh\nexit 127\n")
        answer(machine, "python3", "3.14 able")
        assert find(machine) == (0, "python3\n")

    def test_an_older_one_that_can_make_environments_wins(self, machine):
        answer(machine, "python3.12", "3.12 bare")
        answer(machine, "python3.11", "3.11 able")
        assert find(machine) == (0, "python3.11\n")

    def test_the_caller_decides(self, machine):
        answer(machine, "my python", "3.13 able")
        assert find(machine, PYTHON="my python") == (0, "my python\n")

    def test_without_ensurepip_the_package_is_named(self, machine):
        answer(machine, "python3.12", "3.12 bare")
        status, output = find(machine)
        assert status == 1
        assert "apt install python3.12-venv (or python3-venv)" in output

    @pytest.mark.parametrize("version", ["2.7", "3.9", "3.10"])
    def test_too_old(self, machine, version):
        answer(machine, "python3.12", f"{version} able")
        status, output = find(machine)
        assert status == 1
        assert "Python 3.11 or newer is needed" in output
        assert f"python3.12 is {version}" in output

    def test_none(self, machine):
        status, output = find(machine, PYTHON="/no/such/python")
        assert status == 1
        assert "none found among: /no/such/python" in output

    def test_a_real_interpreter_can_answer(self, machine):
        import sys

        assert find(machine, PYTHON=sys.executable)[0] == 0


class TestWhichTorch:
    def test_the_cpu_index_first_on_linux(self, machine):
        status, output = machine.make()
        assert status == 0, output
        torch, rest = machine.installs()
        assert f"--index-url {CPU_INDEX} torch==2.13.0" in torch
        assert rest.endswith("--editable .[cli,plot,sound,text,web]")
        assert f"CPU index, {CPU_INDEX}: about 200 MB" in output

    def test_an_index_that_does_not_answer(self, machine):
        status, output = machine.make(CPU_INDEX_ANSWERS="no")
        assert status == 0, output
        assert "does not answer" in output
        assert "several GB" in output
        assert "--index-url" not in machine.log.read_text()

    def test_an_index_that_answers_and_fails(self, machine):
        status, output = machine.make(FAIL_ON=CPU_INDEX)
        assert status == 0, output
        assert "trying pip's default index" in output
        assert ["--index-url" in line for line in machine.installs()] == [True, False, False]

    def test_the_default_index_on_a_mac(self, machine):
        status, output = machine.make(SYSTEM="Darwin")
        assert status == 0, output
        assert "about 100 MB" in output
        assert "GB" not in output
        assert "--index-url" not in machine.log.read_text()

    def test_the_caller_decides(self, machine):
        status, output = machine.make(TORCH_INDEX="https://example.org/whl")
        assert status == 0, output
        assert "--index-url https://example.org/whl torch" in machine.log.read_text()
        assert "https://example.org/whl (TORCH_INDEX)" in output

    def test_the_caller_wants_pips_own(self, machine):
        assert machine.make(TORCH_INDEX="default")[0] == 0
        assert "--index-url" not in machine.log.read_text()

    def test_the_callers_index_is_not_replaced_when_it_fails(self, machine):
        status, output = machine.make(TORCH_INDEX="https://example.org/whl", FAIL_ON="example.org")
        assert status != 0
        assert "torch 2.13.0 could not be installed" in output
        assert len(machine.installs()) == 1

    def test_torch_that_is_there_is_left_alone(self, machine):
        machine.make()
        status, output = machine.make("dev")
        assert status == 0, output
        assert "torch" not in output
        assert machine.installs()[2:] == [machine.installs()[-1]]
        assert machine.installs()[-1].endswith(".[dev]")


class TestStamp:
    def test_a_second_run_installs_nothing(self, machine):
        machine.make()
        before = machine.log.read_text()
        status, output = machine.make()
        assert status == 0
        assert "Installing" not in output
        assert machine.log.read_text() == before

    @pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
    def test_a_change_of_what_is_needed_installs_again(self, machine, name):
        machine.make()
        later = time.time() + 10
        os.utime(machine.clone / name, (later, later))
        machine.make()
        assert len(machine.installs()) == 3
        assert machine.log.read_text().count("venv") == 1, "the environment itself is kept"

    def test_an_error_leaves_no_stamp_and_keeps_the_environment(self, machine):
        status, output = machine.make(FAIL_ON="--editable")
        assert status != 0
        assert "could not be installed" in output
        assert not machine.ready()
        assert machine.make()[0] == 0
        assert machine.ready()
        assert machine.log.read_text().count("venv --clear") == 1

    @pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_a_cut_leaves_no_stamp_and_starts_afresh(self, machine, kill):
        process = machine.start("make", ".venv/.ready-demo", SLEEP_ON="--editable")
        deadline = time.monotonic() + 30
        while not Path(f"{machine.log}.sleeping").exists():
            assert time.monotonic() < deadline, "the install never began"
            time.sleep(0.02)
        os.killpg(process.pid, kill)
        process.communicate(timeout=30)
        assert not machine.ready()

        status, output = machine.make()
        assert status == 0, output
        assert "cut off" in output
        assert machine.ready()
        assert machine.log.read_text().count("venv --clear") == 2
        assert not (machine.clone / ".venv.unfinished").exists()

    def test_an_interpreter_that_vanished(self, machine):
        machine.make()
        (machine.clone / ".venv/bin/python").unlink()
        assert machine.make()[0] == 0
        assert machine.log.read_text().count("venv --clear") == 2

    def test_every_install_is_constrained(self, machine):
        machine.make("dev", FAIL_ON=CPU_INDEX)
        assert len(machine.installs()) == 4
        assert all("install -c constraints.txt " in line for line in machine.installs())


def test_help_lists_every_target(machine):
    status, output = machine.run("make")
    assert status == 0
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert phony
    assert re.findall(r"^  make ([a-z-]+) ", output, re.M) == phony[1].split()


def test_ci_runs_make_test_with_the_data_beside_the_clone(machine):
    shutil.copytree(ROOT / ".ci", machine.clone / ".ci")
    program(machine.bin / "make", '#!/bin/sh\necho "make $* with ${REGARD_DATA:-no data}"\n')
    program(machine.bin / "chromium", "#!/bin/sh\n")  # or it would be installed on the machine that runs this test
    assert machine.run(".ci/run") == (0, "make test with no data\n")
    data = machine.clone.parent / "shared" / "data"
    data.mkdir(parents=True)
    assert machine.run(".ci/run") == (0, f"make test with {data}\n")


def test_all_is_every_extra_but_the_tools_and_other_engines():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["all"] == [f"regard[{','.join(sorted(set(extras) - {'all', 'dev', 'export'}))}]"]


@pytest.mark.parametrize("page", ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))])
def test_no_page_installs_from_an_index_where_it_is_not(page):
    typed = re.findall(r"pip install[^\n]*", (ROOT / page).read_text(encoding="utf-8"))
    assert not [line for line in typed if re.search(r"""[ '"]regard\b""", line)]
