"""The video captioner against its equations, and what each row of its table can and cannot see."""

import pytest
import torch

import regard
from contracts.cases.video import FRAMES, LENGTHS, VOCAB, WIDTH, clips
from regard.layers.frames import Frames, differences
from regard.systems.temporal_attention import Config, TemporalAttention


def build(**changes) -> TemporalAttention:
    torch.manual_seed(0)
    sizes = {"vocab": VOCAB, "features": WIDTH, "embedding": 8, "hidden": 12, "attention": 10, "motion": 4}
    return TemporalAttention(Config(**{**sizes, "dropout": 0.0, **changes}))


def test_one_step_by_the_papers_equations():
    model, batch, token = build().eval(), clips(), torch.tensor([1, 5, 6, 7])
    with torch.no_grad():
        logits, state = model.step(token, model.start(batch))
        for row, length in enumerate(LENGTHS):
            plain = model.frames.norm(batch["features"][row, :length])
            steps = [plain[max(i, 1)] - plain[max(i, 1) - 1] if length > 1 else 0 * plain[0] for i in range(length)]
            v = torch.cat([plain, model.frames.motion(torch.stack(steps))], -1)
            h, c = model.begin(v.mean(0)).chunk(2, -1)
            h = h.tanh()
            score = model.attention.score
            alpha = torch.softmax(torch.tanh(score.query(h) + score.key(v)) @ score.v, -1)
            context = sum(weight * frame for weight, frame in zip(alpha, v))
            word = model.words(token[row])
            h, c = model.cell(torch.cat([word, context])[None], (h[None], c[None]))
            expected = model.output(torch.tanh(word + model.from_hidden(h[0]) + model.from_context(context)))
            torch.testing.assert_close(logits[row], expected)
            torch.testing.assert_close(model.alignment(state)[row, :length], alpha)


def test_without_attention_every_step_sees_the_mean():
    model, batch = build(temporal=False).eval(), clips()
    assert model.attention is None
    with torch.no_grad():
        state = model.start(batch)
        _, after = model.step(torch.ones(4, dtype=torch.long), state)
    frames, _, _ = model.frames(batch)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(state["memory"][row], frames[row, :length].mean(0))
    assert torch.equal(after["memory"], state["memory"]) and model.alignment(after) is None


def test_what_only_motion_and_times_can_see():
    """A clip backwards is the same set of frames: without motion and times it is the same clip."""
    batch = {**clips(), "frame_lengths": torch.full((4,), FRAMES)}
    backwards = {**batch, "features": batch["features"].flip(1)}

    def differs(**changes) -> bool:
        model = build(**changes).eval()
        with torch.no_grad():
            return not torch.allclose(model(batch)["nll"], model(backwards)["nll"], atol=1e-5)

    assert not differs(local=False) and not differs(local=False, temporal=False)
    assert not differs(local=False, temporal=False, times=True), "the mean of times says nothing"
    assert differs(local=True) and differs(local=True, temporal=False) and differs(local=False, times=True)


def test_attention_finds_the_frame_that_matters():
    """One frame in a clip tells the word; where it is changes from clip to clip."""
    generator = torch.Generator().manual_seed(0)
    model = build(features=8, local=False, hidden=24, attention=24)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)

    def some() -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        features = 0.3 * torch.randn(32, 9, 8, generator=generator)
        place, word = (torch.randint(high, (32,), generator=generator) for high in (9, 4))
        features[torch.arange(32), place, word] += 6
        target = torch.stack([torch.full((32,), 1), 4 + word, torch.full((32,), 2)], 1)
        lengths = {"frame_lengths": torch.full((32,), 9), "target_lengths": torch.full((32,), 2)}
        return {"features": features, "target": target, **lengths}, place

    for _ in range(120):
        optimizer.zero_grad()
        model(some()[0])["loss"].backward()
        optimizer.step()
    batch, place = some()
    with regard.record(model) as tape, torch.no_grad():
        found = model(batch)
    assert found["accuracy"] > 0.9
    assert (tape["attention"].calls[0].weights[:, 0].argmax(-1) == place).float().mean() > 0.9


def test_differences_of_frames():
    frames = torch.tensor([[[1.0], [4.0], [2.0]], [[3.0], [9.0], [9.0]]])
    found = differences(frames, torch.tensor([3, 1]))
    assert found[..., 0].tolist() == [[3, 3, -2], [0, 0, 0]]
    assert differences(frames[:, :1], torch.tensor([1, 1])).tolist() == [[[0]], [[0]]]


def test_times_run_from_one_end_to_the_other():
    frames, _, _ = Frames(WIDTH, times=True)(clips())
    assert frames.shape == (4, FRAMES, WIDTH + 1)
    torch.testing.assert_close(frames[0, :, -1], torch.tensor([-4.0, -2.0, 0.0, 2.0, 4.0]))
    torch.testing.assert_close(frames[1, :3, -1], torch.tensor([-4.0, 0.0, 4.0]))


def test_another_kind_of_batch_is_named():
    with pytest.raises(ValueError, match="the batch brings clips, but the system is built for features of width 6"):
        build()(clips(pixels=True))
    with pytest.raises(ValueError, match=r"features \(4, 5, 6\), but the system is built for clips"):
        build(features=0)(clips())
    with pytest.raises(ValueError, match=r"features \(4, 5, 6\), but the system is built for features of width 7"):
        build(features=7)(clips())


@pytest.mark.parametrize("name", ["attention", "motion"])
def test_settings_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        build(**{name: 0})
