"""The Python of docs/exporting.md."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "exporting.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
CTRANSLATE2, ONNX, OWN = BLOCKS
SENTENCE = "I love coffee."
assert SENTENCE in CTRANSLATE2 and SENTENCE in ONNX
