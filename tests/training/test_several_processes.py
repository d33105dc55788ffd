"""Two processes that share every batch learn what one learns."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.training import Run, read_weights
from regard.training.means import Means
from regard.training.team import Team
from training import together
from training.toys import Shuffled, timeless

HERE = Path(__file__).parent


def launch(folder):
    """Two processes train every case in ``folder``; what they printed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    paths = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [*command, str(HERE / "together.py"), str(folder)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=240,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch was built without torch.distributed")
def test_two_processes_learn_what_one_learns(tmp_path):
    """One test for all cases, since starting processes is what takes the time."""
    printed = launch(tmp_path / "both")
    for rank in (0, 1):  # the signal went to one of them
        assert f"rank {rank}: SIGTERM at 11, steps at 30" in printed
    for case, (_, changes) in together.CASES.items():
        together.train(tmp_path / "alone" / case, case)
        alone, both = Run.open(tmp_path / "alone" / case), Run.open(tmp_path / "both" / case)
        expected, found = timeless(alone), timeless(both)
        if case == "sharded":  # its first session ended with a validation of its own
            found = [line for line in found if (line["split"], line["step"]) != ("valid", 11)]
        assert len(expected) == len(found) >= changes["steps"], case
        for one, two in zip(expected, found, strict=True):
            assert one.pop("split") == two.pop("split")
            assert one == pytest.approx(two, rel=0, abs=1e-5), case
        a, b = (read_weights(run.weights("last"))[0] for run in (alone, both))
        assert a.keys() == b.keys()
        for name in a.keys() - {"calls"}:
            torch.testing.assert_close(a[name], b[name], rtol=0, atol=1e-4, msg=f"{case}: {name}")
        if case in ("plain", "accumulated"):  # one process goes on where two stopped
            more = together.CASES[case][1]["steps"] + 5
            assert together.train(both.folder, case, resume=True, steps=more).steps == more
            continue
        *_, place = sorted(both.checkpoints.iterdir())
        assert place.name.startswith(f"step-{changes['steps']:08d}")


def slices(batch, world):
    team = Team(0, 1, torch.device("cpu"))
    found = []
    for team.rank in range(world):
        team.world = world
        found.append(team.share(batch))
    return found


def test_every_row_goes_to_exactly_one_process():
    batch = next(iter(Shuffled(size=5)))
    for world in (2, 3, 5, 7):
        shares = slices(batch, world)
        rows = torch.cat([part["items"] for part, weight in shares if weight])
        assert sorted(rows.tolist()) == sorted(batch["items"].tolist())
        assert all(len(part["items"]) for part, _ in shares)
        assert sum(weight for _, weight in shares) == min(world, 5)


def test_scalars_are_not_cut_and_unequal_tensors_are_named():
    batch = {"x": torch.zeros(4, 2), "temperature": torch.tensor(2.0)}
    assert slices(batch, 2)[1][0]["temperature"] == 2
    with pytest.raises(ValueError, match="x 4, edges 9"):
        slices({"x": torch.zeros(4), "edges": torch.zeros(9)}, 2)


def test_means_weigh_by_units():
    means = Means(Team(0, 1, torch.device("cpu")))
    means.add({"loss": torch.tensor(1.0), "count": torch.tensor(3), "hit": torch.tensor(0.5)})
    means.add({"loss": torch.tensor(5.0), "count": torch.tensor(1), "hit": torch.tensor(0.0)})
    means.add({"loss": torch.tensor(float("nan")), "count": torch.tensor(0), "hit": torch.tensor(float("nan"))})
    assert means.read() == {"loss": 2.0, "hit": 0.375, "count": 4.0}
    again = Means(means.team, means.state())
    again.add({"loss": torch.tensor(2.0), "count": torch.tensor(4), "hit": torch.tensor(1.0)})
    assert again.read() == {"loss": 2.0, "hit": 0.6875, "count": 8.0}
    with pytest.raises(ValueError, match="gave count, loss this time, before count, loss, hit"):
        means.add({"loss": torch.tensor(1.0), "count": torch.tensor(3)})
