"""What comes of calls that no type checker stands in front of.

In the tests beartype refuses a badly typed call before the library sees it; a script in a process
of its own is a user's.
"""

from __future__ import annotations

import json
import subprocess
import sys

_TRY = """
import json, sys
from interp_compose.errors import InterpComposeError

out = {}
for name, call in calls.items():
    try:
        call()
        out[name] = "accepted"
    except InterpComposeError as error:
        out[name] = f"{type(error).__name__}: {error}"
    except Exception as error:
        out[name] = f"raw {type(error).__name__}: {error}"
json.dump(out, sys.stdout)
"""


def outcomes_of(script: str) -> dict[str, str]:
    """Runs ``script``, which names functions in ``calls``; what each call came to, by name.

    "accepted", the library's own error with its message, or "raw" and another one's.
    """
    done = subprocess.run(
        [sys.executable, "-c", script + _TRY], capture_output=True, text=True, check=True
    )
    outcomes: dict[str, str] = json.loads(done.stdout)
    return outcomes
