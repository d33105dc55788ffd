"""A translator that starts from another one's weights and vocabulary."""

from __future__ import annotations

import pytest

import regard
from regard import registry


@pytest.mark.parametrize("shared", ["true", "false"])
def test_a_run_starts_from_words_and_weights_of_another(tmp_path, shared):
    general = registry.recipe("translate-tatoeba-ende").tiny().change(["steps=2", f"shared={shared}"])
    first = regard.train(general, out=tmp_path / "general")
    lines = []
    adapted = registry.recipe("translate-multi30k-adapted").tiny().change(["steps=2", "vocab=270"])
    changes = f"init={first.folder}", f"tokens={first.folder}"
    second = regard.train(adapted, *changes, out=tmp_path / "adapted", say=lines.append)
    assert any("starts from" in line and "new" not in line and "unused" not in line for line in lines), lines
    one, other = regard.load(first.folder), regard.load(second.folder)
    assert one.task.sizes == other.task.sizes
    assert one.task.source.encode("the cat") == other.task.source.encode("the cat")
    both = regard.load(first.folder, second.folder)  # they share a vocabulary, so that they can decide together
    assert len(list(both.predict(["the cat sees a dog"]))) == 1


def test_a_folder_without_a_vocabulary_is_named(tmp_path):
    adapted = registry.recipe("translate-multi30k-adapted").tiny()
    with pytest.raises(ValueError, match="tokens = "):
        regard.train(adapted, f"tokens={tmp_path}", out=tmp_path / "run")
