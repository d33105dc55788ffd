"""Names load on first use, and the stubs tell type checkers the same names."""

import subprocess
import sys
from pathlib import Path

import pytest
import stubs

import regard
from regard import _lazy, parts


@pytest.mark.parametrize(("path", "text"), stubs.stubs().items(), ids=lambda x: str(x) if isinstance(x, Path) else "")
def test_stub_equals_folder(path, text):
    assert path.read_text() == text, "run `.venv/bin/python tools/stubs.py`"


@pytest.mark.parametrize(
    ("name", "snake"), [("MLPDot", "mlp_dot"), ("ScaledDot", "scaled_dot"), ("Entmax15", "entmax15"), ("Dot", "dot")]
)
def test_snake(name, snake):
    assert _lazy.snake(name) == snake


def test_importing_regard_does_not_import_torch():
    code = "import sys, regard; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_name_loads():
    for name in dir(regard):
        assert getattr(regard, name) is not None
    for kind in parts.KINDS:
        for name in dir(getattr(regard, kind)):
            assert _lazy.snake(name) in parts.names(kind)


def test_a_wrong_name_names_the_nearest():
    with pytest.raises(AttributeError, match="'attend'"):
        regard.atend  # noqa: B018
    with pytest.raises(ImportError, match="Additve"):
        from regard.scores import Additve  # noqa: F401
    with pytest.raises(AttributeError, match="'Additive'"):
        regard.scores.Additve  # noqa: B018
    with pytest.raises(ValueError, match="'scores'"):
        parts.names("score")


def test_a_subclass_with_another_formula_loses_the_fast_twin():
    class Squared(regard.scores.Dot):
        def forward(self, query, key):
            return super().forward(query, key) ** 2

    import torch

    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    out = regard.Attention(Squared())(query, key)
    assert torch.allclose(out.scores, (query @ key.mT) ** 2)
    assert torch.allclose(out.context, torch.softmax((query @ key.mT) ** 2, -1) @ key, atol=1e-6)
