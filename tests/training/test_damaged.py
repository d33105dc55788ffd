"""A checkpoint that was damaged on disk: the one before takes its place, and that is said."""

import io

import pytest

from regard.training import Damaged, Run, checkpoint, read_weights
from training.toys import Shuffled, Toy, same, timeless, train


def places(run):
    return sorted(run.checkpoints.iterdir())


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


OPTIONS = dict(keep=2, steps=20)


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints at two steps."""
    run, _, _ = train(tmp_path / "run", Toy(dropout=0.2), valid=Shuffled(seed=1), **OPTIONS)
    assert [place.name for place in places(run)] == ["step-00000010", "step-00000020"]
    return run


@pytest.mark.parametrize("name", [checkpoint.WEIGHTS, checkpoint.STATE, "missing"])
def test_training_goes_on_from_the_newest_whole_checkpoint_and_says_so(tmp_path, run, name):
    old, new = places(run)
    if name == "missing":
        (new / checkpoint.STATE).unlink()
    else:
        damage(new / name)
    said, model = io.StringIO(), Toy(dropout=0.2, seed=5)
    train(tmp_path / "run", model, valid=Shuffled(seed=1), resume=True, said=said, **OPTIONS)
    text = " ".join(said.getvalue().split())
    assert f"set aside as {new.name}.damaged, and {old} is used instead" in text and "going on from step 10" in text
    whole, twin, _ = train(tmp_path / "whole", Toy(dropout=0.2), valid=Shuffled(seed=1), **OPTIONS)
    assert same(model, twin) and same(read_weights(run.weights("last"))[0], twin)
    assert timeless(run) == timeless(whole)
    assert new.with_name(new.name + ".damaged").is_dir()


def test_where_none_is_whole_nothing_is_removed(tmp_path, run):
    before = places(run)
    for place in before:
        damage(place / checkpoint.STATE)
    with pytest.raises(Damaged, match=r"no checkpoint in .* can be read: .*step-00000020.*; .*step-00000010"):
        train(tmp_path / "run", resume=True, **OPTIONS)
    assert places(run) == before


def test_a_checkpoint_of_another_format_is_not_passed_over(tmp_path, run, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    checkpoint.write(run.checkpoints, 21, Toy().state_dict(), {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="has format 2"):
        train(tmp_path / "run", resume=True, **OPTIONS)


def test_a_damaged_model_among_those_to_be_averaged_costs_the_average_only(tmp_path):
    data, said, run = Shuffled(), io.StringIO(), Run(tmp_path / "run")

    done = set()

    def hook():
        for _, path in run.kept():
            if path not in done:
                damage(path)
                done.add(path)

    data.hook = hook
    options = dict(valid=Shuffled(seed=1), keep=2, average=2, steps=12, validate_every=5)
    _, _, summary = train(run.folder, data=data, said=said, **options)
    assert summary.ended == "steps" and "were not averaged" in said.getvalue()
    assert "average" not in run.all_weights() and run.facts()["summary"]["steps"] == 12
