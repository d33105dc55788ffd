"""``python -m regard`` is the command line, ``regard``."""

from regard.commands import main

if __name__ == "__main__":
    main()
