# Written by tools/stubs.py; tests keep it equal to the folder.
from regard.tasks.number_words import NumberWords as NumberWords
from regard.tasks.toy_grammar import ToyGrammar as ToyGrammar
from regard.tasks.translation import Translation as Translation
