"""Trains once without a pause and once killed again and again, and prints as JSON whether the two are equal.

    python killed.py FOLDER KILLS INSIDE SEED

KILLS children are ended by SIGKILL at random moments; INSIDE more end themselves within the writing of a checkpoint.
Every child is a fork of this process, which has loaded PyTorch but not used it: a fresh process without the wait.
"""

import io
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

# Loaded here, once, because PyTorch and accelerate would load them in every child.
import accelerate  # noqa: F401
import torch._dynamo
import torch.distributed.tensor
import torch.utils.tensorboard
from rich.console import Console

from regard.training import Run, checkpoint, fit, read_weights
from training.toys import Shuffled, Toy, config, same, timeless

BATCHES = 300
CONFIG = config(
    steps=BATCHES // 2,
    accumulate=2,
    schedule="plateau",
    validate_every=9,
    keep=2,
    log_every=4,
    checkpoint_minutes=0.02 / 60,
    tensorboard=True,
)
POINTS = ("weights half written", "state half written", "before the rename", "after it", "old one half removed")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_next_checkpoint(point):
    """Replace the calls to the system that the next checkpoint makes by ones that end the process."""
    write, fsync, rename = checkpoint.write, os.fsync, os.rename
    calls = []

    def half_written(handle):
        calls.append(handle)
        if len(calls) == {"weights half written": 1, "state half written": 3}[point]:  # the second one is the folder's
            os.ftruncate(handle, os.fstat(handle).st_size // 2)
            die()
        fsync(handle)

    def half_removed(folder):
        (folder / checkpoint.STATE).unlink()
        die()

    def armed(*arguments):
        if "half written" in point:
            os.fsync = half_written
        elif point == "before the rename":
            os.rename = lambda *_: die()
        elif point == "after it":
            os.rename = lambda *paths: (rename(*paths), die())
        else:
            shutil.rmtree = half_removed
        write(*arguments)

    checkpoint.write = armed


def child(folder, at=None, point=None, pipe=None):
    """Train in ``folder``, from its checkpoint if it has one. At batch ``at``, tell the parent or prepare to die."""
    data = Shuffled(noise=True)
    data.told = False

    def hook():
        if at is not None and data.epoch * data.batches + data.position >= at:
            if not data.told:
                data.told = True
                os.write(pipe, b".") if point is None else die_in_next_checkpoint(point)
            time.sleep(0.002)  # so that the parent comes before the end

    data.hook = hook
    exists = (folder / "run.json").exists()
    run = Run.open(folder) if exists else Run.create(folder)
    if at == 0:
        hook()
    # A resumed model starts from other weights: all that matters must come from the checkpoint.
    model = Toy(dropout=0.3, seed=0 if run.last() is None else random.randrange(1000))
    fit(model, data, Shuffled(seed=1, noise=True), run, CONFIG, resume=exists, console=Console(file=io.StringIO()))


def fork(*arguments, **options):
    pid = os.fork()
    if pid:
        return pid
    try:
        child(*arguments, **options)
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


def killed(pid):
    """Whether a child was killed; False if it came to its end."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    assert os.waitstatus_to_exitcode(status) == 0, "a child failed"
    return False


def main(folder, kills, inside, seed):
    torch.set_num_threads(1)
    draw = random.Random(seed)
    assert not killed(fork(folder / "whole"))
    moments = sorted(
        [(draw.randrange(BATCHES - 60), None) for _ in range(kills)]
        + [(draw.randrange(1, BATCHES - 60), POINTS[i % len(POINTS)]) for i in range(inside)],
        key=lambda moment: moment[0],
    )
    done, points = 0, []
    for at, point in moments:
        ours, theirs = os.pipe()
        pid = fork(folder / "killed", at, point, theirs)
        os.close(theirs)
        if point is None and os.read(ours, 1):
            time.sleep(draw.uniform(0, 0.04))
            os.kill(pid, signal.SIGKILL)
        os.close(ours)
        if killed(pid):
            done += point is None
            points += [point] if point else []
    assert not killed(fork(folder / "killed"))

    a, b = Run.open(folder / "whole"), Run.open(folder / "killed")
    left_over = [p.name for p in b.folder.rglob("*.writing")] + [p.name for p in b.checkpoints.iterdir()][2:]
    (weights_a, state_a), (weights_b, state_b) = checkpoint.read(a.last()), checkpoint.read(b.last())
    optimizer_a, optimizer_b = (state["engine"]["optimizer"]["state"] for state in (state_a, state_b))
    print(
        json.dumps(
            {
                "killed": done,
                "inside": sorted(set(points)),
                "steps": state_b["state"]["step"],
                "weights": same(weights_a, weights_b),
                "optimizer": all(same(optimizer_a[i], optimizer_b[i]) for i in optimizer_a),
                "best": same(read_weights(a.weights("best"))[0], read_weights(b.weights("best"))[0]),
                "kept": [p.read_bytes() for _, p in a.kept()] == [p.read_bytes() for _, p in b.kept()],
                "metrics": timeless(a) == timeless(b),
                "left over": left_over,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
