"""Speech that is made: the synthesizer, strings with known times, flite and espeak-ng where they are."""

import shutil

import numpy as np
import pytest

from regard.data import made_speech, sound
from regard.data.made_speech import Voice


def voice(seed=0):
    return Voice.drawn(np.random.default_rng(seed))


def test_all_letters_can_be_said_and_are_heard():
    for letter in made_speech.ALPHABET.strip():
        wave = made_speech.say(letter, voice(), np.random.default_rng(1))
        assert wave.dtype == np.float32 and np.isfinite(wave).all() and 0.02 < np.abs(wave).max() < 0.91


def test_the_same_numbers_say_the_same():
    first, second = (made_speech.say("bada", voice(), np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, second)
    assert len(first) != len(made_speech.say("bada", voice(5), np.random.default_rng(3)))


def test_letters_differ():
    """The mean spectra of two letters differ more than those of one letter twice."""

    def spectrum(letter, seed):
        wave = made_speech.say(letter * 3, voice(), np.random.default_rng(seed))
        return sound.log_mel(wave, sound.Mel()).mean(0).numpy()

    for one, other in ("ai", "su", "mk", "tb"):
        apart = np.abs(spectrum(one, 0) - spectrum(other, 1)).mean()
        alike = np.abs(spectrum(one, 0) - spectrum(one, 1)).mean()
        assert apart > 2 * alike


def test_what_it_cannot_say_is_told():
    with pytest.raises(ValueError, match="cannot say 'ß'"):
        made_speech.say("straße", voice(), np.random.default_rng(0))


def test_times_of_a_string_are_where_the_parts_are():
    random = np.random.default_rng(4)
    parts = [np.full(n, value, np.float32) for n, value in ((800, 0.5), (1200, -0.25), (400, 0.125))]
    wave, times = made_speech.joined(parts, random, (0.01, 0.1))
    assert times.shape == (3, 2) and (np.diff(times.ravel())[1::2] >= 0.01 - 1e-3).all()
    for (start, end), part in zip(times, parts):
        assert np.array_equal(wave[round(start * 8000) : round(end * 8000)], part)
    assert len(wave) / 8000 > times[-1, 1]


class TestEngines:
    @pytest.mark.parametrize("name", ["flite/slt", "espeak/en-us+m3"])
    def test_a_text_is_said(self, name):
        if shutil.which(made_speech.ENGINES[name.split("/")[0]]) is None:
            pytest.skip(f"{name} is not installed")
        short, long = (made_speech.spoken(text, name) for text in ("yes", "-v this is a much longer sentence; rm -rf"))
        assert len(long) > 2 * len(short) > 2000 and np.abs(short).max() <= 1

    @pytest.mark.parametrize("name", ["slt", "flight/slt", "flite/"])
    def test_a_voice_that_is_none_is_told(self, name):
        with pytest.raises(ValueError, match="a voice is written flite/slt"):
            made_speech.spoken("hello", name)

    def test_an_engine_that_is_not_there_is_told(self, monkeypatch):
        monkeypatch.setattr(shutil, "which", lambda name: None)
        with pytest.raises(ValueError, match="needs the program espeak-ng, which is not installed"):
            made_speech.spoken("hello", "espeak/en")

    def test_what_was_said_once_is_kept(self, monkeypatch, tmp_path):
        monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
        said = []

        def spoken(text, voice, rate):
            said.append((text, voice))
            return np.full(len(text) * 10, 0.25, np.float32)

        monkeypatch.setattr(made_speech, "spoken", spoken)
        given = [("one", "flite/slt"), ("three", "flite/rms")]
        first, second = made_speech.collection(given), made_speech.collection(given)
        assert said == given and [len(wave) for wave in first] == [30, 50]
        assert all(np.array_equal(*pair) for pair in zip(first, second))
        made_speech.collection(given[:1])
        assert len(said) == 3
