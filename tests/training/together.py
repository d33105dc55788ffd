"""What several processes do together; started by torchrun from test_several_processes.py, which holds what to expect.

torchrun --standalone --nproc_per_node 2 together.py FOLDER
"""

import io
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console

from regard.training import Run, fit
from regard.training.engine import Engine
from training.toys import Shuffled, Toy, config

# Rows of the batches are not divisible by two, or there are fewer of them than processes.
CASES = {
    "plain": (dict(size=5), dict(steps=50, log_every=1)),
    "accumulated": (dict(size=5), dict(steps=20, log_every=1, accumulate=3, clip=0.5)),
    "one row": (dict(size=1), dict(steps=20, log_every=1)),
    "interrupted": (dict(size=5), dict(steps=30, log_every=1)),
}
if hasattr(torch.cpu.Stream, "record_event"):  # or torch shards on GPUs alone, as 2.6 does
    CASES["sharded"] = (dict(size=5), dict(steps=20, log_every=1, clip=0.5))


def train(folder, case, resume=False, hook=None, **more):
    data, changes = CASES[case]
    loader = Shuffled(**data)
    loader.hook = (lambda: hook(loader)) if hook else loader.hook
    # Every process starts from other weights: the first one's must win.
    model = Toy(seed=int(os.environ.get("RANK", "0")))
    run = Run.open(folder) if resume else Run.create(folder)
    console = Console(file=io.StringIO())
    return fit(model, loader, Shuffled(seed=1, size=3), run, config(**(changes | more)), resume=resume, console=console)


def shard(engine):
    """As accelerate does it with FSDP 2, which it offers for GPUs only."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from regard.training import optimizers

    for parameter in engine.plain.parameters():
        dist.broadcast(parameter.data, src=0)
    engine.model = fully_shard(engine.plain, mesh=init_device_mesh("cpu", (engine.team.world,)))
    engine.optimizer = engine.accelerator.prepare(
        optimizers.build(engine.model.parameters(), engine.config, engine.team.device, sharded=True)
    )
    engine.parameters, engine.sharded = list(engine.model.parameters()), True


def main(folder):
    rank = int(os.environ["RANK"])
    for case in ("plain", "accumulated", "one row"):
        train(folder / case, case)

    # A signal reaches one of them; all must end at the same step.
    def hook(loader):
        if rank == 1 and (loader.epoch, loader.position) == (1, 4):
            os.kill(os.getpid(), signal.SIGTERM)

    first = train(folder / "interrupted", "interrupted", hook=hook)
    second = train(folder / "interrupted", "interrupted", resume=True)
    print(f"rank {rank}: {first.ended} at {first.steps}, {second.ended} at {second.steps}", flush=True)

    if "sharded" in CASES:
        prepare, Engine.prepare = Engine.prepare, shard
        train(folder / "sharded", "sharded", steps=11)
        train(folder / "sharded", "sharded", resume=True)
        Engine.prepare = prepare
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
