"""Pictures on disk, drawn digits, and what becomes of them."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.canvases import Distorted, Pairs, Scattered, drawn
from regard.data.images import read_idx, read_idx_folder
from regard.tasks.catch import Catch
from regard.tasks.catch import Config as CatchConfig
from regard.tasks.digits import DISTORTIONS, Config, Digits

REAL = Path(os.environ.get("REGARD_DATA", ""))


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 2048 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_set(folder: Path, count: int = 60, *, zipped: bool = False, side: int = 28) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (count, side, side)), np.arange(count) % 10
    for part in ("train", "t10k"):
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            data = idx(array)
            path = folder / f"{part}-{name}-ubyte{'.gz' * zipped}"
            path.write_bytes(gzip.compress(data) if zipped else data)
    return images, labels


def task(**options):
    return Digits(Config(**{"drawn": 60, "batch": 16, **options}))


class TestFiles:
    @pytest.mark.parametrize("zipped", [False, True])
    def test_idx(self, tmp_path, zipped):
        images, labels = write_set(tmp_path, zipped=zipped)
        found = Digits(Config(valid=20, batch=8), tmp_path)
        assert found.sizes == {"channels": 1, "height": 28, "width": 28, "classes": 10}
        assert [len(found.pictures[split]) for split in ("train", "valid", "test")] == [40, 20, 60]
        batch = next(iter(found.loader("test")))
        assert torch.equal(batch["image"][:, 0], torch.from_numpy(images[:8] / 255).float())
        assert batch["label"].tolist() == labels[:8].tolist()
        assert torch.equal(next(iter(found.loader("valid")))["label"], torch.from_numpy(labels[40:48]))

    def test_a_damaged_file_is_named(self, tmp_path):
        write_set(tmp_path)
        path = tmp_path / "train-images-idx3-ubyte"
        whole = path.read_bytes()
        path.write_bytes(whole[:-100])
        with pytest.raises(ValueError, match=r"train-images.*promises 60 × 28 × 28 bytes, but 46940 follow"):
            read_idx_folder(tmp_path)
        path.write_bytes(whole[:7])
        with pytest.raises(ValueError, match="7 bytes, too few"):
            read_idx_folder(tmp_path)
        path.write_bytes(b"PK\3\4" + whole[4:])
        with pytest.raises(ValueError, match="it is no IDX file"):
            read_idx_folder(tmp_path)
        path.write_bytes((tmp_path / "train-labels-idx1-ubyte").read_bytes() + b"0" * 40)
        with pytest.raises(ValueError, match="magic number 2049, and images have 2051: it holds labels"):
            read_idx_folder(tmp_path)
        path.write_bytes(idx(np.zeros((59, 28, 28))))
        with pytest.raises(ValueError, match="60 labels for 59 images"):
            read_idx_folder(tmp_path)
        path.unlink()
        with pytest.raises(ValueError, match=r"no train-images-idx3-ubyte or train-images-idx3-ubyte\.gz"):
            read_idx_folder(tmp_path)
        zipped = tmp_path / "train-images-idx3-ubyte.gz"
        zipped.write_bytes(gzip.compress(whole)[:-9])
        with pytest.raises(ValueError, match="not a whole gzip file"):
            read_idx(zipped, 2051)

    def test_npz(self, tmp_path):
        random = np.random.default_rng(0)
        arrays = {}
        for split in ("train", "valid", "test"):
            arrays[f"X_{split}"] = random.random((12, 49), np.float32)
            arrays[f"y_{split}"] = random.integers(0, 3, (12, 1))
        np.savez(tmp_path / "a.npz", **arrays)
        found = Digits(Config(kind="npz", batch=5), tmp_path)
        assert found.sizes["height"] == 7 and len(found.loader("test")) == 3
        batch = next(iter(found.loader("valid")))
        assert torch.equal(batch["image"].flatten(1), torch.from_numpy(arrays["X_valid"][:5]))
        arrays["X_train"][3, 4] = np.nan
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(ValueError, match=r"a\.npz: image 3 of X_train has a pixel nan"):
            Digits(Config(kind="npz"), tmp_path)
        del arrays["y_test"]
        arrays["X_train"][3, 4] = 0
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(ValueError, match=r"a\.npz.*y_test"):
            Digits(Config(kind="npz"), tmp_path)
        (tmp_path / "a.npz").write_bytes(b"nothing")
        with pytest.raises(ValueError, match="not a whole archive"):
            Digits(Config(kind="npz"), tmp_path)

    def test_a_folder_of_images(self, tmp_path):
        image = pytest.importorskip("PIL.Image")
        for name, shade in (("cat", 40), ("dog", 200)):
            (tmp_path / name).mkdir()
            for number in range(10):
                image.new("RGB", (20, 30), (shade, 0, number)).save(tmp_path / name / f"{number}.png")
        found = Digits(Config(kind="folder", size=8, colour=True, batch=4), tmp_path)
        assert found.classes == ["cat", "dog"] and found.sizes["channels"] == 3
        assert [len(found.pictures[split]) for split in ("train", "valid", "test")] == [16, 2, 2]
        batch = next(iter(found.loader("train")))
        assert torch.equal((batch["image"][:, 0, 0, 0] > 0.5).long(), batch["label"])
        assert found.prepare(tmp_path / "cat" / "1.png").shape == (3, 8, 8)
        (tmp_path / "cat" / "3.png").write_bytes(b"not a picture")
        with pytest.raises(ValueError, match=r"cat/3\.png: not a whole image"):
            Digits(Config(kind="folder", size=8), tmp_path)
        with pytest.raises(ValueError, match="say which, size"):
            Config(kind="folder")
        for kind in ("plain", "npz"):
            with pytest.raises(ValueError, match="in a folder for each class are read with kind=folder size=28"):
                Digits(Config(kind=kind), tmp_path)

    def test_no_data_says_how_to_go_on(self, tmp_path, monkeypatch):
        monkeypatch.setenv("REGARD_DATA", str(tmp_path))
        monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
        with pytest.raises(ValueError, match="data=drawn"):
            Digits(Config(data="mnist"))

    @pytest.mark.skipif(not (REAL / "mnist").is_dir(), reason="needs MNIST in $REGARD_DATA")
    def test_the_real_one(self):
        found = Digits(Config(data="mnist"))
        assert [len(found.pictures[split]) for split in ("train", "valid", "test")] == [55_000, 5_000, 10_000]
        assert next(iter(found.loader("test")))["label"][:5].tolist() == [7, 2, 1, 0, 4]


class TestCanvases:
    def test_scattered_against_a_loop(self):
        random = np.random.default_rng(1)
        digits = random.integers(0, 256, (9, 1, 10, 10)).astype(np.uint8)
        canvas = Scattered(25, 10, 9, clutter=6, piece=4)
        plan, chosen = canvas.plan(random, 7), np.array([3, 1, 4, 1, 5, 8, 2])
        found = canvas.paint(digits, chosen, plan)
        for n in range(7):
            expected = np.zeros((25, 25))
            for k in range(6):
                (sy, sx), (ty, tx) = plan["source"][n, k], plan["target"][n, k]
                piece = digits[plan["which"][n, k], 0, sy : sy + 4, sx : sx + 4]
                expected[ty : ty + 4, tx : tx + 4] = np.minimum(expected[ty : ty + 4, tx : tx + 4] + piece / 255, 1)
            y, x = plan["corner"][n]
            whole = expected[y : y + 10, x : x + 10] + digits[chosen[n], 0] / 255
            expected[y : y + 10, x : x + 10] = np.minimum(whole, 1)
            assert np.allclose(found[n, 0], expected, atol=1e-6)
            assert np.allclose((canvas.centre(plan)[n] + 1) / 2 * 25, [x + 5, y + 5])
        assert {int(c) for c in Scattered(25, 10, 9).plan(random, 4000)["corner"].ravel()} == set(range(16))

    def test_pairs_do_not_overlap(self):
        random = np.random.default_rng(0)
        digits = np.full((2, 1, 10, 10), 100, np.uint8)
        canvas = Pairs(22, 10, 2)
        plan = canvas.plan(random, 200)
        images = canvas.paint(digits, np.zeros(200, int), plan)
        assert np.isclose(images.max(), 100 / 255) and np.allclose(images.sum((1, 2, 3)), 200 * 100 / 255, rtol=1e-4)
        assert (plan["corner"][:, 1, 1] - plan["corner"][:, 0, 1] >= 10).all()

    def test_distortions(self):
        random = np.random.default_rng(0)
        digits = np.zeros((1, 1, 28, 28), np.uint8)
        digits[0, 0, 4:24, 12:16] = 255  # a bar that stands
        chosen = np.zeros(40, int)
        for how, size in DISTORTIONS.items():
            canvas = Distorted(size, 28, how)
            images = canvas.paint(digits, chosen, canvas.plan(random, 40))
            assert images.shape == (40, 1, size, size) and images.min() >= 0 and images.max() <= 1
            assert images.std(0).max() > 0.05  # each is another
            if how in ("R", "T"):
                assert np.allclose(images.sum((1, 2, 3)), 80, rtol=0.06)

    def test_a_quarter_turn(self):
        digits = np.random.default_rng(0).integers(0, 256, (1, 1, 28, 28)).astype(np.uint8)
        from regard.data.canvases import _turned

        matrix = _turned(np.array([np.pi / 2]), np.ones(1), np.full((1, 2), 14.0), 14.0).astype(np.float32)
        found = Distorted(28, 28, "R").paint(digits, np.zeros(1, int), {"matrix": matrix})[0, 0]
        assert np.allclose(found, np.rot90(digits[0, 0], -1) / 255, atol=1e-4)

    def test_thin_plates_go_through_their_points(self):
        from regard.data.canvases import _thin_plate

        steps = (np.arange(4) + 0.5) * 7
        points = np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 2)
        assert np.allclose(_thin_plate(points, 28), np.eye(16), atol=1e-4)

    def test_four_corners_make_a_perspective(self):
        from regard.data.canvases import _CORNERS, _homography

        random = np.random.default_rng(0)
        source = _CORNERS * 10 + random.normal(0, 2, (5, 4, 2))
        for corners, matrix in zip(source, _homography(source, _CORNERS)):
            x, y, z = matrix @ np.concatenate([corners, np.ones((4, 1))], 1).T
            assert np.allclose(np.stack([x / z, y / z], 1), _CORNERS)

    def test_drawn_digits_can_be_told_apart(self):
        """By the nearest mean: what a person reads, a simple rule reads too."""
        images, labels = drawn(np.random.default_rng(0), 1500)
        flat = images.reshape(len(images), -1) / 255.0
        means = np.stack([flat[:1000][labels[:1000] == digit].mean(0) for digit in range(10)])
        guessed = ((flat[1000:, None] - means) ** 2).sum(-1).argmin(1)
        assert (guessed == labels[1000:]).mean() > 0.6
        assert 0.05 < flat.mean() < 0.3 and flat.max() == 1


class TestTask:
    @pytest.mark.parametrize("kind", ["plain", "translated", "cluttered", "two", "distorted", "addition"])
    def test_batches(self, kind):
        found = task(kind=kind)
        loader, sizes = found.loader("train", seed=1), found.sizes
        batches = list(loader)
        assert len(batches) == len(loader) == 4
        for batch in batches:
            assert batch["image"].shape[1:] == (sizes["channels"], sizes["height"], sizes["width"])
            assert batch["image"].dtype == torch.float32 and 0 <= batch["image"].min() <= batch["image"].max() <= 1
            assert batch["label"].max() < sizes["classes"] == len(found.classes)
            if kind == "two":
                assert torch.equal(batch["label"], batch["digits"] @ torch.tensor([10, 1]))
            if kind == "addition":
                assert torch.equal(batch["label"], batch["digits"].sum(1)) and sizes["channels"] == 2
        again = list(found.loader("train", seed=1))
        assert all(torch.equal(a["image"], b["image"]) for a, b in zip(batches, again))
        other = next(iter(loader))  # the next epoch
        assert not torch.equal(other["image"], batches[0]["image"])

    @pytest.mark.parametrize("options", [{"kind": "cluttered"}, {"binarize": True}, {"kind": "addition"}])
    def test_the_test_is_the_same_whatever_the_batch(self, options):
        options = {**options, "drawn": 300}
        wholes = [torch.cat([b["image"] for b in task(**options, batch=size).loader("test")]) for size in (7, 30)]
        assert torch.equal(*wholes)
        assert torch.equal(wholes[0][:7], next(iter(task(**options, batch=7).loader("test", seed=5)))["image"])

    def test_going_on_where_it_stopped(self):
        found = task(kind="translated")
        loader = found.loader("train", seed=3)
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        rest = [batch["image"] for batch in iterator] + [batch["image"] for batch in loader]
        other = found.loader("train", seed=3)
        other.load_state_dict(state)
        resumed = [batch["image"] for batch in other] + [batch["image"] for batch in other]
        assert len(rest) == len(resumed) == 7 and all(torch.equal(a, b) for a, b in zip(rest, resumed))
        with pytest.raises(ValueError, match="kind was 'translated' and is 'cluttered'"):
            task(kind="cluttered").loader("train", seed=3).load_state_dict(state)

    def test_binarized_pixels_are_as_often_1_as_they_are_bright(self):
        found = task(binarize=True, drawn=20, batch=20)
        loader, grey = found.loader("train", shuffle=True), task(drawn=20, batch=20).pictures["train"].image / 255.0
        total = 0.0
        for _ in range(100):
            (batch,) = loader
            assert set(batch["image"].unique().tolist()) <= {0.0, 1.0}
            total += batch["image"].mean().item() / 100
        assert abs(total - grey.mean()) < 0.005

    def test_saved_and_loaded(self, tmp_path):
        found = task(kind="cluttered", size=40, clutter=2)
        found.save(tmp_path)
        other = Digits.load(tmp_path, batch=5)
        assert other.config.batch == 5 and other.sizes == found.sizes and "pictures" not in vars(other)
        first = next(iter(other.loader("test")))["image"]
        assert torch.equal(first, next(iter(found.loader("test")))["image"][:5])
        with pytest.raises(ValueError, match="'clutter'"):
            Digits.load(tmp_path, cluter=1)
        (tmp_path / "task.json").write_text("{}")
        with pytest.raises(ValueError, match="not the description of a task"):
            Digits.load(tmp_path)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"kind": "clutered"}, "'cluttered'"),
            ({"distortion": "X"}, "known: E, P, R, RTS, T"),
            ({"batch": 0}, "batch must be at least 1, not 0"),
            ({"kind": "translated", "size": 20}, "28 pixels are needed"),
            ({"kind": "two", "size": 50}, "56 pixels are needed"),
            ({"kind": "cluttered", "piece": 29}, "piece = 29"),
        ],
    )
    def test_bad_settings(self, options, message):
        with pytest.raises(ValueError, match=message):
            task(**options)
        with pytest.raises(ValueError, match="'test'"):
            task().loader("tst")


def test_catch():
    found = Catch(CatchConfig(size=9, batch=500, batches=2, measured=1))
    assert found.sizes == {"height": 9, "width": 9, "paddle": 2}
    first, second = found.loader("train")
    for name, span in {"ball": range(9), "speed": range(-1, 2), "paddle": range(8)}.items():
        assert set(first[name].tolist()) == set(span)
    assert not torch.equal(first["ball"], second["ball"])
    (valid,) = found.loader("valid", seed=0)
    assert torch.equal(valid["ball"], next(iter(found.loader("valid")))["ball"])
    with pytest.raises(ValueError, match="size = 2"):
        CatchConfig(size=2)
