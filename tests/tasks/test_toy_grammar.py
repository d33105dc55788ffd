"""The toy grammar's sentences and gold alignments, against a dictionary and by hand."""

import random

import numpy as np
import pytest

from regard.data.tokens import UNKNOWN
from regard.tasks import ToyGrammar
from regard.tasks import toy_grammar as grammar
from regard.tasks.toy_grammar import Config, sentence

# Which target words a source word can become: a second copy of the lexicon, written as a flat list.
DICTIONARY = {
    "the": "el la del", "a": "un una", "cat": "gato", "dog": "perro", "bird": "pájaro", "boy": "niño", "book": "libro",
    "tree": "árbol", "coffee": "café", "house": "casa", "girl": "niña", "table": "mesa", "door": "puerta",
    "pear": "pera", "red": "rojo roja", "white": "blanco blanca", "black": "negro negra", "new": "nuevo nueva",
    "small": "pequeño pequeña", "pretty": "bonito bonita", "big": "grande", "green": "verde", "very": "muy",
    "see": "ve", "sees": "ve", "eat": "come", "eats": "come", "want": "quiere", "wants": "quiere", "have": "tiene",
    "has": "tiene", "find": "encuentra", "finds": "encuentra", "love": "ama", "loves": "ama", "sleep": "duerme",
    "sleeps": "duerme", "run": "corre", "runs": "corre", "does": "no", "not": "no", "of": "de del", "and": "y",
    "near": "cerca de del", "behind": "detrás de del", "under": "debajo de del", "with": "con", "perhaps": "tal vez",
}  # fmt: skip
FEMININE = {"casa", "niña", "mesa", "puerta", "pera"}
MASCULINE = {"gato", "perro", "pájaro", "niño", "libro", "árbol", "café"}


def drawn(number=2000, longest=26, names=()):
    dice = random.Random(5)
    return [sentence(dice.randint(3, longest), dice, names) for _ in range(number)]


def test_size_of_the_vocabularies():
    assert set(grammar.SOURCE_WORDS) == set(DICTIONARY)
    assert set(grammar.TARGET_WORDS) == {word for words in DICTIONARY.values() for word in words.split()}
    assert 40 <= len(grammar.SOURCE_WORDS) <= 60 and 40 <= len(grammar.TARGET_WORDS) <= 60


@pytest.mark.parametrize("length", [3, 4, 5, 8, 12, 24, 40])
@pytest.mark.parametrize("names", [(), ("Bakor", "Lumi")])
def test_exactly_as_long_as_asked(length, names):
    dice = random.Random(length)
    for _ in range(50):
        assert len(sentence(length, dice, names, name_share=0.6).source.split()) == length


def test_gold_links_join_words_that_translate_each_other():
    for source, target, links in drawn():
        sources, targets = source.split(), target.split()
        for s, t in links:
            assert targets[t] in DICTIONARY[sources[s]].split(), (source, target, (s, t))
        assert {s for s, _ in links} == set(range(len(sources)))
        assert {t for _, t in links} == set(range(len(targets)))
        assert len(set(links)) == len(links)


def test_the_order_of_repeated_words_is_right():
    """Where a word occurs twice, links could be crossed: nouns and verbs must stay in order."""
    for source, target, links in drawn():
        targets = target.split()
        nouns = [s for s, t in sorted(links, key=lambda link: link[1]) if targets[t] in FEMININE | MASCULINE]
        assert nouns == sorted(nouns), (source, target)


def test_a_sentence_has_one_translation():
    translations = {}
    for source, target, links in drawn(4000, longest=7):
        assert translations.setdefault(source, (target, links)) == (target, links)
    assert len(translations) < 3900, "too few repetitions to tell"


def test_adjectives_follow_their_noun_in_reverse():
    for source, target, links in drawn():
        sources, back = source.split(), dict(links)
        for s in range(1, len(sources)):
            if sources[s - 1] in grammar.ADJECTIVES and sources[s] in grammar.NOUNS:
                assert back[s - 1] > back[s]
            if sources[s - 1] in grammar.ADJECTIVES and sources[s] in grammar.ADJECTIVES:
                assert back[s - 1] > back[s], (source, target)


def test_gender_agrees():
    marked = {"el": "m", "un": "m", "del": "m", "la": "f", "una": "f"}
    marked |= dict.fromkeys(["rojo", "blanco", "negro", "nuevo", "pequeño", "bonito"], "m")
    marked |= dict.fromkeys(["roja", "blanca", "negra", "nueva", "pequeña", "bonita"], "f")
    nouns = dict.fromkeys(MASCULINE, "m") | dict.fromkeys(FEMININE, "f")
    for source, target, _ in drawn():
        words = target.split()
        for place, word in enumerate(words):
            if word in nouns:
                assert marked[words[place - 1]] == nouns[word], (source, target)
            elif word in marked and words[place + 1 : place + 2] and words[place + 1] not in nouns:
                noun = next(before for before in reversed(words[:place]) if before in nouns)
                assert marked[word] == nouns[noun], (source, target)


@pytest.mark.parametrize(("source", "target"), [
    (["does", "not"], "no"), (["of", "the"], "del"), (["perhaps"], "tal vez"), (["near"], "cerca de"),
])  # fmt: skip
def test_one_to_two_and_two_to_one(source, target):
    for example in drawn():
        sources, targets = example.source.split(), example.target.split()
        for t in range(len(targets)):
            if targets[t : t + len(target.split())] == target.split() and source[0] in sources:
                linked = [s for s, place in example.alignment if place == t]
                if [sources[s] for s in linked] == source:
                    return
    raise AssertionError(f"{source} never became {target}")


