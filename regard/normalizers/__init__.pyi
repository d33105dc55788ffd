# Written by tools/stubs.py; tests keep it equal to the folder.
from regard.normalizers.entmax15 import Entmax15 as Entmax15
from regard.normalizers.gumbel import Gumbel as Gumbel
from regard.normalizers.hard import Hard as Hard
from regard.normalizers.sigmoid import Sigmoid as Sigmoid
from regard.normalizers.smoothed import Smoothed as Smoothed
from regard.normalizers.softmax import Softmax as Softmax
from regard.normalizers.sparsemax import Sparsemax as Sparsemax
