"""Bricks that systems are built of: everything between the core and a paper. They import the core and each other."""
