"""The loop as its callers see it: what it computes, when it ends, what it leaves in the folder, what it says."""

import errno
import io
import math
import os
import re
import shutil
import signal
import threading

import pytest
import torch
from rich.console import Console
from torch import nn

from regard.training import Run, fit, load_weights, read_weights
from regard.training.engine import Engine
from training.toys import Shuffled, Toy, config, lines, same, timeless, train


def test_it_learns_and_says_how_it_went(tmp_path):
    run, model, summary = train(tmp_path / "run", valid=Shuffled(seed=1), steps=60, metric="nll")
    losses = [line["loss"] for line in lines(run, "train")]
    assert losses[-1] < 0.8 * losses[0]
    assert [line["step"] for line in lines(run, "train")] == list(range(5, 61, 5))
    assert [line["step"] for line in lines(run, "valid")] == list(range(10, 61, 10))
    best = min(lines(run, "valid"), key=lambda line: line["nll"])
    assert (summary.best, summary.best_step) == (best["nll"], best["step"])
    assert (summary.steps, summary.ended, summary.interrupted) == (60, "steps", False)
    assert summary.epochs == pytest.approx(60 / 7, abs=1e-6)
    assert Run.open(run.folder).facts()["summary"]["steps"] == 60
    assert same(read_weights(run.weights("last"))[0], model)
    weights, facts = read_weights(run.weights("best"))
    assert facts["step"] == summary.best_step and facts["nll"] == summary.best
    assert run.weights() == run.weights("best")
    assert weights.keys() == model.state_dict().keys()


def test_the_update_is_the_textbook_one(tmp_path):
    """Against a loop in four lines: plain Adam on the loss, step by step."""
    model, twin = Toy(), Toy()
    train(tmp_path / "run", model=model, steps=12)
    optimizer = torch.optim.Adam(twin.parameters(), lr=1e-2)
    data = Shuffled()
    batches = [batch for _ in range(2) for batch in data][:12]
    for batch in batches:
        optimizer.zero_grad()
        twin(batch)["loss"].backward()
        optimizer.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, twin.state_dict()[name], rtol=1e-5, atol=1e-6, msg=name)


class Glued(Shuffled):
    """Batches of the other loader, glued together ``n`` at a time."""

    def __init__(self, n, **options):
        super().__init__(**options)
        self.n = n

    def __len__(self):
        return math.ceil(self.batches / self.n)

    def __iter__(self):
        group = []
        for batch in super().__iter__():
            group.append(batch)
            if len(group) == self.n or self.position == self.batches:
                yield {name: torch.cat([b[name] for b in group]) for name in group[0]}
                group = []


def test_accumulated_batches_are_one_large_batch(tmp_path):
    """Batches differ in units, and 7 of them make groups of 3, 3 and 1: weighing per batch would show."""
    a, _, _ = train(tmp_path / "a", accumulate=3, steps=20, clip=0.5, log_every=1)
    b, _, _ = train(tmp_path / "b", data=Glued(3), steps=20, clip=0.5, log_every=1)
    for one, other in zip(lines(a), lines(b), strict=True):
        for name in ("step", "loss", "nll", "count", "grad_norm"):
            assert one[name] == pytest.approx(other[name], abs=1e-5), (one["step"], name)
    counts = [line["count"] for line in lines(a)]
    assert len(set(counts)) > 5


def test_clip(tmp_path):
    model = Toy()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    train(tmp_path / "run", model=model, steps=1, optimizer="sgd", lr=1.0, clip=1e-3)
    moved = torch.cat([(p - before[name]).flatten() for name, p in model.named_parameters()])
    assert moved.norm().item() == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize(
    ("changes", "steps", "ended"),
    [
        (dict(steps=5), 5, "steps"),
        (dict(steps=None, epochs=2), 14, "epochs"),
        (dict(steps=None, epochs=1.5), 11, "epochs"),
        (dict(steps=100, epochs=1, accumulate=3), 3, "epochs"),
        (dict(steps=100, minutes=0), 0, "minutes"),
        (dict(steps=0), 0, "steps"),
    ],
)
def test_ends(tmp_path, changes, steps, ended):
    run, _, summary = train(tmp_path / "run", **changes)
    assert (summary.steps, summary.ended) == (steps, ended)
    assert run.weights("last").is_file()


