"""From weights to numbers that say what they explain, and how well.

    from regard import explain

    with regard.record(model) as tape:
        model(batch)
    explain.rollout(tape)                            # (B, T, T): weights through all layers
    explain.flow(tape)                               # the same as a maximum flow

    explain.importance(score, count)                 # what the answer loses without each item
    explain.agreement(weights, importance)           # do weights rank the items alike?
    explain.comprehensiveness(score, weights)        # what it loses without the items of most weight
    explain.sufficiency(score, weights)              # and with these alone
    explain.knockout(model, measure)                 # a metric without each head

``score`` is a function from (N, S) booleans, which of S items are kept, to (N,) numbers: how good the answer is then,
its probability for instance. What an item is (a word, a sentence, an edge) and what leaving it out means is said there,
so that everything here holds for every mechanism. One function, one file; ``cases/`` has scores for our own systems.
"""

from regard.explain.agreement import agreement
from regard.explain.comprehensiveness import comprehensiveness
from regard.explain.faithfulness import Case, faithfulness
from regard.explain.flow import flow
from regard.explain.importance import importance
from regard.explain.knockout import Knockout, knockout
from regard.explain.rollout import rollout
from regard.explain.sufficiency import sufficiency

__all__ = [
    "rollout",
    "flow",
    "importance",
    "agreement",
    "comprehensiveness",
    "sufficiency",
    "knockout",
    "Knockout",
    "faithfulness",
    "Case",
]
