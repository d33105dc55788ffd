"""The real command line in a process of its own, without loading torch again for each call.

A server loads the package once and forks for every call; the child has its own arguments, streams, folder and exit
code. Loading torch costs two seconds, and a test of the command line calls it many times.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path


@cache
def _server() -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).resolve())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    return process


def run(*arguments, stdin: str = "", cwd=None, **environment: str) -> subprocess.CompletedProcess[str]:
    """``regard ARGUMENTS``."""
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        streams = [str(Path(folder) / name) for name in ("stdin", "stdout", "stderr")]
        Path(streams[0]).write_text(stdin, encoding="utf-8")
        words = [str(argument) for argument in arguments]
        call = {"arguments": words, "streams": streams, "cwd": str(cwd or os.getcwd()), "environment": environment}
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(call) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        out, errors = (Path(name).read_text(encoding="utf-8") for name in streams[1:])
    return subprocess.CompletedProcess(["regard", *words], code, out, errors)


def _serve() -> None:
    from regard import _threads

    _threads.spin_briefly()
    import matplotlib.figure  # noqa: F401
    import numba  # noqa: F401
    import torch  # noqa: F401

    import regard.commands

    for line in sys.stdin:
        call = json.loads(line)
        child = os.fork()
        if not child:
            _become(call, regard.commands.main)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(call, main) -> None:
    """This process as the one that was called."""
    reading, *writing = call["streams"]
    os.dup2(os.open(reading, os.O_RDONLY), 0)
    for number, name in enumerate(writing, 1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww"))
    os.chdir(call["cwd"])
    os.environ.update(call["environment"])
    sys.path[:0] = [str(Path(__file__).parent / "house")]  # where systems outside the package are found
    sys.argv = ["regard", *call["arguments"]]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