def test_epochs_of_a_stream_are_counted_without_its_length(tmp_path):
    _, _, summary = train(tmp_path / "run", data=Shuffled(lengths=False), steps=None, epochs=2)
    assert (summary.steps, summary.epochs) == (14, 2)


def test_patience(tmp_path):
    run, _, summary = train(
        tmp_path / "run", valid=Shuffled(seed=1), steps=500, patience=2, validate_every=1, optimizer="sgd", lr=1e-12
    )
    assert summary.ended == "patience"
    assert summary.steps == lines(run, "valid")[-1]["step"] == summary.best_step + 2


@pytest.mark.parametrize(
    ("metric", "mode", "best"),
    [("accuracy", "auto", max), ("accuracy", "min", min), ("nll", "auto", min), ("nll", "max", max)],
)
def test_more_is_better_of_accuracy_unless_it_is_said_otherwise(metric, mode, best, tmp_path):
    run, _, summary = train(tmp_path / "run", valid=Shuffled(seed=1), steps=40, metric=metric, mode=mode)
    values = [line[metric] for line in lines(run, "valid")]
    assert summary.best == best(values) and min(values) < max(values)


def test_validation_is_a_mean_over_units_in_eval_mode(tmp_path):
    valid = Shuffled(batches=5, seed=3)
    run, model, _ = train(tmp_path / "run", model=Toy(dropout=0.5), valid=valid, steps=10, validate_every=10)
    model.eval()
    outs = [model(batch) for batch in Shuffled(batches=5, seed=3)]
    expected = sum(out["nll"] * out["count"] for out in outs) / sum(out["count"] for out in outs)
    assert lines(run, "valid")[0]["nll"] == pytest.approx(expected.item(), rel=1e-6)


def test_validation_draws_the_same_random_numbers_every_time_and_none_of_the_training(tmp_path):
    def valid():
        return Shuffled(seed=3, noise=True)

    _, model, _ = train(tmp_path / "a", Toy(dropout=0.5), Shuffled(noise=True), valid(), validate_every=3)
    _, twin, _ = train(tmp_path / "b", Toy(dropout=0.5), Shuffled(noise=True))
    assert same(model, twin)
    run, _, _ = train(tmp_path / "c", valid=valid(), validate_every=1, optimizer="sgd", lr=1e-30, steps=3)
    assert len({line["loss"] for line in lines(run, "valid")}) == 1


def test_epochs_are_validated_at_their_ends(tmp_path):
    run, _, _ = train(tmp_path / "run", valid=Shuffled(seed=1), steps=None, epochs=3, validate_every=0)
    assert [(line["step"], line["epoch"]) for line in lines(run, "valid")] == [(7, 1), (14, 2), (21, 3)]


def test_keep_and_average(tmp_path):
    run, model, _ = train(tmp_path / "run", valid=Shuffled(seed=1), steps=50, keep=2, average=3)
    assert [step for step, _ in run.kept()] == [30, 40, 50]
    kept = [read_weights(path)[0] for _, path in run.kept()]
    mean, facts = read_weights(run.weights())
    assert run.weights() == run.weights("average") and facts["averaged"] == 3
    expected = torch.stack([weights["hidden.weight"].double() for weights in kept]).mean(0).float()
    assert torch.equal(mean["hidden.weight"], expected)
    assert torch.equal(mean["calls"], kept[-1]["calls"])
    load_weights(model, run.weights("average"))
    assert model.output.weight is model.embedding.weight


def test_models_are_kept_without_validation_data(tmp_path):
    run, _, summary = train(tmp_path / "run", steps=30, keep=2)
    assert [step for step, _ in run.kept()] == [20, 30]
    assert summary.best is None and run.weights() == run.weights("last")


