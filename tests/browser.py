"""A headless Chromium under test, by the DevTools protocol through a pipe."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LAUNCH = """
import os, sys
read, write, *command = sys.argv[1:]
os.dup2(int(read), 3)  # where Chromium reads commands
os.dup2(int(write), 4)  # and writes answers
os.execvp(command[0], command)
"""
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)
FIRST_FREE = 10
"""Descriptors from here on cannot be the two that Chromium has."""


class Browser:
    """One tab.

    Attributes:
        problems: what was written to the console, and exceptions that nobody caught.
        requested: every address that a page asked for.
    """

    def __init__(self, folder: Path) -> None:
        self.problems: list[str] = []
        self.requested: list[str] = []
        self._rest, self._last, self._loaded, self._session = b"", 0, 0, ""
        pipes = [*os.pipe(), *os.pipe()]
        theirs, self._write, self._read, answers = (
            fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for each in pipes
        )
        chromium = ["chromium", *OPTIONS, f"--user-data-dir={folder / 'chromium'}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(theirs), str(answers), *chromium],
            pass_fds=(theirs, answers),
            stderr=subprocess.DEVNULL,
        )
        for each in (*pipes, theirs, answers):
            os.close(each)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exception: object) -> None:
        self._session = ""
        self.call("Browser.close")
        self._process.wait(timeout=30)
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **parameters: Any) -> Any:
        """A method of the protocol, and its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, address: str) -> None:
        """A page, until all that it asks for is there."""
        before = self._loaded
        self.call("Page.navigate", url=address)
        while self._loaded == before:
            self._next()

    def js(self, expression: str, *, awaited: bool = False) -> Any:
        """The value of an expression on the page, or, ``awaited``, of the promise that it is."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=awaited
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """A key, on whatever has the focus."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 20)
            assert more, "Chromium ended"
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        found = json.loads(message)
        kind, of = found.get("method", ""), found.get("params", {})
        self._loaded += kind == "Page.loadEventFired"
        if kind == "Network.requestWillBeSent":
            self.requested.append(of["request"]["url"])
        if kind in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.problems.append(json.dumps(of))
        return found
