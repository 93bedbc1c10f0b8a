"""What comes of calls that no type checker stands in front of.

In the tests beartype refuses a badly typed call before the library sees it; a script in a process
of its own is a user's. One such process runs all scripts, each in a namespace of its own: what
takes long is its imports.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from functools import cache

_SERVE = """
import contextlib, json, sys, traceback
from interp_compose.errors import InterpComposeError

def outcome(call):
    try:
        call()
        return "accepted"
    except InterpComposeError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"raw {type(error).__name__}: {error}"

for line in sys.stdin:
    try:
        with contextlib.redirect_stdout(sys.stderr):
            names = {}
            exec(json.loads(line), names)
            answer = {name: outcome(call) for name, call in names["calls"].items()}
    except BaseException:
        answer = traceback.format_exc()
    print(json.dumps(answer), flush=True)
"""


def outcomes_of(script: str) -> dict[str, str]:
    """Runs ``script``, which names functions in ``calls``; what each call came to, by name.

    "accepted", the library's own error with its message, or "raw" and another one's.
    """
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(script) + "\n")
    process.stdin.flush()
    outcomes = json.loads(process.stdout.readline())
    assert isinstance(outcomes, dict), outcomes  # else the script's traceback
    return outcomes


@cache
def _process() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SERVE]
    piped = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=piped, stdout=piped, stderr=subprocess.DEVNULL, text=True
    )
    atexit.register(process.communicate)  # closes its input, and so ends it
    return process
