"""Generated graphs, each with something that only the right network can use.

==============  =====================================================================================================
``sbm``         one stochastic block model: 4 classes of nodes that are joined mostly to their own, with noisy words.
                A network that sees one node at a time is right for about 6 in 10.
``lookup``      many small graphs (Brody, Alon & Yahav 2021, arXiv:2105.14491): k queries look at k keys, each of which
                has an attribute and a value, and want the value of the key with their attribute. GAT ranks keys alike
                for all queries and can serve only one; GATv2 serves all.
``communities`` many graphs, new communities in each, several labels a node: those of its community. The
                features of one node in three show them clearly, those of the others are noise, and louder. Clear
                nodes are marked, so a network that can choose among its neighbours is right, and one that takes
                their mean is not.
==============  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from regard.data.graphs import Graph, both_ways
from regard.data.sparse import compact

VALID = TEST = 4
"""Graphs to validate and to test on, where there are many."""


def block_model(random: np.random.Generator, kind: np.ndarray, inside: float, outside: float) -> np.ndarray:
    """(2, E): nodes of one kind are joined with probability ``inside``, others with ``outside``."""
    chance = np.where(kind[:, None] == kind, inside, outside)
    return both_ways(np.stack(np.nonzero(np.triu(random.random(chance.shape) < chance, 1))))


def sbm(
    nodes: int, seed: int, *, classes: int = 4, words: int = 64, words_per_node: int = 8, labelled: int = 20
) -> list[Graph]:
    """One graph: ``labelled`` nodes of each class to learn from (but no more than a third of all nodes), a sixth of all
    for validation, the rest for testing.

    Each class has ``words / classes`` words of its own; a node has ``words_per_node`` words, about a third (0.36) of
    them of its class and the others any. About 6 neighbours are of the same class and 2 are not.
    """
    random = np.random.default_rng([seed, 1])
    kind = np.repeat(np.arange(classes), -(-nodes // classes))[:nodes]
    same, other = nodes / classes, nodes * (classes - 1) / classes
    index = block_model(random, kind, min(6 / same, 1.0), min(2 / other, 1.0))
    own = words // classes
    word = np.where(
        random.random((nodes, words_per_node)) < 0.36,
        kind[:, None] * own + random.integers(own, size=(nodes, words_per_node)),
        random.integers(words, size=(nodes, words_per_node)),
    )
    features = np.zeros((nodes, words), dtype=np.float32)
    np.add.at(features, (np.arange(nodes)[:, None], word), 1.0)
    split = np.full(nodes, 2)
    order = random.permutation(nodes)
    for label in range(classes):
        split[order[kind[order] == label][: min(labelled, nodes // (3 * classes))]] = 0
    split[order[split[order] == 2][: nodes // 6]] = 1
    return [_graph(features, index, kind, split)]


def lookup(keys: int, graphs: int, seed: int) -> list[Graph]:
    """Graphs of ``keys`` keys and as many queries; in each, the keys have the values in another order.

    Nodes 0 to k − 1 are keys: attribute and value, one-hot each. Nodes k to 2k − 1 are queries: an attribute alone.
    Every query looks at every key; only queries have labels.
    """
    random = np.random.default_rng([seed, 2])
    sources, targets = np.divmod(np.arange(keys * keys), keys)
    generated = []
    for number in range(graphs + VALID * 8 + TEST * 8):
        values = random.permutation(keys)
        features = np.zeros((2 * keys, 2 * keys), dtype=np.float32)
        both = np.arange(keys)
        features[both, both] = features[keys + both, both] = features[both, keys + values] = 1.0
        labels = np.concatenate([np.full(keys, -1), values])
        split = 0 if number < graphs else 1 if number < graphs + VALID * 8 else 2
        generated.append(_graph(features, np.stack([sources, targets + keys]), labels, np.full(2 * keys, split)))
    return generated


def communities(nodes: int, graphs: int, seed: int, *, labels: int = 12, groups: int = 6) -> list[Graph]:
    """Graphs of ``groups`` communities with two to four of ``labels`` labels each.

    Features are a mark, 1 for clear nodes, and a number for each label: of clear nodes near 1 or −1 as the label holds
    or not, of the others noise three times as loud.
    """
    random = np.random.default_rng([seed, 3])
    generated = []
    for number in range(graphs + VALID + TEST):
        kind = np.sort(random.integers(groups, size=nodes))
        index = block_model(random, kind, min(14 * groups / nodes, 1.0), 1 / nodes)
        group_labels = np.zeros((groups, labels), dtype=np.float32)
        for group in group_labels:
            group[random.choice(labels, size=random.integers(2, 5), replace=False)] = 1.0
        clear = random.random(nodes) < 1 / 3
        clear_values = 2 * group_labels[kind] - 1 + random.normal(scale=0.5, size=(nodes, labels))
        noise = random.normal(scale=3.0, size=(nodes, labels))
        features = np.concatenate([clear[:, None], np.where(clear[:, None], clear_values, noise)], axis=1)
        split = 0 if number < graphs else 1 if number < graphs + VALID else 2
        generated.append(_graph(features, index, group_labels[kind], np.full(nodes, split)))
    return generated


def _graph(features: np.ndarray, index: np.ndarray, labels: np.ndarray, split: np.ndarray) -> Graph:
    target = torch.from_numpy(labels)
    graph = Graph(
        compact(torch.from_numpy(features)),
        torch.from_numpy(index),
        target.float() if target.ndim == 2 else target.long(),
        torch.from_numpy(split),
    )
    return graph.checked("generated")


GENERATED: dict[str, Callable[[int, int, int, int], list[Graph]]] = {
    "sbm": lambda nodes, graphs, keys, seed: sbm(nodes, seed),
    "lookup": lambda nodes, graphs, keys, seed: lookup(keys, graphs, seed),
    "communities": lambda nodes, graphs, keys, seed: communities(nodes, graphs, seed),
}
