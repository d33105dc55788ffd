"""A full disk costs nothing that was there, and says so."""

import errno
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from regard.training import Run, checkpoint, fit, load_weights, read_weights
from training.toys import Shuffled, Toy, config, lines, same, train


@pytest.fixture
def disk(monkeypatch):
    """A disk that is full while ``disk["full"]``: what is forced to it is refused."""
    state = {"full": False, "refused": 0}
    fsync = os.fsync

    def full(handle):
        if state["full"]:
            state["refused"] += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    return state


def when(data, **moments):
    """Call each of ``moments`` when its batch is read."""

    def hook():
        batch = data.epoch * data.batches + data.position
        for moment in moments.values():
            if batch == moment[0]:
                moment[1]()

    data.hook = hook


def test_training_goes_on_and_is_kept_once_there_is_room(tmp_path, disk):
    said, data = io.StringIO(), Shuffled()
    when(data, fill=(6, lambda: disk.update(full=True)), free=(15, lambda: disk.update(full=False)))
    options = dict(valid=Shuffled(seed=1), keep=2, checkpoint_minutes=0, steps=30)
    run, model, _ = train(tmp_path / "run", data=data, said=said, **options)
    assert disk["refused"] > 5
    assert "could not be written" in said.getvalue() and "step-00000005 is whole" in said.getvalue()
    whole, twin, _ = train(tmp_path / "whole", **options)
    assert same(model, twin) and same(read_weights(run.weights("last"))[0], model)
    assert [line["step"] for line in lines(run)] == [line["step"] for line in lines(whole)]
    assert not list(run.folder.rglob("*.writing"))


def test_a_last_checkpoint_that_finds_no_room_is_an_error_that_says_how_to_go_on(tmp_path, disk):
    data = Shuffled()
    when(data, fill=(12, lambda: disk.update(full=True)))
    with pytest.raises(OSError, match=r"is full: step 20 .*step-00000011 is whole; make room; go on with: CMD") as info:
        train(tmp_path / "run", data=data, checkpoint_minutes=0, model=Toy(dropout=0.2))
    assert info.value.errno == errno.ENOSPC
    disk["full"] = False
    _, model, _ = train(tmp_path / "run", resume=True, model=Toy(dropout=0.2, seed=3))
    _, twin, _ = train(tmp_path / "whole", model=Toy(dropout=0.2))
    assert same(model, twin)


def test_a_disk_that_is_full_from_the_start_shows_at_once(tmp_path, disk):
    run = Run.create(tmp_path / "run")
    disk["full"] = True
    with pytest.raises(OSError, match="nothing has been kept yet"):
        fit(Toy(), Shuffled(), None, run, config(), console=Console(file=io.StringIO()))


def test_a_best_that_could_not_be_written_is_not_called_the_best(tmp_path, disk):
    data = Shuffled()
    when(data, fill=(15, lambda: disk.update(full=True)), free=(25, lambda: disk.update(full=False)))
    said = io.StringIO()
    run, _, summary = train(tmp_path / "run", data=data, valid=Shuffled(seed=1), steps=25, said=said)
    (line,) = [line for line in said.getvalue().splitlines() if line.startswith("step 20 ")]
    assert "(best)" not in line and "better, but it could not be written" in line
    values = {line["step"]: line["loss"] for line in lines(run, "valid")}
    assert values[20] < values[10]
    assert read_weights(run.weights("best"))[1]["step"] == summary.best_step != 20


FILLED = """
import io, os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from rich.console import Console
from training.toys import Shuffled, Toy, config, same
from regard.training import Run, fit, read_weights

folder, data, said = Path({folder!r}), Shuffled(), io.StringIO()
def fill():
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            while True: file.write(bytes(512))
        except OSError: pass
def hook():
    batch = data.epoch * data.batches + data.position
    if batch == 6: fill()
    if batch == 20: (folder / "filler").unlink()
data.hook = hook
model = Toy(width=256, dropout=0.2)
changes = dict(checkpoint_minutes=0, steps=30, tensorboard=True, log_every=1)
run = Run.create(folder / "run")
fit(model, data, Shuffled(seed=1), run, config(**changes), console=Console(file=said, width=500))
twin = Toy(width=256, dropout=0.2)
fit(twin, Shuffled(), Shuffled(seed=1), Run.create({other!r}), config(**changes), console=Console(file=said))
assert "could not be written" in said.getvalue() and "is whole" in said.getvalue(), said.getvalue()
assert same(model, twin) and same(read_weights(run.weights("last"))[0], model)
steps = [line.split(",")[0] for line in run.metrics.read_text().splitlines()]
assert len(steps) == 33, steps
print("fine")
"""


@pytest.mark.slow
def test_on_a_disk_that_is_really_full(tmp_path):
    """A file system of 3 MB in memory, filled in the middle of the training and freed again."""
    if not shutil.which("unshare"):
        pytest.skip("needs unshare, to mount a small file system without being root")
    small = tmp_path / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=3m tmpfs {small}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this machine does not let users mount a file system")
    tests = Path(__file__).parents[1]
    code = tmp_path / "filled.py"
    code.write_text(FILLED.format(tests=str(tests), folder=str(small), other=str(tmp_path / "other")))
    result = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{mount} && exec {sys.executable} {code}"],
        env={**os.environ, "PYTHONPATH": str(tests.parent)},
        capture_output=True,
        timeout=300,
        encoding="utf-8",
    )
    assert result.stdout == "fine\n", result.stderr[-3000:]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, disk):
    path = tmp_path / "file"
    checkpoint.write_file(path, "old")
    disk["full"] = True
    with pytest.raises(OSError, match="No space"):
        checkpoint.write_file(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    model = Toy()
    with pytest.raises(OSError, match="No space"):
        checkpoint.write(tmp_path / "checkpoints", 1, model.state_dict(), {})
    assert list((tmp_path / "checkpoints").iterdir()) == []
    disk["full"] = False
    load_weights(model, checkpoint.write(tmp_path / "checkpoints", 1, model.state_dict(), {}) / checkpoint.WEIGHTS)
