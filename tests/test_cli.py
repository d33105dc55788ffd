"""The command line as its users meet it: a process with arguments, two streams and an exit code."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import typer

import forked
import regard
from regard import cli, exports, parts, registry
from regard.commands import list as list_command

ROOT = Path(__file__).parents[1]


def run(*arguments, code=None, **environment):
    """`regard ARGUMENTS`; with ``code``, a Python program that ends in ``cli.main()``."""
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "regard.cli"]
    clean = {k: v for k, v in os.environ.items() if k not in ("REGARD_DEBUG", "FORCE_COLOR", "COLUMNS")}
    return subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        env={**clean, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        encoding="utf-8",
    )


def raising(error):
    """A program in which `regard list` raises ``error``."""
    return f"from regard import cli, parts\ndef names(kind): raise {error}\nparts.names = names\ncli.main()"


def test_python_m_regard_is_the_command_line():
    done = subprocess.run([sys.executable, "-m", "regard", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, run("--version").stdout)


@pytest.fixture(scope="module")
def listing():
    return run("list")


def test_version():
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"regard {regard.__version__}\n")


def test_help_answers_without_loading_torch():
    code = "import sys\nfrom regard import cli\ntry: cli.main()\nfinally: print('torch' in sys.modules)"
    assert run("--help", code=code).stdout.endswith("False\n")


def test_help_answers_within_half_a_second():
    def seconds():
        before = time.perf_counter()
        result = run("--help")
        assert result.returncode == 0
        assert "list" in result.stdout
        return time.perf_counter() - before

    assert min(seconds() for _ in range(3)) < 0.5


def test_help_tells_all_of_what_a_command_does():
    """In a terminal of eighty columns no line is cut off."""
    told = run("--help", COLUMNS="80", TERMINAL_WIDTH="80").stdout
    assert "..." not in told.partition("Commands:")[2] and "regard show translate-en-es" in told
    assert max(map(len, told.splitlines())) <= 80


def test_help_names_every_format_of_export():
    told = forked.run("export", "--help").stdout
    assert all(name in told for name in exports.formats())


def examples():
    """The commands that the help of each command gives as examples."""
    for name in ("", "train", "export", "predict", "show", "serve"):
        told = run(*filter(None, [name]), "--help").stdout
        below = told.partition("Examples:\n")[2].splitlines()
        assert below, name
        yield from (re.split(r"  +", line.strip())[0] for line in below)


def test_the_examples_of_the_help_could_be_typed():
    """Every command, option, recipe and model in them is there."""
    commands = typer.main.get_command(cli.app).commands
    for example in examples():
        program, name, *words = shlex.split(example)
        assert program == "regard" and name in commands, example
        options = {option for parameter in commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= {*options, "--help"}, example
        if name == "train":
            registry.recipe(words[0]).change([word for word in words if "=" in word])
        elif words and not words[0].startswith("runs/"):
            assert words[0] in registry.shipped(), example


def test_the_question_of_every_kind_is_known():
    assert tuple(list_command.QUESTIONS) == parts.KINDS


def test_list_shows_every_part_with_equation_and_paper(listing):
    assert listing.returncode == 0, listing.stderr
    lines = listing.stdout.splitlines()
    for kind in parts.KINDS:
        assert any(line.startswith(f"{kind}: ") for line in lines)
        for name in parts.names(kind):
            cls = parts.find(kind, name)
            assert any(
                line.split()[:1] == [name] and cls.equation in line and line.endswith(cls.paper) for line in lines
            ), f"{kind} {name}"


def test_every_part_declares_equation_and_paper():
    missing = [
        (kind, name)
        for kind in parts.KINDS
        for name in parts.names(kind)
        if not (parts.find(kind, name).equation and parts.find(kind, name).paper)
    ]
    assert not missing


def test_a_pipe_gets_plain_text(listing):
    assert "\x1b" not in listing.stdout
    assert not any(line.endswith(" ") for line in listing.stdout.splitlines())


def test_list_one_kind():
    output = run("list", "normalizers").stdout
    assert output.startswith("normalizers: ")
    assert "scores:" not in output
    assert "softmax" in output


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in parts.KINDS for name in parts.names(kind)])
def test_the_example_of_a_part_runs(kind, name):
    held = {"regard": regard, "torch": torch}
    exec(parts.example(kind, parts.find(kind, name)), held)
    assert {"out", "seen"} & set(held)


def test_list_one_part():
    told = forked.run("list", "local_predictive").stdout
    for piece in ("LocalPredictive(query_dim: int, radius: int)", "Luong 2015", "vᵀ tanh(W q)", "regard.windows"):
        assert piece in told
    assert "mode: str = 'sample'" in forked.run("list", "hard").stdout
    assert "gate=, shift=, sharpen=" in forked.run("list", "shift_sharpen").stdout
    (row,) = json.loads(forked.run("list", "additive", "--json").stdout)
    assert row["name"] == "additive"
    assert "did you mean 'additive'" in forked.run("list", "aditive").stderr


def test_list_json():
    rows = json.loads(run("list", "--json").stdout)
    listed = [(row["kind"], row["name"]) for row in rows]
    assert [row for row in listed if row[0] in parts.KINDS] == [
        (kind, name) for kind in parts.KINDS for name in parts.names(kind)
    ]
    assert {name.split()[0] for kind, name in listed if kind == "systems"} == set(registry.systems())
    assert {name for kind, name in listed if kind == "recipes"} == set(registry.recipes())
    assert {name for kind, name in listed if kind == "models"} == set(registry.shipped())
    assert all(row["about"] for row in rows if row["kind"] in ("recipes", "models"))
    additive = next(row for row in rows if row["name"] == "additive")
    assert additive["class"] == "regard.scores.Additive"
    assert additive["arguments"] == ["query_dim", "key_dim", "hidden_dim"]
    assert additive["equation"] == parts.find("scores", "additive").equation


@pytest.mark.parametrize("arguments", [["list", "scores"], ["list", "scores", "--json"]])
def test_a_stream_that_knows_only_ascii(arguments):
    result = run(*arguments, PYTHONIOENCODING="ascii")
    assert result.returncode == 0, result.stderr
    assert result.stdout.isascii()
    if "--json" in arguments:
        assert json.loads(result.stdout)[0]["equation"] == parts.find("scores", "additive").equation


def test_the_c_locale_keeps_the_letters():
    assert parts.find("scores", "additive").equation in run("list", "scores", LC_ALL="C").stdout


def test_no_color_in_a_terminal():
    pty = pytest.importorskip("pty", reason="pseudo-terminals are a Unix thing")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "regard.cli", "list", "scores"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "NO_COLOR": "1", "TERM": "xterm-256color"},
    )
    os.close(slave)
    output = b""
    try:
        while chunk := os.read(master, 4096):
            output += chunk
    except OSError:  # Linux ends a closed pseudo-terminal this way
        pass
    os.close(master)
    assert process.wait(timeout=60) == 0
    assert b"scaled_dot" in output
    assert b"\x1b[3" not in output


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m regard.cli list | head -n 1"
    result = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    assert result.stdout.startswith("scores")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["lst"], "'list'"),
        (["list", "scorse"], "did you mean 'scores'?"),
        (["list", "--jsn"], "--json"),
        (["bench", "atention"], "'attention'"),
        (["bench", "attention", "--json", "no/such/folder/x.json"], "no/such/folder"),
        (["bench", "attention", "--json", "."], "directory"),
    ],
)
def test_a_mistake_is_named_with_its_nearest(arguments, hint):
    result = run(*arguments)
    assert result.returncode == 2
    assert hint in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("ValueError('width 3 does not fit 4')", "regard: width 3 does not fit 4"),
        (
            "FileNotFoundError(2, 'No such file or directory', 'x.bin')",
            "regard: x.bin: No such file or directory",
        ),
        (
            "ModuleNotFoundError(name='matplotlib')",
            "regard: this command needs matplotlib. Type: pip install 'regard[all]'",
        ),
        (
            "KeyError('w')",
            "regard: a fault of regard's own, KeyError: 'w'. Please report what --traceback shows",
        ),
    ],
)
def test_an_error_is_one_line(error, line):
    result = run("list", code=raising(error))
    assert (result.returncode, result.stderr) == (2, line + "\n")


def test_traceback_on_request():
    code = raising("ValueError('inside')")
    for result in (
        run("--traceback", "list", code=code),
        run("list", "--traceback", code=code),
        run("list", code=code, REGARD_DEBUG="1"),
    ):
        assert result.returncode == 1
        assert result.stderr.startswith("Traceback")
        assert result.stderr.endswith("ValueError: inside\n")


def test_interrupt():
    result = run("list", code=raising("KeyboardInterrupt"))
    assert result.returncode == 130
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_a_missing_extra_names_the_line_to_type(package):
    result = run(code=f"import sys; sys.modules[{package!r}] = None\nfrom regard.cli import main; main()")
    assert result.returncode == 2
    assert result.stderr == f"regard: the command line needs {package}. Type: pip install 'regard[cli]'\n"


def test_bench_attention_passes_its_options_on():
    code = (
        "import sys, types\n"
        "fake = types.ModuleType('regard.bench.attention')\n"
        "fake.run = lambda **options: print(options)\n"
        "sys.modules['regard.bench'] = types.ModuleType('regard.bench')\n"
        "sys.modules['regard.bench.attention'] = fake\n"
        "from regard import cli\n"
        "cli.main()"
    )
    result = run("bench", "attention", code=code)
    assert result.stdout == "{'json_file': None, 'quick': False, 'only': '', 'compile': False}\n"
    result = run("bench", "attention", "--quick", "--compile", "--json", "x.json", code=code)
    assert result.stdout == "{'json_file': PosixPath('x.json'), 'quick': True, 'only': '', 'compile': True}\n"


def test_an_error_in_somebody_elses_system_is_not_ours(tmp_path):
    (tmp_path / "broken_parts.py").write_text("def names(kind):\n    return {}[kind]\n")
    code = "from regard import cli, parts\nimport broken_parts\nparts.names = broken_parts.names\ncli.main()"
    result = run("list", "scores", code=code, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert result.returncode == 2
    assert "broken_parts.py, line 2: KeyError: 'scores'" in result.stderr and "fault of" not in result.stderr


def test_whoever_reads_our_output_may_stop():
    done = subprocess.run(
        f"{sys.executable} -m regard.cli list | head -n 1", shell=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("scores") and "Error" not in done.stderr and "regard:" not in done.stderr


CLOSED = """
import os, sys
os.close({number})
os.execv(sys.executable, [sys.executable, "-m", "regard.cli", *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    ("number", "command", "said"),
    [
        (0, ["predict", "ntm-copy"], "standard input is closed: name a file"),
        (1, ["list"], "standard output is closed, so nothing is printed"),
        (2, ["list"], ""),
    ],
)
def test_a_closed_stream_is_said_plainly(number, command, said):
    result = run(*command, code=CLOSED.format(number=number))
    assert said in result.stderr and "fault" not in result.stderr and "Traceback" not in result.stderr
    assert result.returncode == (2 if number == 0 else 0)


def test_files_do_not_take_the_place_of_a_closed_stream():
    code = """
import os, sys
for number in (0, 1, 2):
    os.close(number)
sys.stdin = sys.stdout = sys.stderr = None
from regard import cli
try:
    cli.main()
finally:
    assert os.open(os.devnull, os.O_RDONLY) > 2
"""
    assert run("--version", code=code).returncode == 0


def test_a_diverged_training_is_not_our_fault():
    result = run("list", code=raising("FloatingPointError('the loss is no longer finite at step 3')"))
    assert (result.returncode, result.stderr) == (2, "regard: the loss is no longer finite at step 3\n")


def test_who_opens_a_run_can_trust_it():
    commands = typer.main.get_command(cli.app).commands
    for name in ("predict", "show", "evaluate", "serve", "explore", "export"):
        assert any("--trust" in option.opts for option in commands[name].params), name
