"""make test-versions: which versions, from where, and what the table says of them. No environment is made here."""

import re
import sys
from pathlib import Path

import pytest
import versions

ROOT = Path(__file__).parents[1]
REPORT = """<testsuites><testsuite>
<testcase classname="tests.contracts.test_masked" name="test_any_masks_and_shapes[plain]"/>
<testcase classname="tests.contracts.test_torch" name="test_compile[export-like]"/>
<testcase classname="tests.contracts.test_torch" name="test_compile[b]"><failure/></testcase>
<testcase classname="tests.exports.test_onnx" name="test_steps_are_ours"><skipped/></testcase>
<testcase classname="tests.exports.test_onnx" name="test_what_writes_no_text_is_refused"/>
<testcase classname="tests.contracts.test_torch" name="test_determinism[a]"><error/></testcase>
<testcase classname="tests.contracts.test_every_recipe" name="test_trained_killed_taken_up_and_measured[x]"/>
<testcase classname="tests.kernels.test_local" name="test_dot"/>
</testsuite></testsuites>"""


def test_the_table_counts_each_topic(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    counts, failures = versions.read(tmp_path / "report.xml")
    assert failures == [f"tests.contracts.test_torch::test_{name}" for name in ("compile[b]", "determinism[a]")]
    head, _, row = versions.table([("torch 2.6.0", counts)]).splitlines()
    cells = dict(zip(*([cell.strip() for cell in line.split("|")[1:-1]] for line in (head, row))))
    assert cells == {
        **{"": "torch 2.6.0", "masked NaN": "yes", "compile": "**1 of 2 fail**", "export": "yes, 1 skipped"},
        **{"determinism": "**1 of 1 fail**", "training": "yes", "all else": "yes"},
    }


def test_the_floor_on_the_oldest_python_and_the_newest_on_the_newest():
    floor, newest = versions.versions(None, ["python3.13", "python3.11"])
    assert floor.torch == f"torch=={versions.floor()}.*" and floor.pythons[0] == "python3.11"
    assert newest.torch == "torch" and newest.pythons[0] == "python3.13"
    (asked,) = versions.versions(["2.9.1"], ["python3.13"])
    assert (asked.name, asked.torch) == ("torch-2.9.1", "torch==2.9.1")


@pytest.mark.skipif(sys.platform == "win32", reason="programs are shell scripts")
def test_pythons_are_asked_who_they_are(tmp_path, monkeypatch):
    """Stubs that do not run, old ones, and pre-releases are passed over; pyenv's are found."""
    answers = {"python3.11": "3 11 7 final", "python3.12": "", "python3.13": "3 13 0 final", "python3": "3 9 1 final"}
    answers["python3.15"] = "3 15 0 alpha"
    home = tmp_path / "pyenv" / "versions" / "3.14.1" / "bin"
    home.mkdir(parents=True)
    programs = {tmp_path / name: told for name, told in answers.items()} | {home / "python": "3 14 1 final"}
    for path, answer in programs.items():
        path.write_text(f"#!/bin/sh\n[ -n '{answer}' ] && echo {answer}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    found = [Path(program).name for program in versions.find_pythons()]
    assert found == ["python", "python3.13", "python3.11"]


def test_the_caller_chooses_the_index(monkeypatch):
    monkeypatch.setenv("TORCH_INDEX", "default")
    assert versions.index() == []
    monkeypatch.setenv("TORCH_INDEX", "https://example.org/simple")
    assert versions.index() == ["--index-url", "https://example.org/simple"]
    monkeypatch.delenv("TORCH_INDEX")
    monkeypatch.setattr(versions.sys, "platform", "linux")

    def silent(*_, **__):
        raise OSError("no route")

    monkeypatch.setattr(versions.urllib.request, "urlopen", silent)
    assert versions.index() == []  # and not an error: pip's own index may do


def test_another_python_is_tried_where_torch_has_no_build(tmp_path, monkeypatch):
    made = []

    def install(python, arguments):
        made.append((python, arguments[-1]))
        if _of(python) == "new":
            raise versions.Failed("no matching distribution")

    def _of(python):
        return (python.parents[1] / "made-by").read_text()

    def create(command, **_):
        folder = Path(command[-1])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "made-by").write_text(command[0])

    monkeypatch.setattr(versions, "_install", install)
    monkeypatch.setattr(versions, "index", list)
    monkeypatch.setattr(versions, "_version", lambda program: {"new": (3, 14, 0), "old": (3, 13, 0)}.get(program))
    monkeypatch.setattr(versions, "_ask", lambda python, code: "2.15.0+cpu")
    monkeypatch.setattr(versions.subprocess, "run", create)
    python = versions.make(versions.Version("newest", "torch", ("new", "old")), tmp_path)
    assert _of(python) == "old" and made[-1] == (python, f"{ROOT}[dev]")
    assert (tmp_path / "newest" / "constraints.txt").read_text() == "torch==2.15.0\n"
    with pytest.raises(versions.Failed, match="new: no matching"):
        versions.make(versions.Version("newest", "torch", ("new",)), tmp_path)


def test_the_page_tells_of_the_floor_that_is_declared():
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    tested = re.findall(r"^\| torch (\d+\.\d+)\.\d+, Python \d+\.\d+\.\d+ \|", page, re.M)
    assert versions.floor() in tested and len(tested) >= 2
    assert f"torch ≥ {versions.floor()}" in page and not re.search(r"\d fail", page)
    assert all(f"| {topic} |" in page for topic in versions.TOPICS)
