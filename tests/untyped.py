"""What comes of calls that no type checker stands in front of.

In the tests beartype refuses a badly typed call before the library sees it; a script in a process
of its own is a user's. One such process runs all scripts, each in a namespace of its own: what
takes long is its imports. What would disturb it (:data:`FORKED`) is done by a fork of it.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

_SERVE = """
import random
random.seed(7)
from dataclasses import replace
import interp_compose as ic
model = ic.load_model("mini-base")
task = ic.load_task("mini-idm", model)
few = replace(task, train=task.train[:4], validation=())
state = random.getstate()
ic.finetune(model, few, config=ic.TrainConfig(max_steps=1), progress=False)
kept = random.getstate() == state  # by the first call, which loads libraries


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
            names = {"kept": kept}
            exec(json.loads(line), names)
            answer = {name: outcome(call) for name, call in names["calls"].items()}
    except BaseException:
        answer = traceback.format_exc()
    print(json.dumps(answer), flush=True)
"""

FORKED = """
import contextlib, os, runpy, sys, warnings

def forked(arguments, told):
    "The process id of python -W ignore -m with these arguments; what it prints is in a file."
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with open(told, "w") as file, contextlib.redirect_stdout(file):
            with contextlib.redirect_stderr(file):
                warnings.simplefilter("ignore")
                sys.argv = list(arguments)
                try:
                    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
                    code = 0
                except SystemExit as end:
                    code = int(end.code or 0)
    finally:
        os._exit(code)

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
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
        command,
        stdin=piped,
        stdout=piped,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    atexit.register(process.communicate)  # closes its input, and so ends it
    return process
