# Written by tools/stubs.py; tests keep it equal to the folder.
