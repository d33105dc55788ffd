"""Regard inside other libraries. One library, one file, which imports that library and is imported only by name."""
