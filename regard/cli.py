"""The command line as ``python -m regard.cli``; it lives in :mod:`regard.commands`."""

from regard.commands import app, main

__all__ = ["app", "main"]

if __name__ == "__main__":
    main()
