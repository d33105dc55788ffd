# Written by tools/stubs.py; tests keep it equal to the folder.
from regard.positions.rotary import Rotary as Rotary
