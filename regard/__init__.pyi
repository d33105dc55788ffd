# Written by tools/stubs.py; tests keep it equal to the folder.
from regard import explain as explain
from regard import glimpses as glimpses
from regard import kernels as kernels
from regard import masks as masks
from regard import normalizers as normalizers
from regard import parts as parts
from regard import positions as positions
from regard import refiners as refiners
from regard import scores as scores
from regard import windows as windows
from regard.attended import Attended as Attended
from regard.attention import Attention as Attention
from regard.attention import attend as attend
from regard.edges import EdgeAttention as EdgeAttention
from regard.edges import Edges as Edges
from regard.edges import attend_edges as attend_edges
from regard.glimpses.spatial_transformer import SpatialTransformer as SpatialTransformer
from regard.heads import MultiHead as MultiHead
from regard.memory import Memory as Memory
from regard.runs import load as load
from regard.runs import train as train
from regard.tape import Tape as Tape
from regard.tape import change as change
from regard.tape import record as record

__version__: str
