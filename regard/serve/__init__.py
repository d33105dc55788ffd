"""Trained systems over HTTP: a JSON API (``regard serve``), and the same with pages to look at (``regard explore``)."""
