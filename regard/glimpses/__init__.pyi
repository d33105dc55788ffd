# Written by tools/stubs.py; tests keep it equal to the folder.
from regard.glimpses.bilinear import Bilinear as Bilinear
from regard.glimpses.filter_bank import FilterBank as FilterBank
from regard.glimpses.mixture_window import MixtureWindow as MixtureWindow
from regard.glimpses.retina import Retina as Retina
from regard.glimpses.spatial_transformer import SpatialTransformer as SpatialTransformer
