"""The benchmark of translation: what is compared, what is refused, and that one broken toolkit ends nothing."""

import json
import subprocess
import sys
from pathlib import Path

import bench_translate as bench
import pytest
import torch
from peers import common
from torch.utils.flop_counter import FlopCounterMode

from regard.bench import translate
from regard.decode.packed import packed

WORKS = ("train-transformer", "decode-rnn")


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def contender(folder, name, body, works=WORKS):
    """A fake: a script that does what a real one does at its end."""
    script = folder / f"{name}.py"
    script.write_text(f"import json, sys, os\njob = json.loads(sys.argv[1])\n{body}\n")
    return bench.Contender(name, script, works)


def telling(rate, megabytes=100):
    found = f'{{"rate": {rate}, "units": 10, "steps": 2, "seconds": 1.0, "megabytes": {megabytes}, "parameters": 10}}'
    return f"print('some log'); print(json.dumps({found})); print('a later log')"


def measured(chosen, works=WORKS, rounds=3):
    results, said = bench.Results(), []
    pythons = dict.fromkeys((each.name for each in chosen), sys.executable)
    bench.measure(chosen, works, rounds, pythons, {"threads": 1}, results, said.append)
    return results, said


def cells(text):
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return [dict(zip(head, row)) for row in body]


def test_ratios_are_to_the_best_peer_and_rounds_take_turns(tmp_path):
    # The rates of three rounds: the scratch folder is new each time, so that the count is kept beside the script.
    changing = """
path = __file__ + job["work"]
number = len(open(path).read()) if os.path.exists(path) else 0
open(path, "a").write("x")
""" + telling("[30, 90, 36][number]", 300)
    chosen = [
        contender(tmp_path, "ours", changing),
        contender(tmp_path, "slow", telling(9, 200)),
        contender(tmp_path, "fast", telling(12, 400)),
        contender(tmp_path, "other", telling(1000), works=("decode-transformer",)),
    ]
    results, said = measured(chosen)
    assert [line.partition(": ")[2].split(": ")[0] for line in said[:6]] == [
        f"{work}, {name}" for work in WORKS for name in ("ours", "slow", "fast")
    ]
    assert said[6].startswith("  round 2: train-transformer, ours: 90.0 tokens/s")
    train, decode, memory = cells(bench.table(results, chosen, WORKS))
    assert (train["ours"], train["best peer"], train["ours ÷ best"], train["target"]) == (
        "36.0",
        "fast",
        "3.00",
        "≥ 1.25",
    )
    assert train["other"] == decode["other"] == "–" and decode["target"] == "≥ 3"
    assert (memory["work"], memory["best peer"], memory["ours ÷ best"]) == (
        "train Transformer, peak MB",
        "slow",
        "1.50",
    )
    told = "\n".join(bench.notes(results))
    assert "200 % apart" in told and "ours 0.00 M, 5" in told


def test_a_broken_peer_is_told_and_not_asked_again(tmp_path):
    chosen = [
        contender(tmp_path, "ours", telling(10)),
        contender(
            tmp_path, "broken", "sys.exit('no such thing as a decoder') if 'rnn' in job['work'] else 0;" + telling(5)
        ),
        contender(tmp_path, "silent", "print('hello')"),
    ]
    results, said = measured(chosen, rounds=2)
    assert sum("did not run" in line for line in said) == 3
    train, decode, _ = cells(bench.table(results, chosen, WORKS))
    assert (train["broken"], train["ours ÷ best"]) == ("5.0", "2.00")
    assert (decode["broken"], decode["silent"], decode["best peer"], decode["ours ÷ best"]) == (
        *("did not run",) * 2,
        *("",) * 2,
    )
    told = "\n".join(bench.notes(results))
    assert "broken, decode-rnn did not run: no such thing as a decoder" in told
    assert "silent, train-transformer did not run: it printed no result" in told
    with pytest.raises(bench.Failed, match="not done after"):
        bench.once(contender(tmp_path, "endless", "while True: pass"), sys.executable, {"threads": 1}, timeout=0.3)


