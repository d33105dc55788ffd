"""Copies beside the heap: right in any layout, never in memory that another still uses, and mapped once."""

import gc
import threading

import pytest
import torch

from regard.tape import slabs


@pytest.fixture(autouse=True)
def no_spare_slabs(monkeypatch):
    slabs.leave()
    monkeypatch.setattr(slabs, "_spare", [])
    yield
    slabs.leave()


def tensors():
    """Larger than what stays on the heap; contiguous, transposed, strided, of other types."""
    whole = torch.randn(2, 8, 128, 64)
    yield whole
    yield whole.transpose(1, 2)
    yield torch.randn(2, 128, 8, 128)[..., ::2]
    yield torch.randn(1, 8, 128, 64).expand(3, -1, -1, -1)
    yield whole.to(torch.bfloat16).repeat(2, 1, 1, 1)
    yield whole > 0
    yield torch.randn(slabs._SLAB // 4 + 5)


def test_a_copy_is_equal_and_its_own():
    for tensor in tensors():
        before, copy = tensor.clone(), slabs.kept(tensor)
        assert torch.equal(copy, before) and copy.shape == tensor.shape and copy.dtype == tensor.dtype
        if tensor.is_contiguous():
            tensor.zero_()
        assert torch.equal(copy, before)


def test_memory_in_use_is_never_given_again():
    held = []
    for round in range(6):  # some copies die between others
        held += [(value, slabs.kept(torch.full((2**17,), value))) for value in range(10 * round, 10 * round + 10)]
        slabs.leave()
        held = held[::2]
        gc.collect()
    for value, copy in held:
        assert (copy == value).all()


def test_a_view_keeps_its_memory():
    last = slabs.kept(torch.full((2**18,), 7.0))[-3:]
    slabs.leave()
    other = slabs.kept(torch.zeros(2**18))
    assert last.tolist() == [7.0] * 3 and not other.any()


def test_a_slab_is_used_again_when_its_copies_are_gone():
    first = slabs.kept(torch.ones(2**17))
    address = first.data_ptr()
    slabs.leave()
    assert not slabs._spare
    del first
    assert len(slabs._spare) == 1
    assert slabs.kept(torch.zeros(2**17)).data_ptr() == address
    many = [slabs.kept(torch.ones(slabs._SLAB // 4)) for _ in range(2 * slabs._SPARE)]
    slabs.leave()
    del many
    assert len(slabs._spare) == slabs._SPARE  # and no more: memory that a recording needed once goes back


def test_threads_fill_slabs_of_their_own():
    found = {}

    def fill(number):
        found[number] = [slabs.kept(torch.full((2**17,), float(number))) for _ in range(20)]
        slabs.leave()

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((copy == number).all() for number, copies in found.items() for copy in copies)
