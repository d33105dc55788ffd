# Written by tools/stubs.py; tests keep it equal to the folder.
from regard.scores.additive import Additive as Additive
from regard.scores.concat import Concat as Concat
from regard.scores.cosine import Cosine as Cosine
from regard.scores.dot import Dot as Dot
from regard.scores.gaussian import Gaussian as Gaussian
from regard.scores.general import General as General
from regard.scores.inverse_distance import InverseDistance as InverseDistance
from regard.scores.leaky_additive import LeakyAdditive as LeakyAdditive
from regard.scores.leaky_concat import LeakyConcat as LeakyConcat
from regard.scores.location import Location as Location
from regard.scores.location_aware import LocationAware as LocationAware
from regard.scores.mlp_dot import MLPDot as MLPDot
from regard.scores.perceptron import Perceptron as Perceptron
from regard.scores.scaled_dot import ScaledDot as ScaledDot