def test_an_environment_that_cannot_be_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "HOME", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    peer = bench.Contender("nobody", tmp_path / "none.py", WORKS, "nobody", ("surely-no-such-package==1.2",))
    ours = contender(tmp_path, "ours", telling(10))
    results = bench.Results()
    pythons = bench.set_up([ours, peer], results)
    assert pythons == {"ours": sys.executable}
    assert "surely-no-such-package" in results.failures["nobody"] and not (tmp_path / "nobody" / ".ready").exists()
    assert "Setting up nobody" in capsys.readouterr().err
    bench.measure([ours, peer], WORKS, 1, pythons, {"threads": 1}, results, str)
    assert {row["nobody"] for row in cells(bench.table(results, [ours, peer], WORKS))} == {"could not be set up"}

    # One that has its stamp is used as it is, with the packages of ours below its own.
    (tmp_path / "nobody" / ".ready").write_text(
        json.dumps({"needs": peer.needs, "base": sys.executable, "version": sys.version})
    )
    python = bench.environment(peer)
    found = subprocess.run(
        [python, "-c", "import torch, regard; print(torch.__file__)"], capture_output=True, text=True
    )
    assert Path(found.stdout.strip()) == Path(torch.__file__)


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/python3 .venv/bin/regard train ram-mnist --out x",
        "regard train translate",
        "python -m regard.cli train translate",
        ".venv/bin/python -m pytest -x tests",
        "/home/a/.venv/bin/python /home/a/.venv/bin/pytest",
    ],
)
def test_it_refuses_while_something_trains(command, monkeypatch, capsys):
    line = f"  99999 Rl   {command}\n"
    assert command[:100] in bench.busy(line, load=0.0)
    assert bench.busy(line.replace("Rl", "Tl"), load=0.0) is None  # stopped
    monkeypatch.setattr(bench, "busy", lambda: "the machine is busy: so it is")
    monkeypatch.setattr(bench, "set_up", lambda *_: pytest.fail("it went on"))
    assert bench.main([]) == 1
    assert "so it is. Speeds measured now would be wrong; --anyway" in capsys.readouterr().err


def test_what_does_not_train_may_run():
    lines = "1 Ss /sbin/init\n2 S vim regard train\n3 S python -m regard.cli serve train\n4 S regard --help\n"
    assert bench.busy(lines, load=0.0) is None
    assert "load" in bench.busy(lines, load=1000.0)


