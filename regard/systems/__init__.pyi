# Written by tools/stubs.py; tests keep it equal to the folder.
from regard.systems.luong import Luong as Luong
from regard.systems.rnnsearch import RNNsearch as RNNsearch
from regard.systems.seq2seq import Seq2seq as Seq2seq
from regard.systems.transformer import Transformer as Transformer