@pytest.mark.parametrize(
    ("optimizer", "schedule"), [("adam", "noam"), ("adamw", "cosine"), ("sgd", "plateau"), ("adadelta", "step")]
)
def test_resumed_in_an_orderly_way_nothing_differs(tmp_path, optimizer, schedule):
    options = dict(
        optimizer=optimizer, schedule=schedule, warmup=10, width=8, accumulate=2, decay_after=0.5, decay_every=0.5
    )
    whole, a, first = train(
        tmp_path / "whole", Toy(dropout=0.3), Shuffled(noise=True), Shuffled(seed=1, noise=True), steps=30, **options
    )
    sessions = [*range(3, 30, 9), 30]
    for index, steps in enumerate(sessions):  # each with a fresh model and fresh loaders
        model, data, valid = Toy(dropout=0.3, seed=index), Shuffled(noise=True), Shuffled(seed=1, noise=True)
        last = index == len(sessions) - 1
        if not last:
            data.hook = stopper(data, steps * 2)
        parts, b, second = train(tmp_path / "parts", model, data, valid, resume=index > 0, steps=30, **options)
        assert second.interrupted != last
    assert same(a, b)
    assert (first.best, first.best_step) == (second.best, second.best_step)
    assert timeless(whole) == timeless(parts)
    assert same(read_weights(whole.weights("best"))[0], read_weights(parts.weights("best"))[0])


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_order_of_memory_may_differ_when_resumed(tmp_path, optimizer):
    options = dict(optimizer=optimizer, momentum=0.9) if optimizer == "sgd" else dict(optimizer=optimizer)
    _, whole, _ = train(tmp_path / "whole", steps=12, **options)
    train(tmp_path / "parts", steps=6, **options)
    model = Toy()
    weight = model.hidden.weight
    weight.data = weight.data.t().contiguous().t()
    _, parts, _ = train(tmp_path / "parts", model, resume=True, steps=12, **options)
    assert not parts.hidden.weight.is_contiguous()
    torch.testing.assert_close(parts.hidden.weight, whole.hidden.weight)


def stopper(data, batches):
    """Ctrl-C when ``batches`` have been read in all."""

    def hook():
        if data.epoch * data.batches + data.position == batches:
            os.kill(os.getpid(), signal.SIGINT)

    return hook