def test_by_hand():
    cat = grammar._Phrase("cat", "the", [("big", True), ("red", False)])
    door = grammar._Phrase("door", "a", [], owner=grammar._Phrase("boy", "the"))
    writer = grammar._Writer()
    writer.clause(grammar._Clause(cat, "see", door, True, [("near", grammar._Phrase("house", "the"))]))
    assert " ".join(writer.source) == "the very big red cat does not see a door of the boy near the house"
    assert " ".join(writer.target) == "el gato rojo muy grande no ve una puerta del niño cerca de la casa"
    links = "0-0 4-1 3-2 1-3 2-4 5-5 6-5 7-6 8-7 9-8 10-9 11-9 12-10 13-11 13-12 14-13 15-14"
    assert [f"{s}-{t}" for s, t in writer.links] == links.split()


def test_names_translate_to_themselves_and_are_unknown():
    task = ToyGrammar(Config(names=500, train_size=500, valid_size=50, test_size=200))
    names = set(grammar.invented_names(500))
    assert len(names) == 500 and not names & {*grammar.SOURCE_WORDS, *grammar.TARGET_WORDS}
    met = 0
    for source, target, links in task.examples("test"):
        sources, targets = source.split(), target.split()
        assert sorted(names & set(sources)) == sorted(names & set(targets))
        met += len(names & set(sources))
        for s, t in links:
            assert (sources[s] in names) == (targets[t] in names) and (
                sources[s] not in names or sources[s] == targets[t]
            )
        unknown = [w in names for w in targets]
        assert [i == UNKNOWN for i in task.target.encode(target)] == unknown
    assert met > 20
    assert task.sizes == {"source_vocab": 52, "target_vocab": 53}


def test_without_names_every_word_is_known():
    task = ToyGrammar(Config(train_size=300, valid_size=50, test_size=50))
    for pairs in (task.pairs("train"), task.pairs("test")):
        for source, target in zip(pairs.source, pairs.target):
            assert len(task.source.encode(source)) == len(source.split()) and UNKNOWN not in task.source.encode(source)
            assert task.target.decode(task.target.encode(target)) == target


def test_splits_are_disjoint_and_repeatable():
    config = Config(shortest=3, longest=6, test_longest=10, train_size=3000, valid_size=200, test_size=200)
    task = ToyGrammar(config)
    found = {split: {e.source for e in task.examples(split)} for split in ("train", "valid", "test")}
    assert not (found["train"] & found["test"] or found["train"] & found["valid"] or found["valid"] & found["test"])
    assert any(len(source.split()) == 3 for source in found["train"])
    assert {len(e.source.split()) for e in task.examples("test")} == set(range(3, 11))
    assert ToyGrammar(config).examples("train") == task.examples("train")


def test_evaluate_by_length_names_and_alignment():
    task = ToyGrammar(Config(longest=12, test_longest=20, names=50, train_size=10, valid_size=10, test_size=300))
    examples = task.examples("test")
    lengths = [len(e.source.split()) for e in examples]
    hypotheses = [e.target if length <= 12 else "no" for e, length in zip(examples, lengths)]
    gold = []
    for example in examples:
        weights = np.zeros((len(example.target.split()) + 1, len(example.source.split()) + 1))
        for s, t in example.alignment:
            weights[t, s] = 1
        gold.append(weights)
    found = task.evaluate(hypotheses, "test", gold)
    assert found["exact_match@8"] == found["exact_match@12"] == 100
    assert found["exact_match@16"] == found["exact_match@20"] == 0
    assert found["exact_match"] == pytest.approx(100 * sum(length <= 12 for length in lengths) / 300)
    assert 0 < found["names"] < 100
    assert found["aligned"] == 100 and 0 < found["aer"] < 0.1  # the strongest of two links leaves the other out
    shifted = [np.roll(weights, 2, axis=1) for weights in gold]
    assert task.evaluate(hypotheses, "test", shifted)["aligned"] < 20


def test_the_error_of_each_head():
    task = ToyGrammar(Config(train_size=10, valid_size=10, test_size=40))
    looks = []
    for row, example in enumerate(task.examples("test")):
        right = np.zeros((len(example.target.split()), len(example.source.split())))
        for s, t in example.alignment:
            right[t, s] = 1
        wrong = np.roll(right, 1, axis=1)
        looks.append((row, np.stack([[wrong, 0.4 * wrong], [right, 0.9 * wrong]])))
    found = task.head_errors(reversed(looks))
    assert set(found) == {(layer, head) for layer in (0, 1) for head in (0, 1, -1)}
    assert found[1, 0] < 0.1 < 0.5 < found[1, 1] and found[0, 0] == found[0, 1] == found[0, -1]
    assert found[1, -1] == found[1, 0]  # of right and 0.9 wrong the mean is right


def test_bad_settings():
    with pytest.raises(ValueError, match="at least 3"):
        Config(shortest=2)
    with pytest.raises(ValueError, match="test_longest"):
        Config(shortest=5, test_longest=4)
    with pytest.raises(ValueError, match="3 words"):
        sentence(2, random.Random(0))