def test_the_clock_counts_whole_passes_after_the_warm_up(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr(common.time, "perf_counter", lambda: next(now))
    window = common.Window(seconds=3, warmup=2, whole=2)
    for _ in range(6):
        window.step(7)
    with pytest.raises(common.Over):
        window.step(7)
    assert (window.steps, window.seconds, window.units) == (4, 4, 28)


@pytest.mark.parametrize("work", WORKS)
def test_ours_is_measured(work, tmp_path):
    """The real script, on a toy text."""
    from regard.tasks.translation import Config, Translation

    draw = torch.Generator().manual_seed(0)
    pairs = torch.randint(97, 123, (80, 2, 6), generator=draw).tolist()
    for name, few in (("train", pairs[:64]), ("val", pairs[64:72]), ("test", pairs[72:])):
        for side, ending in enumerate(("en", "de")):
            lines = (" ".join(map(chr, pair[side])) + "\n" for pair in few)
            (tmp_path / f"{name}.{ending}").write_text("".join(lines))
    task = Translation(Config(vocab=300), tmp_path)
    task.save(tmp_path / "task")
    (tmp_path / "decode.src").write_text("".join(f"{number} 5 6\n" for number in range(4, 8)))
    job = {"text": str(tmp_path), "threads": 1, "seconds": 0.05, "tokens": 64, "work": work}
    job |= {"batch": 2, "beam": 3, "length": 4}
    found = bench.once(bench.CONTENDERS[0], sys.executable, job)
    assert found["rate"] == pytest.approx(found["units"] / found["seconds"]) and found["megabytes"] > 100
    if work.startswith("decode"):
        assert found["units"] == 2 * found["steps"] and found["steps"] % 2 == 0
    else:
        assert found["steps"] >= 1 and found["units"] <= 64 * found["steps"]


def test_without_the_text_it_says_where_it_looked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setattr(bench, "set_up", lambda *_: pytest.fail("environments are made before the text is found"))
    assert bench.main(["--anyway"]) == 1
    assert str(tmp_path / "multi30k") in capsys.readouterr().err


@pytest.mark.parametrize("system", translate.SYSTEMS)
def test_operations_of_packed_products_are_counted_as_those_of_plain_ones(system):
    """A step's; PyTorch does not know what oneDNN's linear layer and LSTM cost."""
    torch.manual_seed(0)
    model = translate.SYSTEMS[system](500).eval()
    batch = translate._sources({"batch": 64, "length": 6, "vocabulary": 500})
    counts = []
    for each in (model, packed(model)):
        with torch.no_grad():
            _, state = each.step(torch.full((64,), 4), each.start(batch))
            with FlopCounterMode(display=False, custom_mapping=translate._UNCOUNTED) as counter:
                each.step(torch.full((64,), 4), state)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 1e8


def test_a_profile_tells_time_in_products_and_elsewhere(capsys):
    (row,) = translate.run(quick=True, only="profile: train attention RNN")["profile"]
    assert row.products > 0 and 0 < row.rate < 2 * row.best
    assert len(row.others) == 3 and not {name for name, _ in row.others} & set(translate.PRODUCTS)
    assert "| train attention RNN |" in capsys.readouterr().out


def test_growth_and_its_slopes(tmp_path, capsys):
    found = translate.run(tmp_path / "found.json", quick=True, only="growth: decode attention RNN, beam")["growth"]
    assert [row.size for row in found] == [1, 2] and all(row.rate > 0 for row in found)
    written = json.loads((tmp_path / "found.json").read_text())
    assert written["growth"][1]["size"] == 2 and written["machine"]["versions"]["torch"] == torch.__version__
    assert "- decode attention RNN: time ∝ beam^" in capsys.readouterr().out
    translate.run(quick=True, only="growth: train Transformer, length")
    rows = [translate.Growth("work", "batch", size, float(size**2), 1.0) for size in (1, 10, 100)]
    assert list(translate.slopes(rows)) == ["- work: time ∝ batch^2.00, 1 to 100"]
    with pytest.raises(ValueError, match="'nothing like it'"):
        translate.run(quick=True, only="nothing like it")


def test_a_file_through_predict(capsys):
    (found,) = translate.run(quick=True, only="predict: 1")["predict"]
    assert found.lines == 40 and found.rate > 0
    if sys.platform == "linux":
        assert found.megabytes_early > 100 and found.megabytes_late > 100


def test_engines_are_compared_with_ours(monkeypatch, capsys):
    def missing(*_):
        raise ImportError("it is not here")

    monkeypatch.setenv("REGARD_DATA", "/nowhere")
    monkeypatch.setenv("REGARD_CACHE", "/nowhere")
    monkeypatch.setattr(translate, "_onnxruntime", missing)  # its export takes half a minute
    rows = {(row.engine, row.search): row for row in translate.run(quick=True, only="engines")["engines"]}
    assert rows["ours", "beam 5"].same == 100 and rows["ours", "beam 5"].bleu is None
    if ("ctranslate2", "beam 5") in rows:  # it may end a beam earlier than ours, which changes an answer here and there
        assert rows["ctranslate2", "beam 5"].same >= 75
    told = capsys.readouterr().err
    assert "no BLEU" in told and "onnxruntime is left out: it is not here" in told


@pytest.mark.slow
def test_onnxruntime_answers_as_ours(monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("REGARD_DATA", "/nowhere")
    monkeypatch.setenv("REGARD_CACHE", "/nowhere")
    rows = {(row.engine, row.search): row for row in translate.run(quick=True, only="engines")["engines"]}
    assert rows["onnxruntime", "greedy"].same == 100
