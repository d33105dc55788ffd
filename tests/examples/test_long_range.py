from __future__ import annotations

import long_range as example


def test_attention_remembers_the_first_of_two_hundred():
    assert example.recall("attention", 200) >= 0.99


def test_a_plain_recurrent_network_does_not():
    assert example.recall("recurrent", 200) <= 0.6


def test_though_it_learns_the_short_task():
    assert example.recall("recurrent", 5) >= 0.99


def test_the_gradient_fades_along_the_recurrent_path_only():
    attention, recurrent = (example.reach(name, 100) for name in ("attention", "recurrent"))
    assert attention.min().item() > 0.5
    assert recurrent[0].item() < 1e-6
    assert recurrent[-1].item() == 1
