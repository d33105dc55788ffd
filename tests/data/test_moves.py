from itertools import pairwise

import numpy as np
import pytest

from regard.data import moves
from regard.data.moves import Event
from regard.data.scenes import COLOURS


def many(count=60, **settings):
    return [moves.draw(np.random.default_rng(seed), **settings) for seed in range(count)]


def middle(frame, colour):
    """Where a colour is, as mean row and column; None if it is not there."""
    there = np.abs(frame.astype(float) - np.array(COLOURS[colour])[:, None, None]).max(0) < 45
    return np.argwhere(there).mean(0) if there.sum() > 4 else None


def test_a_seed_is_a_clip():
    one, same, other = (moves.draw(np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(one.frames, same.frames) and one.events == same.events != other.events
    assert one.frames.shape == (12, 3, 32, 32) and one.frames.dtype == np.uint8


def test_things_move_as_it_is_said_and_only_then():
    for clip in many():
        for event in clip.events:
            seen = [middle(frame, event.colour) for frame in clip.frames]
            others = [each for each in clip.events if each is not event and each.colour == event.colour]
            there = [n for n, place in enumerate(seen) if place is not None]
            if not others:
                assert there == list(range(event.first, event.last + 1))
            path = np.stack(seen[event.first : event.last + 1])
            step = np.diff(path, axis=0)
            down, right = moves.DIRECTIONS[event.direction]
            along, across = (0, 1) if down else (1, 0)
            assert (step[:, along] * (down + right) > 2).all() and np.abs(step[:, across]).max() < 1.5


def test_events_do_not_overlap_and_come_in_order():
    counts = set()
    for clip in many(200):
        counts.add(len(clip.events))
        spans = [(event.first, event.last) for event in clip.events]
        assert all(last - first + 1 == moves.LASTS for first, last in spans)
        assert spans[0][0] >= 0 and spans[-1][1] < 12
        assert all(one[1] < other[0] for one, other in pairwise(spans))
    assert counts == {1, 2}
    assert len({clip.events[0].first for clip in many(200)}) > 5


def test_what_is_said():
    events = [Event("circle", "red", "left", 0, 3), Event("square", "blue", "up", 5, 8)]
    text = moves.caption(events)
    assert text == "a red circle moves left then a blue square moves up"
    assert moves.mentioned(text.split(), events) == [(2, 0), (4, 0), (8, 1), (10, 1)]
    other = text.replace("circle", "square").replace("up", "left")
    assert moves.mentioned(other.split(), events) == [(8, 1), (10, 1)]
    assert {word for clip in many() for word in moves.caption(clip.events).split()} <= set(moves.vocabulary())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"size": 10}, "24 pixels"), ({"most": 3}, "1 or 2 events"), ({"frames": 7}, "need 8 frames, not 7")],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        many(1, **settings)
