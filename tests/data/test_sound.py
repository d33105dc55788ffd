"""Sound files, rates and features, against loops and by what is known of them."""

import io
import math
import struct
import wave as wavefile

import numpy as np
import pytest
import soundfile
import torch

from regard.data import sound
from regard.data.sound import Mel


def tone(hertz, rate, seconds=0.5):
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


class TestFiles:
    @pytest.mark.parametrize("form", ["wav", "flac"])
    @pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (44100, 2), (96000, 2), (11025, 1), (16000, 6)])
    def test_any_rate_and_channels_become_the_same_wave(self, tmp_path, form, rate, channels):
        path = tmp_path / f"a.{form}"
        soundfile.write(path, np.stack([tone(440, rate)] * channels, 1), rate)
        found = sound.read(path)
        expected = tone(440, 8000)
        assert found.dtype == np.float32 and abs(len(found) - len(expected)) <= 1
        middle = slice(200, -200)
        assert np.abs(found[: len(expected)][middle] - expected[middle]).max() < 2e-3
        assert np.array_equal(found, sound.read(path.read_bytes()))

    def test_channels_are_averaged(self, tmp_path):
        soundfile.write(tmp_path / "a.wav", np.stack([tone(440, 8000), 0 * tone(440, 8000)], 1), 8000)
        assert np.allclose(sound.read(tmp_path / "a.wav"), tone(440, 8000) / 2, atol=1e-4)

    def test_a_channel_that_is_the_other_upside_down_does_not_silence_it(self, tmp_path):
        soundfile.write(tmp_path / "a.wav", np.stack([tone(440, 8000), -tone(440, 8000)], 1), 8000)
        assert np.allclose(np.abs(sound.read(tmp_path / "a.wav")), np.abs(tone(440, 8000)), atol=1e-4)

    def test_what_we_write_python_and_we_read(self):
        given = tone(300, 8000)
        data = sound.wav(given)
        with wavefile.open(io.BytesIO(data)) as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (8000, 1, 2)
            assert file.getnframes() == len(given)
        assert np.abs(sound.read(data) - given).max() < 1e-4

    @pytest.mark.parametrize(
        ("data", "told"),
        [
            (b"", "an empty file"),
            (b"hello, this is text\n" * 50, "not sound that can be read"),
            (sound.wav(np.zeros(8000)), "silence, 1.0 s of it"),
            (sound.wav(np.zeros(0)), "there is no sound in it"),
            (sound.wav(tone(440, 8000, 0.02)), "20 ms are too short"),
            (sound.wav(tone(440, 8000, 3.0)), "3.0 s long, but at most 2.0 s"),
            (sound.wav(tone(440, 8000))[:30], "not sound that can be read"),
        ],
    )
    def test_what_is_wrong_with_a_file_is_told_with_its_name(self, tmp_path, data, told):
        path = tmp_path / "talk.wav"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=told) as error:
            sound.read(path, longest=2.0)
        assert str(error.value).startswith(f"{path}: ")
        with pytest.raises(ValueError, match=f"^the recording: .*{told}"):
            sound.read(data, longest=2.0)

    def test_samples_without_a_header_are_no_sound(self, tmp_path):
        path = tmp_path / "talk.raw"
        path.write_bytes(bytes(2000))
        with pytest.raises(ValueError, match=r"talk\.raw: not sound that can be read"):
            sound.read(path)

    def test_a_recording_of_three_hours_is_not_read_into_memory(self, tmp_path, monkeypatch):
        path = tmp_path / "long.wav"
        with soundfile.SoundFile(path, "w", 8000, 1, "PCM_U8") as file:
            for _ in range(180):
                file.write(np.zeros(60 * 8000, np.float32))
        read, asked = soundfile.SoundFile.read, []
        monkeypatch.setattr(soundfile.SoundFile, "read", lambda self, n, **k: asked.append(n) or read(self, n, **k))
        with pytest.raises(ValueError, match=r"3:00:00 long, but at most 2:00 are listened to"):
            sound.read(path)
        assert max(asked) == 120 * 8000 + 1

    def test_a_sample_that_is_not_a_number_is_told(self, tmp_path):
        given = tone(440, 8000)
        given[7] = np.nan
        soundfile.write(tmp_path / "a.wav", given, 8000, subtype="FLOAT")
        with pytest.raises(ValueError, match="sample 7 is not a number"):
            sound.read(tmp_path / "a.wav")

    def test_a_header_may_not_claim_what_it_likes(self, tmp_path):
        data = bytearray(sound.wav(tone(440, 8000)))
        data[24:28] = struct.pack("<I", 4_000_000)
        with pytest.raises(ValueError, match="4000000 samples a second"):
            sound.read(bytes(data))

    def test_a_missing_file_and_a_folder_are_told(self, tmp_path):
        with pytest.raises(ValueError, match="no such file"):
            sound.read(tmp_path / "nothing.wav")
        with pytest.raises(ValueError, match=str(tmp_path)):
            sound.read(tmp_path)


