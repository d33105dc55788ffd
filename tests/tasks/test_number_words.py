"""Number words against words written down by hand, not computed."""

import pytest

from regard.data.tokens import UNKNOWN
from regard.tasks import NumberWords
from regard.tasks.number_words import Config, spell

BY_HAND = """
0|zero|null|cero
1|one|eins|uno
2|two|zwei|dos
3|three|drei|tres
7|seven|sieben|siete
10|ten|zehn|diez
11|eleven|elf|once
12|twelve|zwölf|doce
13|thirteen|dreizehn|trece
15|fifteen|fünfzehn|quince
16|sixteen|sechzehn|dieciséis
17|seventeen|siebzehn|diecisiete
18|eighteen|achtzehn|dieciocho
19|nineteen|neunzehn|diecinueve
20|twenty|zwanzig|veinte
21|twenty-one|einundzwanzig|veintiuno
22|twenty-two|zweiundzwanzig|veintidós
23|twenty-three|dreiundzwanzig|veintitrés
24|twenty-four|vierundzwanzig|veinticuatro
26|twenty-six|sechsundzwanzig|veintiséis
27|twenty-seven|siebenundzwanzig|veintisiete
30|thirty|dreißig|treinta
31|thirty-one|einunddreißig|treinta y uno
35|thirty-five|fünfunddreißig|treinta y cinco
40|forty|vierzig|cuarenta
48|forty-eight|achtundvierzig|cuarenta y ocho
50|fifty|fünfzig|cincuenta
60|sixty|sechzig|sesenta
66|sixty-six|sechsundsechzig|sesenta y seis
70|seventy|siebzig|setenta
77|seventy-seven|siebenundsiebzig|setenta y siete
80|eighty|achtzig|ochenta
90|ninety|neunzig|noventa
99|ninety-nine|neunundneunzig|noventa y nueve
100|one hundred|einhundert|cien
101|one hundred one|einhunderteins|ciento uno
111|one hundred eleven|einhundertelf|ciento once
121|one hundred twenty-one|einhunderteinundzwanzig|ciento veintiuno
200|two hundred|zweihundert|doscientos
241|two hundred forty-one|zweihunderteinundvierzig|doscientos cuarenta y uno
316|three hundred sixteen|dreihundertsechzehn|trescientos dieciséis
400|four hundred|vierhundert|cuatrocientos
500|five hundred|fünfhundert|quinientos
612|six hundred twelve|sechshundertzwölf|seiscientos doce
700|seven hundred|siebenhundert|setecientos
888|eight hundred eighty-eight|achthundertachtundachtzig|ochocientos ochenta y ocho
900|nine hundred|neunhundert|novecientos
999|nine hundred ninety-nine|neunhundertneunundneunzig|novecientos noventa y nueve
1000|one thousand|eintausend|mil
1001|one thousand one|eintausendeins|mil uno
1100|one thousand one hundred|eintausendeinhundert|mil cien
1984|one thousand nine hundred eighty-four|eintausendneunhundertvierundachtzig|mil novecientos ochenta y cuatro
2000|two thousand|zweitausend|dos mil
2026|two thousand twenty-six|zweitausendsechsundzwanzig|dos mil veintiséis
10000|ten thousand|zehntausend|diez mil
11011|eleven thousand eleven|elftausendelf|once mil once
21000|twenty-one thousand|einundzwanzigtausend|veintiún mil
31000|thirty-one thousand|einunddreißigtausend|treinta y un mil
100000|one hundred thousand|einhunderttausend|cien mil
101000|one hundred one thousand|einhunderteintausend|ciento un mil
121021|one hundred twenty-one thousand twenty-one|einhunderteinundzwanzigtausendeinundzwanzig|\
ciento veintiún mil veintiuno
500100|five hundred thousand one hundred|fünfhunderttausendeinhundert|quinientos mil cien
701001|seven hundred one thousand one|siebenhunderteintausendeins|setecientos un mil uno
"""
LISTED = [line.split("|") for line in BY_HAND.split("\n") if line]


@pytest.mark.parametrize(("column", "language"), [(0, "digits"), (1, "en"), (2, "de"), (3, "es")])
def test_words_as_written_by_hand(column, language):
    for row in LISTED:
        assert spell(int(row[0]), language) == row[column]


def test_what_cannot_be_spelled():
    with pytest.raises(ValueError, match=r"'fr'.*known: de, digits, en, es"):
        spell(1, "fr")
    for number in (-1, 1_000_000):
        with pytest.raises(ValueError, match="from 0 to 999,999"):
            spell(number, "de")
    with pytest.raises(ValueError, match="'word'"):
        Config(level="wrd")


@pytest.mark.parametrize("language", ["en", "de", "es"])
def test_no_two_numbers_share_their_words(language):
    numbers = [*range(3000), *range(3000, 1_000_000, 97)]
    assert len({spell(n, language) for n in numbers}) == len(numbers)


@pytest.mark.parametrize("level", ["word", "char"])
@pytest.mark.parametrize("target", ["de", "es", "digits"])
def test_every_number_can_be_written(level, target):
    task = NumberWords(Config(tgt=target, level=level, train_size=10))
    for n in [*range(1100), *range(1100, 1_000_000, 1009), 21_000, 101_000, 999_999]:
        for tokenizer, language in ((task.source, "en"), (task.target, target)):
            ids = tokenizer.encode(spell(n, language))
            assert UNKNOWN not in ids
            assert tokenizer.decode(ids) == spell(n, language)


def test_german_is_cut_into_its_stones():
    task = NumberWords(Config(train_size=10))
    pieces = task.target.pieces(task.target.encode(spell(26_017, "de")))
    assert pieces == [" sechs", "und", "zwanzig", "tausend", "siebzehn"]


def test_splits():
    task = NumberWords(Config(train_size=3000, valid_size=200, test_size=200))
    numbers = {split: task.numbers(split) for split in ("train", "valid", "test")}
    assert {split: len(found) for split, found in numbers.items()} == {"train": 3000, "valid": 200, "test": 200}
    everything = [n for found in numbers.values() for n in found]
    assert len(everything) == len(set(everything))
    assert sum(n < 1000 for n in numbers["test"]) > 20 and sum(n > 100_000 for n in numbers["test"]) > 20
    assert NumberWords(Config(train_size=3000)).numbers("train") == numbers["train"]


def test_a_small_world_ends():
    assert len(NumberWords(Config(largest=99, train_size=5000)).numbers("train")) < 100


def test_loader_and_metric(tmp_path):
    task = NumberWords(Config(train_size=500, valid_size=50, test_size=50))
    batch = next(iter(task.loader("train", seed=1)))
    row = batch["target"][0]
    assert task.target.decode(row.tolist()) in task.pairs("train").target
    pairs = task.pairs("test")
    assert task.evaluate(pairs.target)["exact_match"] == 100
    task.save(tmp_path)
    loaded = NumberWords.load(tmp_path)
    assert loaded.config == task.config and loaded.pairs("test") == pairs and loaded.sizes == task.sizes
