import os
import signal
import time

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data import photographs
from regard.data.features import Store
from regard.data.photographs import Photograph
from regard.layers import efficientnet


@pytest.fixture
def photos(tmp_path):
    """Seven files with six contents."""
    found = []
    for number in range(7):
        pixels = np.random.default_rng(number % 6).integers(0, 255, (40, 48, 3), np.uint8)
        path = tmp_path / f"{number}.png"
        Image.fromarray(pixels).save(path)
        found.append(Photograph(path))
    return found


def store(tmp_path, **changes):
    return Store(**{"stage": 5, "size": 32, "folder": tmp_path / "store", **changes})


@pytest.fixture
def computed(monkeypatch):
    """How many images went through the backbone."""
    calls, compute = [], Store.compute
    monkeypatch.setattr(Store, "compute", lambda self, pixels: calls.append(len(pixels)) or compute(self, pixels))
    return calls


def test_features_are_the_backbones(tmp_path, photos):
    found = store(tmp_path).features(photos, batch=3)
    assert found.shape == (7, 4, 112) and len(found) == 7
    expected = efficientnet.pretrained().features(torch.from_numpy(photographs.read(photos[2], 32))[None], 5)
    torch.testing.assert_close(found[[2]], expected.flatten(2).mT, atol=0.02, rtol=1e-3)
    assert torch.equal(found[[0]], found[[6]])
    assert torch.equal(found[[4, 1]], torch.stack([found[4], found[1]]))


def test_each_content_is_computed_once(tmp_path, photos, computed):
    store(tmp_path).features(photos[:2], batch=4)
    before = store(tmp_path).features(photos, batch=4)
    assert computed == [2, 4]
    moved = tmp_path / "moved.png"
    photos[3].file.rename(moved)
    again = store(tmp_path).features([Photograph(moved), photos[0]])
    assert computed == [2, 4]
    assert torch.equal(again[[0, 1]], before[[3, 0]])


def test_another_stage_size_or_fit_is_another_store(tmp_path, photos, computed):
    for changes in ({}, {"stage": 7}, {"size": 64}, {"fit": "squash"}):
        found = store(tmp_path, **changes).features(photos[:1])
        assert found.shape == (1, store(tmp_path, **changes).side ** 2, store(tmp_path, **changes).width)
    assert computed == [1, 1, 1, 1]


@pytest.mark.parametrize(("grids", "keys"), [(-7, 0), (0, -5), (11, 0), (-1000, 3), (0, 32)])
def test_what_a_kill_left_is_mended(tmp_path, photos, grids, keys):
    expected = store(tmp_path).features(photos)[range(7)]
    held = store(tmp_path)
    for name, change in (("grids", grids), ("keys", keys)):
        path = held.folder / name
        data = path.read_bytes()
        path.write_bytes(data[:change] if change < 0 else data + bytes(change))
    found = store(tmp_path).features(photos, batch=2)
    torch.testing.assert_close(found[range(7)], expected, atol=0.02, rtol=1e-3)  # other batches, other rounding
    assert len(held) == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_while_computing_it_goes_on(tmp_path, photos, monkeypatch):
    compute = Store.compute
    held = store(tmp_path)
    held.compute(np.zeros((1, 3, 32, 32), np.uint8))  # loads the backbone
    child = os.fork()
    if not child:
        torch.set_num_threads(1)  # OpenMP's threads do not come along, and would be waited for
        monkeypatch.setattr(Store, "compute", lambda self, pixels: time.sleep(0.05) or compute(self, pixels))
        held.features(photos, batch=1)
        os._exit(0)
    deadline = time.monotonic() + 30
    while len(held) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert 2 <= len(held) < 6
    calls = []
    monkeypatch.setattr(Store, "compute", lambda self, pixels: calls.append(len(pixels)) or compute(self, pixels))
    done = len(held)
    assert held.features(photos).shape == (7, 4, 112)
    assert sum(calls) == 6 - done


def test_a_broken_file_is_named_and_nothing_is_lost(tmp_path, photos):
    (tmp_path / "broken.jpg").write_text("x")
    with pytest.raises(ValueError, match=r"broken\.jpg: not a JPEG"):
        store(tmp_path).features([*photos[:3], Photograph(tmp_path / "broken.jpg")], batch=1)
    assert len(store(tmp_path)) == 3
    with pytest.raises(ValueError, match=r"none\.jpg: no such file"):
        store(tmp_path).features([Photograph(tmp_path / "none.jpg")])


def test_the_default_place_is_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    assert Store().folder.parent == tmp_path / "features"


def test_sizes_and_stages_are_checked(tmp_path):
    with pytest.raises(ValueError, match="stages 1 to 8"):
        store(tmp_path, stage=9)
    with pytest.raises(ValueError, match="at least 32 pixels"):
        store(tmp_path, size=16)


def test_no_photographs(tmp_path):
    assert store(tmp_path).features([]).shape == (0, 4, 112)


def test_a_bar_counts_photographs(tmp_path, photos, capsys):
    store(tmp_path).features(photos, batch=2, progress=True)
    assert "features of photographs" in capsys.readouterr().err
