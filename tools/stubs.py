"""Write the ``__init__.pyi`` files, which tell type checkers the names that load on first use."""

from pathlib import Path

import regard
from regard import _lazy, parts

ROOT = Path(regard.__file__).parent


def stubs() -> dict[Path, str]:
    """Where each stub belongs and what it should say."""
    files = {ROOT / "__init__.pyi": _lazy.front_stub("regard", regard._HOMES, regard._ROOMS)}
    for folder in (*parts.KINDS, "systems", "tasks"):
        files[ROOT / folder / "__init__.pyi"] = _lazy.stub(f"regard.{folder}")
    return files


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)
        print(path)
