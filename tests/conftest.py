"""Settings for every test: where helpers are found, and how hypothesis draws."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

from regard import _threads

_threads.spin_briefly()  # the workers of xdist share the cores

# So that `import oracle`, `from contracts import builders` and `import lab` work under any of pytest's import modes.
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools")]

# A shell starts what runs in its background with Ctrl-C ignored, and tests that interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "regard",
    max_examples=200,
    deadline=None,
    derandomize=True,  # the same examples on every machine; a red build can be repeated
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.register_profile("explore", settings.get_profile("regard"), max_examples=2000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "regard"))
