# Written by tools/stubs.py; tests keep it equal to the folder.
from regard.windows.local_monotonic import LocalMonotonic as LocalMonotonic
from regard.windows.local_predictive import LocalPredictive as LocalPredictive
