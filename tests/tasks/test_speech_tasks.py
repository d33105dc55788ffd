"""Spoken digits and speech: what is heard, split, written, timed and measured."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch

from regard import registry, runs
from regard._lazy import load
from regard.axes import Words
from regard.data import made_speech, sound, utterances
from regard.decode.written import Written
from regard.tasks import speech
from regard.tasks.spoken_digits import Config, SpokenDigits

TINY = {"bands": 12, "batch": 4, "train_size": 12, "valid_size": 5, "test_size": 6, "most": 3}


def digits(data=None, **options):
    return SpokenDigits(Config(**{**TINY, **options}), data)


def recordings(folder, speakers):
    random = np.random.default_rng(0)
    (folder / "recordings").mkdir(parents=True)
    for who in speakers:
        voice = made_speech.Voice.drawn(random)
        for digit, name in enumerate(made_speech.NUMBERS):
            path = folder / "recordings" / f"{digit}_{who}_0.wav"
            path.write_bytes(sound.wav(made_speech.say(name, voice, random)))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return recordings(tmp_path_factory.mktemp("digits"), [f"{n:02}" for n in range(16)])


def perfect(item, task):
    """An answer that says the truth and looks at the middle of each word."""
    labels = item.text.split()
    weights = torch.zeros(len(labels), len(item.features))
    for row, (start, end) in enumerate(item.spans):
        weights[row, round(50 * (start + end))] = 1
    return task.looked(Written(Words(labels), weights, 0.0, 0.0, {"spectrogram": weights}, item))


class TestDigits:
    def test_strings_are_of_one_speaker_and_of_the_right_split(self, folder):
        task = digits(str(folder))
        heard = {each.speaker: each for each in task._recordings}
        assert len(heard) == 16 and len(task.known["speakers"]) == 13
        splits = utterances.held_out(heard)
        for split in ("train", "valid", "test"):
            own = [wave for each in task._recordings if splits[each.speaker] == split for wave in [each.wave.tobytes()]]
            for number in range(5):
                item = task.item(split, number)
                for start, end in item.spans:
                    assert item.wave[round(start * 8000) : round(end * 8000)].tobytes() in own
                assert len(item.spans) == len(item.text.split()) <= 3

    def test_on_other_peoples_voices_all_are_for_test(self, folder, tmp_path):
        task = digits(str(folder))
        other = recordings(tmp_path, ["ann", "bob", "eve"])
        again = SpokenDigits(task.config, str(other), known=task.known)
        assert again.item("test", 0).text
        with pytest.raises(ValueError, match="all its speakers are new to this system"):
            again.loader("valid")

    def test_speakers_of_training_are_never_for_test(self, tmp_path):
        task = digits(str(recordings(tmp_path / "one", ["ann", "bob", "eve", "joe"])))
        assert task.known["speakers"] == ["ann", "bob"]
        other = recordings(tmp_path / "two", ["abe", "bob", "al"])  # its last speaker would be held out
        again = SpokenDigits(task.config, str(other), known=task.known)
        voices = {each.wave.tobytes() for each in again._recordings if each.speaker == "bob"}
        heard = [wave.tobytes() for many in again._by_speaker["test"] for waves in many for wave in waves]
        assert len(heard) == 20 and not voices & set(heard)
        with pytest.raises(ValueError, match="the speakers of training stay there"):
            again.loader("valid")

    def test_training_is_new_in_every_epoch_and_grows(self):
        task = digits(grow=2, most=3)
        assert [task.reach(epoch) for epoch in range(4)] == [1, 2, 3, 3]
        loader = task.loader("train")
        first, second = list(loader), list(loader)
        assert all(batch["target_lengths"].max() <= 2 for batch in first)
        assert not torch.equal(first[0]["frames"][:, :10], second[0]["frames"][:, :10])
        assert set(first[0]) == {"frames", "frame_lengths", "target", "target_lengths"}
        lengths = {batch["frames"].shape[1] for batch in (*first, *second)}
        assert all(length % 32 == 0 for length in lengths)  # PyTorch keeps an operator for each length

    def test_features_of_an_item_are_those_of_its_sound(self):
        task = digits()
        item = task.item("test", 1)
        found = task.read(SimpleNamespace(sound=sound.wav(item.wave), example=0, times=False, subtitles="none"))
        assert torch.allclose(found.features, item.features, atol=0.05) and found.text is None

    def test_repeats_and_longer_strings_are_there_and_measured(self):
        task = digits(data=None, repeat=0.9, stretch=3, test_size=30, most=3)
        items = [task.item("test", number) for number in range(30)]
        counts = [len(item.text.split()) for item in items]
        assert max(counts[0::2]) <= 3 and max(counts[1::2]) == 9 and all(count % 3 == 0 for count in counts[1::2])
        answers = [perfect(item, task) for item in items]
        values = task.measure("test", answers)
        assert values["wer"] == values["wer_longer"] == values["wer_usual"] == values["wer_repeats"] == 0
        assert values["tau"] == 1 and values["right"] == 100
        wrong = [
            dataclasses.replace(each, words=Words(["0"] * len(each.words))) for each in answers if len(each.words) > 3
        ]
        values = task.measure("test", [answers[0], *wrong])
        assert values["wer_usual"] == 0 and values["wer_longer"] > 50

    def test_the_times_of_a_perfect_look_are_right(self):
        task = digits(test_size=20, least_gap=0.05)
        found = [perfect(task.item("test", number), task) for number in range(20)]
        values = task.measure("test", found)
        apart = np.concatenate(
            [np.subtract([(each.start, each.end) for each in one.words.said], one.item.spans) for one in found]
        )
        assert abs(apart.mean()) < 0.005  # neither early nor late: a frame is heard in its middle
        assert values["time_error"] < 40 and values["in_120_ms"] > 90
        assert values["time_error_looks"] > values["time_error"]  # a single frame says nothing of where a word ends

    def test_forms_of_an_answer(self):
        task = digits()
        item = task.item("test", 0)
        for form, begins in {"times": "0.", "srt": "1\n00:00:0", "vtt": "WEBVTT\n\n00:00:0"}.items():
            written = perfect(dataclasses.replace(item, form=form), task)
            assert written.text.startswith(begins) and task.said(written) == item.text
        fields = task.fields(item, perfect(item, task).words)
        assert [each["word"] for each in fields["times"]] == item.text.split()
        assert fields["times"][0].keys() == {"word", "start", "end", "confidence"}

    def test_an_example_that_is_not_there_is_told(self):
        with pytest.raises(ValueError, match="there is no string 6 in test: they are 0 to 5"):
            digits().item("test", 6)

    @pytest.mark.parametrize("change", [{"most": 0}, {"repeat": 2.0}, {"least_gap": 1.0}, {"speed": 0.5}, {"batch": 0}])
    def test_settings_that_cannot_be_are_told(self, change):
        with pytest.raises(ValueError, match=next(iter(change)).replace("least_gap", "gap")):
            Config(**change)


class TestSpeech:
    def table(self, folder, said):
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for number, text in enumerate(said):
            random = np.random.default_rng(number)
            wave = made_speech.say(" bada ", made_speech.Voice.drawn(random), random)
            soundfile.write(folder / f"{number}.flac", wave, 8000)
            lines.append(f"{number}.flac\t{text}")
        (folder / "transcripts.tsv").write_text("\n".join(lines))
        return folder

    def make(self, data, **options):
        sizes = {"bands": 12, "batch": 4, "train_size": 12, "valid_size": 3, "test_size": 3}
        return speech.Speech(speech.Config(**{**sizes, **options}), data)

    def test_a_folder_of_ones_own(self, tmp_path):
        task = self.make(str(self.table(tmp_path, ["Hello, World!"] * 9 + ["It’s 5 o'clock."])))
        texts = {item.text for split in ("train", "valid", "test") for item in self.items(task, split)}
        assert texts == {"hello world", "it's 5 o'clock"} and " " in task.words
        batch = next(iter(task.loader("train")))
        assert batch["frames"].shape[-1] == 36 == task.sizes["features"]
        assert task.write(batch["target"][0, 1:4].tolist()).text in ("hel", "it'")

    def items(self, task, split):
        return [task.item(split, number) for number in range(task.count(split))]

    def test_characters_unknown_to_the_system_are_counted(self, tmp_path):
        for split, said in {"train": ["aba"] * 4, "valid": ["aba"], "test": ["abz"]}.items():
            self.table(tmp_path / split, said)
        task = self.make(str(tmp_path))
        assert "1 characters are unknown" in task.loader("test").report()
        batch = next(iter(task.loader("test")))
        assert batch["target"][0].tolist()[-2:] == [3, 2]

    def test_what_is_left_out_is_told(self, tmp_path):
        place = self.table(tmp_path, ["a" * n for n in range(1, 31)])
        with (place / utterances.TABLE).open("a") as file:
            file.write("\nnowhere.wav\tsilence\n")
        with pytest.raises(ValueError, match="there is no sound file"):
            self.make(str(place))
        (place / "more.wav").write_bytes(sound.wav(np.ones(2000)))
        assert "; 1 sound files have no transcript" in self.make(str(place), skip_bad=True).loader("train").report()
        task = self.make(str(place), skip_bad=True, max_length=10)
        many = sum(len(each.text) > 10 for each in task._splits["train"])
        told = task.loader("train").report()
        assert f"; {many} left out, of more than 10 characters" in told and "left out 1 bad lines" in told
        assert "more than 10" not in task.loader("test").report()

    def test_a_transcript_without_a_letter_is_told(self, tmp_path):
        place = self.table(tmp_path, ["yes"] * 5 + ["…?!"])
        with pytest.raises(ValueError, match=r"transcripts\.tsv:6: nothing is said in .*: '…\?!' has no letter"):
            self.make(str(place))

    def test_growth_takes_the_shorter_ones_first(self, tmp_path):
        task = self.make(str(self.table(tmp_path, ["a" * n for n in range(1, 31)])), grow=4, max_length=24)
        loader = task.loader("train")
        longest = [max(int(batch["target_lengths"].max()) for batch in loader) for _ in range(5)]
        assert longest == sorted(longest) and longest[0] < 10 and longest[-1] <= 25
        assert len({len(task.loader("train")) for _ in range(2)}) == 1

    def test_a_broken_file_is_named(self, tmp_path):
        place = self.table(tmp_path, ["a"] * 10)
        for path in place.glob("*.flac"):
            path.write_text("text")
        task = self.make(str(place))
        with pytest.raises(ValueError, match=r"\d\.flac: not sound that can be read"):
            next(iter(task.loader("train")))

    def test_made_sentences_hold_out_a_voice(self, monkeypatch, tmp_path):
        monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
        monkeypatch.setattr(
            made_speech, "spoken", lambda text, voice, rate: np.random.default_rng(len(text)).random(4000, np.float32)
        )
        task = self.make("made")
        voices = {split: {each.speaker for each in many} for split, many in task._splits.items()}
        assert voices == {
            "train": {"flite/kal", "flite/awb", "flite/slt"},
            "valid": voices["valid"],
            "test": {"flite/rms"},
        }
        assert voices["valid"] <= voices["train"]
        texts = [{each.text for each in many} for many in task._splits.values()]
        assert not texts[0] & texts[2] and not texts[0] & texts[1]
        assert len(list(task.loader("train"))) == 3
        (tmp_path / "a.txt").write_text("One sentence.\tx\nAnother, too!\tx\nOne sentence?\n")
        with pytest.raises(ValueError, match="2 sentences that differ, but 18 are wanted"):
            self.make("made", text=str(tmp_path / "a.txt"))

    def test_an_example_is_synthesized_alone(self, monkeypatch, tmp_path):
        monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
        spoken = []

        def speak(text, voice, rate):
            spoken.append(text)
            return np.random.default_rng(len(text)).random(4000, np.float32)

        monkeypatch.setattr(made_speech, "spoken", speak)
        task = self.make("made")
        item = task.item("test", 1)
        assert spoken == [item.text]
        list(task.loader("train"))
        assert sorted(spoken[1:]) == sorted(one.text for part in task._splits.values() for one in part)
        whole = self.make("made")
        list(whole.loader("train"))
        assert np.array_equal(whole.item("test", 1).wave, item.wave)

    def test_features_without_sound_take_no_recording(self, tmp_path):
        np.savez(
            tmp_path / "an4_mfcc13.npz",
            frames=np.random.default_rng(0).standard_normal((400, 13)).astype(np.float16),
            offsets=np.arange(0, 401, 20).astype(np.int32),
            ids=np.array([f"an{n}-s{n % 10}-b" for n in range(20)]),
            text=np.array(["GO"] * 20),
        )
        task = self.make(str(tmp_path), mask_bands=2)
        assert task.sizes["features"] == 39 and "sound" not in task.asks and not task.hears
        assert next(iter(task.loader("train")))["frames"].shape[-1] == 39
        assert task.axes(task.item("test", 0))["spectrogram"].image.shape == (13, 20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Don’t  GO, now_1!", "don't go now 1"), ("किताब पढ़ो।", "किताब पढ़ो"), ("Ça va?", "ça va"), ("…", "")],
)
def test_transcripts_are_letters_with_their_marks_digits_and_apostrophes(text, expected):
    assert speech.plain(text) == expected


@pytest.fixture(scope="module")
def predictor():
    recipe, task, model = runs.assemble(registry.recipe("speech-made").tiny(), seed=0)
    return load("regard.predictors", task.kind)(model, task, recipe, "speech-made")


@pytest.mark.parametrize("form", ["wav", "flac"])
def test_predict_hears_files(predictor, tmp_path, form):
    random = np.random.default_rng(0)
    wave = made_speech.say(" hello ", made_speech.Voice.drawn(random), random)
    path = tmp_path / f"talk.{form}"
    soundfile.write(path, np.stack([sound.resample(wave, 8000, 96000)] * 2, 1), 96000)
    (line,) = predictor.answer(path)
    assert line.startswith(f"{path}\t")
    assert "\n".join(predictor.answer(path, subtitles="vtt")).startswith("WEBVTT\n")
    assert all(row.count("\t") == 2 for row in "".join(predictor.answer(path, times=True)).splitlines())


def test_predict_writes_documents_of_a_folder(predictor, tmp_path):
    random = np.random.default_rng(0)
    for name in ("a.wav", "b.wav"):
        wave = made_speech.say(" hello ", made_speech.Voice.drawn(random), random)
        soundfile.write(tmp_path / name, wave, 8000)
    rows = "\n".join(predictor.answer(tmp_path, times=True)).splitlines()
    assert {row.split("\t")[0] for row in rows if row} <= {str(tmp_path / "a.wav"), str(tmp_path / "b.wav")}
    assert all(row.count("\t") == 3 for row in rows if row)
    with pytest.raises(ValueError, match=r"a\.wav: a \.srt file each; say into which folder: out=FOLDER"):
        list(predictor.answer(tmp_path, subtitles="srt"))
    made = list(predictor.answer(tmp_path, subtitles="vtt", out=str(tmp_path / "new")))
    assert made == [str(tmp_path / "new" / "a.vtt"), str(tmp_path / "new" / "b.vtt")]
    assert (tmp_path / "new" / "a.vtt").read_text().startswith("WEBVTT\n")
    with pytest.raises(ValueError, match="is for answers that are files"):
        list(predictor.answer(tmp_path, out=str(tmp_path)))


def test_a_clipped_recording_is_told_at_any_rate(predictor):
    loud = np.clip(5 * np.sin(np.arange(16000) / 7), -1, 1)
    for rate in (8000, 16000, 44100):
        data = sound.wav(loud, rate)
        assert "clipped" in "".join(predictor.task._uploaded(data).notes)
        assert not predictor.task._uploaded(sound.wav(0.8 * loud, rate)).notes


@pytest.mark.parametrize(("content", "told"), [(b"", "an empty file"), (b"text", "not sound that can be read")])
def test_predict_names_a_bad_file_once(predictor, tmp_path, content, told):
    path = tmp_path / "talk.wav"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=told) as error:
        list(predictor.answer(path))
    assert str(error.value).count(str(path)) == 1
