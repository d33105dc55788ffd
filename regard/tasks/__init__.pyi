# Written by tools/stubs.py; tests keep it equal to the folder.
from regard.tasks.babi import Babi as Babi
from regard.tasks.captions import Captions as Captions
from regard.tasks.catch import Catch as Catch
from regard.tasks.cloze import Cloze as Cloze
from regard.tasks.cooking import Cooking as Cooking
from regard.tasks.counting import Counting as Counting
from regard.tasks.digits import Digits as Digits
from regard.tasks.graphs import Graphs as Graphs
from regard.tasks.handwriting import Handwriting as Handwriting
from regard.tasks.number_words import NumberWords as NumberWords
from regard.tasks.squad import Squad as Squad
from regard.tasks.tapes import Tapes as Tapes
from regard.tasks.toy_grammar import ToyGrammar as ToyGrammar
from regard.tasks.translation import Translation as Translation
from regard.tasks.video_captions import VideoCaptions as VideoCaptions