@pytest.fixture
def hangup():
    """SIGHUP as a terminal has it, whatever these tests were started from."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_step_and_leaves_a_usable_model(tmp_path, number, hangup):
    said, data = io.StringIO(), Shuffled()
    data.hook = lambda: data.position == 5 and os.kill(os.getpid(), number)
    before = signal.getsignal(number)
    run, model, summary = train(tmp_path / "run", data=data, said=said, valid=Shuffled(seed=1))
    assert (summary.steps, summary.ended, summary.interrupted) == (5, number.name, True)
    assert "stopped at step 5" in said.getvalue() and "go on with: CMD" in said.getvalue()
    assert signal.getsignal(number) is before
    fresh = Toy(seed=9)
    load_weights(fresh, run.weights())
    assert same(fresh, model)


def test_what_nohup_started_goes_on_when_the_terminal_is_closed(tmp_path, hangup):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    data = Shuffled()
    data.hook = lambda: data.position == 5 and os.kill(os.getpid(), signal.SIGHUP)
    assert train(tmp_path / "run", data=data)[2].ended == "steps"


class Gone(io.StringIO):
    """A terminal that was closed."""

    def isatty(self):
        return True

    def write(self, text):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_terminal_that_is_gone_does_not_end_the_training(tmp_path):
    assert train(tmp_path / "run", said=Gone(), valid=Shuffled(seed=1))[2].ended == "steps"


def test_a_folder_that_is_removed_meanwhile_is_noticed(tmp_path):
    data = Shuffled()
    data.hook = lambda: data.position == 3 and shutil.rmtree(tmp_path / "run", ignore_errors=True)
    with pytest.raises(FileNotFoundError, match=r"run was removed, or moved away, while it was trained: step 5 cannot"):
        train(tmp_path / "run", data=data)
    assert not (tmp_path / "run").exists()


def test_a_signal_during_validation_ends_it_and_it_is_made_up_for(tmp_path):
    valid = Shuffled(seed=1)
    valid.hook = lambda: valid.position == 3 and os.kill(os.getpid(), signal.SIGINT)
    run, _, summary = train(tmp_path / "run", valid=valid)
    assert summary.steps == 10 and lines(run, "valid") == []
    _, _, summary = train(tmp_path / "run", valid=Shuffled(seed=1), resume=True)
    assert [line["step"] for line in lines(run)] == [5, 10, 10, 15, 20, 20]
    _, _, summary = train(tmp_path / "run", valid=Shuffled(seed=1), resume=True)
    assert summary.ended == "steps"
    assert [line["step"] for line in lines(run)] == [5, 10, 10, 15, 20, 20]


def test_a_signal_during_the_last_validation_is_no_regular_end(tmp_path):
    valid = Shuffled(seed=1)
    valid.hook = lambda: valid.position == 3 and os.kill(os.getpid(), signal.SIGINT)
    run, _, summary = train(tmp_path / "run", valid=valid, steps=9)
    assert summary.interrupted and summary.best is None
    _, _, summary = train(tmp_path / "run", valid=Shuffled(seed=1), steps=9, resume=True)
    assert summary.ended == "steps" and summary.best_step == 9
    assert [line["step"] for line in lines(run)] == [5, 9]


def test_a_second_interrupt_is_obeyed_at_once(tmp_path, monkeypatch):
    from regard.training import interrupt

    data, now = Shuffled(), [0.0]
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: now[0])

    def hook():
        if data.position == 2:
            os.kill(os.getpid(), signal.SIGINT)
            now[0] = 0.5  # the launcher passing on the same one
            os.kill(os.getpid(), signal.SIGINT)
            now[0] = 2.0
            os.kill(os.getpid(), signal.SIGINT)

    data.hook = hook
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", data=data)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert Run.open(tmp_path / "run").weights("last").is_file()


def test_it_runs_in_a_thread(tmp_path):
    """A server or a notebook may; Python takes signals in the main thread only."""
    done = []
    thread = threading.Thread(target=lambda: done.append(train(tmp_path / "run")[2].ended))
    thread.start()
    thread.join()
    assert done == ["steps"]


def test_a_finished_run_can_be_given_more_steps(tmp_path):
    _, whole, _ = train(tmp_path / "whole", steps=25, model=Toy(dropout=0.2))
    train(tmp_path / "run", steps=15, model=Toy(dropout=0.2))
    _, model, summary = train(tmp_path / "run", steps=25, resume=True, model=Toy(dropout=0.2, seed=4))
    assert same(whole, model) and summary.steps == 25


@pytest.mark.parametrize("first", [1, 1.5])
def test_a_finished_run_can_be_given_more_epochs_and_no_validation_is_made_twice(tmp_path, first):
    options = dict(steps=None, validate_every=0)
    whole, model, _ = train(tmp_path / "whole", valid=Shuffled(seed=1), epochs=3, **options)
    train(tmp_path / "run", valid=Shuffled(seed=1), epochs=first, **options)
    run, twin, _ = train(tmp_path / "run", Toy(seed=3), valid=Shuffled(seed=1), epochs=3, resume=True, **options)
    assert same(model, twin)
    extra = [11] if first == 1.5 else []  # where the first session ended
    assert [line for line in timeless(run) if line["step"] not in extra] == timeless(whole)


def test_an_epoch_ends_where_the_data_ends_not_where_its_length_says(tmp_path):
    class Wrong(Shuffled):
        def __len__(self):
            return 4

    _, _, summary = train(tmp_path / "run", data=Wrong(), steps=None, epochs=2)
    assert summary.steps == 14


def test_a_trained_run_is_not_overwritten(tmp_path):
    run, _, _ = train(tmp_path / "run")
    with pytest.raises(FileExistsError, match="resume it, or choose another folder"):
        fit(Toy(), Shuffled(), None, run, config())


def test_one_process_at_a_time(tmp_path):
    run = Run.create(tmp_path / "run")
    with run.training(), pytest.raises(ValueError, match="another process is training in"):
        fit(Toy(), Shuffled(), None, run, config())


def test_another_optimizer_cannot_go_on(tmp_path):
    train(tmp_path / "run")
    with pytest.raises(ValueError, match="was trained with adam; it cannot go on with sgd"):
        train(tmp_path / "run", resume=True, optimizer="sgd", steps=30)


def test_another_model_cannot_go_on(tmp_path):
    train(tmp_path / "run")
    with pytest.raises(ValueError, match=r"do not fit this Toy: embedding.weight is \(10, 8\), in the model \(10, 4\)"):
        train(tmp_path / "run", model=Toy(width=4), resume=True, steps=30)


def test_bfloat16_and_the_model_comes_back_as_it_was(tmp_path, monkeypatch):
    seen = []

    class Watched(Toy):
        def forward(self, batch):
            seen.append(torch.is_autocast_enabled("cpu"))
            return super().forward(batch)

    model = Watched()
    for folder in ("a", "b"):  # accelerate marks what it has prepared; the second time must not be skipped
        seen.clear()
        train(tmp_path / folder, model=model, precision="bfloat16", valid=Shuffled(seed=1))
        assert all(seen)
        assert "forward" not in vars(model) and not any("accelerate" in name for name in vars(model))
    seen.clear()
    train(tmp_path / "c", model=model, precision="float32")
    assert not any(seen)
    for number, has in enumerate((False, True)):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda has=has: has)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
        seen.clear()
        said = io.StringIO()
        train(tmp_path / f"auto{number}", model=model, precision="auto", device="cpu", said=said)
        assert set(seen) == {has} and f"computing in {'bfloat16' if has else 'float32'}" in said.getvalue()
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_float16_needs_a_gpu(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("here is one")
    with pytest.raises(ValueError, match="float16' needs a GPU"):
        train(tmp_path / "run", precision="float16")


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_loss_that_is_not_finite_ends_it_and_spoils_no_checkpoint(tmp_path, where):
    class Exploding(Toy):
        def forward(self, batch):
            out = super().forward(batch)
            if self.calls == 8:
                bad = math.nan if where == "loss" else (self.hidden.weight.sum() * 0).sqrt()  # 0, with gradient inf · 0
                out["loss"] = out["loss"] + bad
            return out

    with pytest.raises(FloatingPointError, match=f"the {where} is no longer finite at step 8.*step-00000007"):
        train(tmp_path / "run", model=Exploding(), checkpoint_minutes=0, log_every=100)
    weights, _ = read_weights(Run.open(tmp_path / "run").weights("last"))
    assert all(value.isfinite().all() for value in weights.values())
    assert weights["calls"] == 7


def test_a_batch_without_a_unit_changes_nothing_and_is_no_trouble(tmp_path):
    class Nothing(Toy):
        def forward(self, batch):
            out = super().forward(batch)
            return out if self.calls != 5 else {name: value * 0 for name, value in out.items()}

    run, _, summary = train(tmp_path / "run", model=Nothing(), log_every=1)
    assert summary.steps == 20 and lines(run)[4]["count"] == 0 and lines(run)[4]["loss"] is None


def test_a_long_validation_does_not_let_the_checkpoint_grow_old(tmp_path):
    """The last one is made anew before a validation that would outlast it."""
    valid, found = Shuffled(seed=1), []
    run = Run.create(tmp_path / "run")
    valid.hook = lambda: found.append(run.last().name)
    fit(Toy(), Shuffled(), valid, run, config(steps=10), console=Console(file=io.StringIO()))
    assert set(found) == {"step-00000010"}


def test_the_metric_must_exist_and_that_shows_at_the_first_step(tmp_path):
    with pytest.raises(ValueError, match="gives no 'acuracy' to judge by: did you mean 'accuracy'"):
        train(tmp_path / "run", valid=Shuffled(), metric="acuracy")


class Empty(Shuffled):
    def __iter__(self):
        return iter(())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(data=Empty()), "the training data gave no batch in epoch 1"),
        (dict(valid=Empty()), "the validation data gave no batch"),
        (dict(data=Empty(lengths=False), schedule="cosine", steps=None, epochs=2), "'cosine' needs its last step"),
        (dict(optimizer="sgd", betas=(0.9, 0.98)), "betas is not for the optimizer 'sgd'"),
    ],
)
def test_what_cannot_work_is_said(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        train(tmp_path / "run", **options)


def test_a_loader_without_state_is_refused(tmp_path):
    with pytest.raises(TypeError, match="the training data cannot be resumed"):
        fit(Toy(), list(Shuffled()), None, Run.create(tmp_path / "run"), config())


def test_a_model_without_parameters_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no parameter to train"):
        fit(nn.Identity(), Shuffled(), None, Run.create(tmp_path / "run"), config())


@pytest.mark.parametrize("missing", ["loss", "count"])
def test_a_model_must_give_loss_and_count(tmp_path, missing):
    class Silent(Toy):
        def forward(self, batch):
            out = super().forward(batch)
            del out[missing]
            return out

    with pytest.raises(ValueError, match=f"must give '{missing}'"):
        train(tmp_path / "run", model=Silent())


def test_plain_lines_without_a_terminal(tmp_path):
    said = io.StringIO()
    train(tmp_path / "run", said=said, valid=Shuffled(seed=1), steps=40)
    text = said.getvalue().splitlines()
    first = re.fullmatch(r"step 1/40  epoch 0\.14  loss \d\.\d{4}  ([\d,]+) units/s", text[0])
    assert 1 < int(first[1].replace(",", "")) < 1e5
    assert sum(line.startswith("expected end: ") for line in text) == 1
    assert "valid: loss" in text[1] and text[1].endswith("(best)")
    assert re.fullmatch(r"ended at step 40 after \d+ s; best loss \d\.\d+ at step \d+", text[-1])
    assert "\x1b" not in said.getvalue()


def test_a_bar_in_a_terminal(tmp_path):
    said = io.StringIO()
    console = Console(file=said, force_terminal=True, width=140, color_system=None)
    fit(Toy(), Shuffled(), None, Run.create(tmp_path / "run"), config(steps=40), console=console, unit="items")
    assert "items/s" in said.getvalue() and "━" in said.getvalue() and "expected end: " in said.getvalue()


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    data = Shuffled()
    data.hook = stopper(data, 12)
    run, _, _ = train(tmp_path / "run", data=data, valid=Shuffled(seed=1), tensorboard=True)
    train(tmp_path / "run", valid=Shuffled(seed=1), tensorboard=True, resume=True)
    events = EventAccumulator(str(run.tensorboard)).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [5, 10, 15, 20]
    assert [event.step for event in events.Scalars("valid/nll")] == [10, 20]
    written = [line["loss"] for line in lines(run, "train")]
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(written)


def test_the_environment_bounds_threads(tmp_path, monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    try:
        torch.set_num_threads(2)
        train(tmp_path / "run", threads=2)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_busy_cores_leave_fewer_threads_while_it_trains(tmp_path, monkeypatch):
    before, seen = torch.get_num_threads(), []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("regard._threads.spare_cores", lambda: 1.2)
    watched = Engine.update
    monkeypatch.setattr(
        Engine, "update", lambda self, *args: (seen.append(torch.get_num_threads()), watched(self, *args))[1]
    )
    said = io.StringIO()
    try:
        train(tmp_path / "run", threads=2, said=said)
        assert set(seen) == {1} and torch.get_num_threads() == 2
        assert "1 of 2 threads, unless OMP_NUM_THREADS=2 is set" in said.getvalue()
    finally:
        torch.set_num_threads(before)


def test_threads_are_set(tmp_path):
    before = torch.get_num_threads()
    try:
        train(tmp_path / "run", threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
