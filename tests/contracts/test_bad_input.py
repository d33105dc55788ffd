"""Bad input is refused with the numbers or names in it, and with what to write instead. One test for each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import regard
from regard.scores import Additive

QUERY, KEY = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)


def message(call: Callable[[], object], error: type[Exception] = ValueError) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def contains(text: str, *pieces: str) -> None:
    missing = [piece for piece in pieces if piece not in text]
    assert not missing, f"{missing} not in: {text}"


def test_wrong_rank() -> None:
    contains(message(lambda: regard.attend(torch.zeros(4), KEY)), "(4,)", "(…, T, D)", "query[None]")
    contains(message(lambda: regard.attend(torch.zeros(2, 4), KEY)), "(2, 4)", "(2, 5, 4)", "query[:, None]")
    contains(message(lambda: regard.attend(QUERY, torch.zeros(4))), "(4,)", "(…, S, width)")
    contains(message(lambda: regard.MultiHead(4, 2)(torch.zeros(1, 2, 3, 4))), "(1, 2, 3, 4)", "(B, T, 4)")


def test_mismatched_widths() -> None:
    contains(message(lambda: regard.attend(torch.zeros(2, 3, 6), KEY)), "(2, 3, 6)", "(2, 5, 4)", "General")
    attention = regard.Attention(Additive(query_dim=4, key_dim=7, hidden_dim=3))
    contains(message(lambda: attention(QUERY, KEY)), "key_dim=7", "(2, 5, 4)")
    contains(message(lambda: attention(torch.zeros(2, 3, 9), torch.zeros(2, 5, 7))), "query_dim=4", "(2, 3, 9)")
    contains(message(lambda: regard.attend(QUERY, KEY, torch.zeros(2, 6, 4))), "(2, 5, 4)", "(2, 6, 4)")
    contains(message(lambda: regard.attend(QUERY, torch.zeros(3, 5, 4))), "(2, 3, 4)", "(3, 5, 4)")
    contains(message(lambda: regard.MultiHead(4, 2)(QUERY, torch.zeros(2, 5, 6))), "(2, 5, 6)", "4")
    contains(message(lambda: regard.MultiHead(10, 3)), "dim=10", "heads=3")


def test_int_mask() -> None:
    contains(message(lambda: regard.attend(QUERY, KEY, mask=torch.ones(2, 5).long())), "int64", "mask.bool()")


def test_float_mask() -> None:
    contains(message(lambda: regard.attend(QUERY, KEY, mask=torch.ones(2, 5))), "float32", "mask > 0.5", "mask == 0")


def test_misfit_mask() -> None:
    text = message(lambda: regard.attend(QUERY, KEY, mask=torch.ones(2, 6, dtype=torch.bool)))
    contains(text, "(2, 6)", "(2, 3, 5)", "(B, S)")
    text = message(lambda: regard.attend(QUERY, KEY, mask=torch.ones(2, 1, 1, 3, 5, dtype=torch.bool)))
    contains(text, "(2, 1, 1, 3, 5)", "(2, 3, 5)")


def test_pairs_mask_for_a_batch() -> None:
    """Rank decides, and 2-D is (B, S); the error knows what was meant."""
    text = message(lambda: regard.attend(QUERY, KEY, mask=torch.ones(3, 5, dtype=torch.bool)))
    contains(text, "(3, 5)", "(2, 3, 5)", "mask[None]")
    assert regard.attend(QUERY, KEY, mask=torch.ones(3, 5, dtype=torch.bool)[None]).context.shape == (2, 3, 4)


def test_nan_lengths() -> None:
    text = message(lambda: regard.masks.lengths(torch.tensor([2.0, torch.nan])))
    contains(text, "float32", "NaN", ".long()")


def test_impossible_lengths() -> None:
    contains(message(lambda: regard.masks.lengths(torch.tensor([2, -1]))), "-1")
    contains(message(lambda: regard.attend(QUERY, KEY, mask=regard.masks.lengths(torch.tensor([2, 9])))), "9", "5")
    contains(message(lambda: regard.attend(QUERY, KEY, mask=regard.masks.lengths(torch.tensor([2, 3, 4])))), "3", "2")


def test_negative_radius() -> None:
    contains(message(lambda: regard.windows.LocalMonotonic(radius=-2)), "-2", "negative")
    contains(message(lambda: regard.windows.LocalPredictive(4, radius=-3)), "-3")
    contains(message(lambda: regard.masks.window(-1)), "-1", "negative")


def test_unknown_name() -> None:
    contains(message(lambda: regard.attend(QUERY, KEY, score="scaled_dto")), "'scaled_dto'", "'scaled_dot'")
    contains(message(lambda: regard.Attention("dot", "sofmax")), "'sofmax'", "'softmax'")
    contains(message(lambda: regard.Attention("dot", window="local_monotone")), "'local_monotonic'")
    contains(message(lambda: regard.normalizers.Hard(mode="sampel")), "'sampel'", "'sample'")
    contains(message(lambda: regard.kernels.use("fussed").__enter__()), "'fussed'", "'fused'")
    contains(message(lambda: regard.scores.ScaledDto, AttributeError), "ScaledDto", "ScaledDot")


def test_a_name_that_needs_arguments() -> None:
    contains(message(lambda: regard.attend(QUERY, KEY, score="additive")), "Additive(", "query_dim", "regard.Attention")
    contains(message(lambda: regard.Attention("general")), "General(", "query_dim", "key_dim")


def test_unknown_keyword() -> None:
    attention = regard.Attention("cosine")
    contains(message(lambda: attention(QUERY, KEY, gian=torch.ones(2, 3))), "'gian'", "'gain'")
    contains(message(lambda: attention(QUERY, KEY, maks=None)), "'maks'", "'mask'")


@pytest.mark.parametrize("name", ["key_padding_mask", "attn_mask"])
def test_the_names_that_torch_has_for_masks(name: str) -> None:
    short = "mask=~key_padding_mask" if name == "key_padding_mask" else "mask="
    for call in (regard.Attention(), regard.MultiHead(4, 2), regard.attend):
        text = message(lambda call=call: call(QUERY, KEY, **{name: torch.zeros(2, 5, dtype=torch.bool)}))
        contains(text, f"no {name}=", short, f"regard.masks.from_torch({name}={name})", "True")


def test_what_is_no_tensor() -> None:
    array = KEY.numpy()
    for call in (regard.Attention(), regard.MultiHead(4, 2), regard.attend):
        for name, given in {"query": (array, KEY), "key": (QUERY, array), "value": (QUERY, KEY, array)}.items():
            text = message(lambda call=call, given=given: call(*given))
            contains(text, f"{name} is a numpy.ndarray", f"torch.as_tensor({name})")
    contains(message(lambda: regard.attend(array, array)), "key is a numpy.ndarray")


def test_missing_and_misshapen_extras() -> None:
    attention = regard.Attention("cosine", refiner="shift_sharpen")
    contains(message(lambda: attention(QUERY, KEY)), "ShiftSharpen", "gate=", "shift=", "sharpen=")
    contains(message(lambda: regard.Attention("cosine")(QUERY, KEY, gain=torch.ones(2, 5))), "gain", "(2, 5)", "2, 3")


def test_two_devices() -> None:
    contains(message(lambda: regard.attend(QUERY, KEY.to("meta"))), "cpu", "meta", "query", "key")
    contains(message(lambda: regard.attend(QUERY, KEY, KEY.to("meta"))), "cpu", "meta", "value")


def test_two_dtypes() -> None:
    contains(message(lambda: regard.attend(QUERY, KEY.double())), "float32", "float64")


def test_unpacking() -> None:
    def unpack() -> None:
        _out, _weights = regard.attend(QUERY, KEY)

    contains(message(unpack, TypeError), "out.context", "out.weights")


def test_treating_the_record_as_a_tensor() -> None:
    out = regard.attend(QUERY, KEY)
    contains(message(lambda: out.sum(), AttributeError), "out.context.sum")
    contains(message(lambda: out[0], TypeError), "out.context")
    contains(message(lambda: torch.relu(out), TypeError), "relu", "out.context")
    contains(message(lambda: out.context_, AttributeError), "context_", "weights")


def test_value_beside_a_memory() -> None:
    attention = regard.Attention("dot")
    contains(message(lambda: attention(QUERY, attention.remember(KEY), KEY)), "value=", "Memory")


def test_a_state_nobody_has() -> None:
    contains(message(lambda: regard.Attention("dot")(QUERY, KEY, state=torch.zeros(2, 5))), "state=")


def test_keyword_only() -> None:
    mask = torch.ones(2, 5, dtype=torch.bool)
    with pytest.raises(TypeError):
        regard.Attention("dot")(QUERY, KEY, KEY, mask)


def test_out_of_range() -> None:
    contains(message(lambda: regard.Attention("dot", dropout=1.5)), "1.5")
    contains(message(lambda: regard.attend(QUERY, KEY, dropout=-0.5)), "-0.5")
    contains(message(lambda: regard.attend(QUERY, KEY, weights="later")), "'later'", "'lazy'")
    contains(message(lambda: regard.normalizers.Softmax(0.0)), "0.0", "positive")
    contains(message(lambda: regard.scores.LocationAware(4, 4, 3, filters=2, kernel=4)), "4", "odd")
    attention = regard.Attention(regard.scores.Location(4, max_length=3))
    contains(message(lambda: attention(QUERY, KEY)), "max_length=3", "5")
