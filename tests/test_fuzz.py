"""Two hundred of the calls that ``python -m tests.fuzz`` makes by the hundred thousand.

In a process of its own, where beartype does not stand in front of every inner function.
"""

from __future__ import annotations

import subprocess
import sys

CALLS = 200


def test_no_wrong_value_ends_in_a_raw_error() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "--calls", str(CALLS)]
    command += ["--groups", "model", "numbers", "data"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CALLS} calls: " in done.stdout
    assert int(done.stdout.split(" refused")[0].split()[-1]) > CALLS / 2
