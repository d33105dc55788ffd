# Written by tools/stubs.py; tests keep it equal to the folder.
from regard.systems.attentive_reader import AttentiveReader as AttentiveReader
from regard.systems.cnn import CNN as CNN
from regard.systems.draw import DRAW as DRAW
from regard.systems.gat import GAT as GAT
from regard.systems.luong import Luong as Luong
from regard.systems.memn2n import MemN2N as MemN2N
from regard.systems.memnn import MemNN as MemNN
from regard.systems.ntm import NTM as NTM
from regard.systems.ram import RAM as RAM
from regard.systems.ram_agent import RAMAgent as RAMAgent
from regard.systems.rnnsearch import RNNsearch as RNNsearch
from regard.systems.seq2seq import Seq2seq as Seq2seq
from regard.systems.show_and_tell import ShowAndTell as ShowAndTell
from regard.systems.show_attend_tell import ShowAttendTell as ShowAttendTell
from regard.systems.stack_rnn import StackRNN as StackRNN
from regard.systems.stn import STN as STN
from regard.systems.transformer import Transformer as Transformer
