# Written by tools/stubs.py; tests keep it equal to the folder.
from regard.refiners.shift_sharpen import ShiftSharpen as ShiftSharpen