class TestRates:
    @pytest.mark.parametrize(("rate", "wanted"), [(8000, 16000), (44100, 8000), (8000, 44100), (22050, 16000), (3, 2)])
    def test_against_the_sum_that_it_is(self, rate, wanted):
        """Σₖ x[k] h(n M / L − k) in float64."""
        given = np.random.default_rng(0).standard_normal(60)
        found = sound.resample(given, rate, wanted)
        up, down = (int(each) // math.gcd(rate, wanted) for each in (wanted, rate))
        cutoff = 0.99 * min(1.0, up / down)
        for n in range(len(found)):
            total = 0.0
            for k, x in enumerate(given):
                t = (k - n * down / up) * cutoff
                if abs(t) < 6:
                    total += x * np.sinc(t) * math.cos(t * math.pi / 12) ** 2 * cutoff
            assert found[n] == pytest.approx(total, abs=1e-5)

    def test_what_the_new_rate_cannot_hold_is_gone(self):
        assert np.abs(sound.resample(tone(6000, 44100), 44100, 8000)[100:-100]).max() < 3e-3

    def test_rates_without_a_common_measure(self):
        found = sound.resample(tone(440, 44101), 44101, 8000)
        assert len(found) == pytest.approx(4000, abs=2)
        assert np.abs(found - tone(440, 8000)[: len(found)])[100:-100].max() < 0.02

    def test_faster_is_shorter_and_higher(self):
        found = sound.faster(tone(400, 8000), 1.25)
        assert len(found) == 3200 and np.abs(found - tone(500, 8000)[:3200])[100:-100].max() < 2e-3


class TestFeatures:
    def test_log_mel_against_loops(self):
        mel, given = Mel(8000, bands=7), np.random.default_rng(1).standard_normal(700).astype(np.float32)
        found = sound.log_mel(given, mel)
        hz = lambda m: 700 * (10 ** (m / 2595) - 1)  # noqa: E731
        edges = [hz(b * 2595 * math.log10(1 + 4000 / 700) / 8) for b in range(9)]
        assert found.shape == (1 + (700 - 256) // 80, 7)
        for t in range(len(found)):
            x = [given[t * 80 + n] * (0.5 - 0.5 * math.cos(2 * math.pi * n / 256)) for n in range(256)]
            power = np.abs(np.fft.fft(np.array(x, dtype=np.float64))[:129]) ** 2
            for b in range(7):
                total = 0.0
                for k, p in enumerate(power):
                    f = k * 8000 / 256
                    up, down = (
                        (f - edges[b]) / (edges[b + 1] - edges[b]),
                        (edges[b + 2] - f) / (edges[b + 2] - edges[b + 1]),
                    )
                    total += max(0.0, min(up, down)) * p
                assert float(found[t, b]) == pytest.approx(math.log(total + 1e-6), abs=1e-4)

    def test_deltas_against_loops(self):
        given = np.random.default_rng(2).standard_normal((6, 3))
        found = sound.with_deltas(torch.from_numpy(given)).numpy()

        def slope(x):
            at = lambda t: x[min(max(t, 0), len(x) - 1)]  # noqa: E731
            return np.array([sum(n * (at(t + n) - at(t - n)) for n in (1, 2)) / 10 for t in range(len(x))])

        assert np.allclose(found[:, :3], given)
        assert np.allclose(found[:, 3:6], slope(given))
        assert np.allclose(found[:, 6:], slope(slope(given)))

    def test_normalized_features_are_so(self):
        given = torch.randn(50, 4) * torch.tensor([1.0, 5.0, 0.1, 0.0]) + 3
        found = sound.normalized(given)
        assert torch.allclose(found.mean(0), torch.zeros(4), atol=1e-4)
        assert torch.allclose(found[:, :3].std(0, unbiased=False), torch.ones(3), atol=1e-3)
        assert (found[:, 3] == 0).all()

    def test_louder_sounds_the_same(self):
        given = np.random.default_rng(3).standard_normal(4000).astype(np.float32)
        assert torch.allclose(sound.heard(given, Mel()), sound.heard(0.3 * given, Mel()), atol=2e-2)

    def test_less_than_a_frame_is_one(self):
        assert sound.heard(np.ones(10, np.float32), Mel()).shape == (1, 120)

    def test_a_warp_moves_the_bands(self):
        plain, wide = (sound.filters(Mel(bands=20), warp).argmax(0) for warp in (1.0, 1.1))
        assert (wide >= plain).all() and (wide[5:15] > plain[5:15]).any()
        assert torch.equal(sound.filters(Mel(bands=20), 1.0), sound.filters(Mel(bands=20)))

    def test_masks_hide_a_stretch_of_time_and_of_bands(self):
        given = torch.ones(100, 3 * 8)
        for seed in range(20):
            found = sound.masked(given, np.random.default_rng(seed), 10, 3, width=8)
            rows, columns = (found == 0).all(1), (found == 0).all(0)
            assert rows.sum() <= 10 and columns.sum() <= 9
            assert torch.equal(columns[:8], columns[8:16]) and torch.equal(columns[:8], columns[16:])
            assert ((found == 0) == (rows[:, None] | columns)).all()
        assert (given == 1).all()

    def test_silence_around_is_trimmed(self):
        given = np.concatenate([np.zeros(1600), tone(440, 8000), np.zeros(2400)]).astype(np.float32)
        found = sound.trimmed(given)
        assert len(found) == pytest.approx(4000, abs=400)

    @pytest.mark.slow
    def test_log_mel_and_deltas_against_torchaudio(self):
        torchaudio = pytest.importorskip("torchaudio")
        given = torch.randn(16000) * 0.1
        spectrum = torchaudio.transforms.MelSpectrogram(8000, 256, hop_length=80, n_mels=40, center=False)
        theirs = torch.log(spectrum(given) + 1e-6)
        assert torch.allclose(sound.log_mel(given, Mel()), theirs.T, atol=1e-4)
        deltas = torchaudio.functional.compute_deltas(theirs, win_length=5)
        assert torch.allclose(sound.with_deltas(theirs.T)[:, 40:80], deltas.T, atol=1e-4)


@pytest.mark.parametrize(("seconds", "said"), [(0.84, "0.8 s"), (125.2, "2:05"), (10800, "3:00:00")])
def test_clock(seconds, said):
    assert sound.clock(seconds) == said
