"""``python -m tests.golden record FOLDER | compare OLD NEW [OLD_AGAIN] | reopen OLD``."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.update(
    {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "HF_HUB_OFFLINE": "1", "TZ": "UTC", "NO_COLOR": "1"}
)

import torch

from interp_compose import cli
from tests.golden import configurations, digests
from tests.golden.inputs import lay_out
from tests.studies.conftest import few_outputs
from tests.studies.similarity_reference import few_samples

SAME = "same"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("what", choices=("record", "compare", "reopen"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="names that begin so")
    asked = parser.parse_args()
    folders = [folder.resolve() for folder in asked.folders]
    torch.set_num_threads(1)
    with few_samples(), few_outputs():
        if asked.what == "record":
            return record(*folders, asked.only)
        return compare(*folders) if asked.what == "compare" else reopen(*folders)


def record(folder: Path, only: str) -> int:
    """Run all that is not yet kept in the folder; what raises is kept as such."""
    work = folder / "work"
    if not work.exists():
        lay_out(work)
    failed = 0
    for name, run in _all().items():
        path = folder / f"{name.replace(', ', '_').replace(' ', '_')}.json"
        if path.exists() or not name.startswith(only):
            continue
        with contextlib.chdir(work):
            try:
                kept = run()
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failed += 1
                traceback.print_exc()
                kept = {"raised": digests.plain(f"{type(error).__name__}: {error}", work)}
        text = json.dumps(kept, indent=1, sort_keys=True, default=repr)
        path.write_text(text, encoding="utf-8")
        print(f"{name}: {len(text):,} characters", flush=True)
    return int(failed > 0)


def _all() -> dict[str, Any]:
    found = {f"command {name}": _command(argv) for name, argv in configurations.commands().items()}
    found |= {
        f"call {name}": lambda call=call: digests.of(call())
        for name, call in configurations.CALLS.items()
    }
    found["signatures"] = configurations.signatures
    names = [*cli.COMMANDS, *cli.ON_RESULTS]
    found["help"] = lambda: {name: printed([name, "--help"])[1] for name in names}
    found["help of all"] = lambda: printed(["--help"])[1]
    return found


def _command(argv: list[str]) -> Any:
    def run() -> dict[str, Any]:
        status, said = printed(argv)
        kept: dict[str, Any] = {"status": status, "printed": said}
        out = Path(argv[-1])
        if argv[-2] == "--out" and out.exists():
            kept["files"] = digests.of_folder(out)
            if (out / "report.html").exists():
                kept["report"] = digests.page(out / "report.html", Path.cwd())
        return kept

    return run


def printed(argv: list[str]) -> tuple[int, list[str]]:
    """A command's exit status, and what it wrote to the screen."""
    screen, errors = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(errors):
        try:
            cli.main(argv)
        except SystemExit as end:
            status = int(end.code or 0)
    if status == 2:
        raise RuntimeError(errors.getvalue())
    return status, digests.plain(screen.getvalue(), Path.cwd()).splitlines()


def compare(old: Path, new: Path, again: Path | None = None) -> int:
    """Print each difference: the file, the way to it, and both values.

    Args:
        again: a second record of the old version; where it differs from the first, a clock was
            read, and nothing is said.
    """
    names = sorted({path.name for one in (old, new) for path in one.glob("*.json")})
    count = 0
    for name in names:
        both = [(one / name) for one in (old, new)]
        if not all(path.exists() for path in both):
            print(f"{name}: only in {both[0].parent if both[0].exists() else both[1].parent}")
            count += 1
            continue
        before, after = (json.loads(path.read_text(encoding="utf-8")) for path in both)
        of_time = set()
        if again is not None and (again / name).exists():
            other = json.loads((again / name).read_text(encoding="utf-8"))
            of_time = {place for place, *_ in differences(before, other, "")}
        for place, was, now in differences(before, after, ""):
            if place in of_time:
                continue
            print(f"{name}{place}:\n  - {was}\n  + {now}")
            count += 1
    print(f"{count} differences in {len(names)} files")
    return int(count > 0)


def differences(was: Any, now: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted({*was, *now}):
            yield from differences(was.get(key), now.get(key), f" › {key}")
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for i, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from differences(one, other, f"{place}[{i}]")
    elif was != now:
        yield place, *(str(one)[:300] for one in (was, now))


def reopen(old: Path) -> int:
    """Load each result of an earlier record, and give its command again in a copy of its folder:
    every file that was there has to be there unchanged, and no run is trained."""
    import interp_compose as ic

    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary) / "work"
        shutil.copytree(old / "work", work)
        with contextlib.chdir(work):
            for name, argv in configurations.commands().items():
                out = Path(argv[-1])
                if name in cli.ON_RESULTS or not out.exists():
                    continue
                before = digests.of_folder(out)
                runs = _trained(out)
                result = ic.load_result(out)
                status, said = printed([*argv, "-q"])
                after = digests.of_folder(out)
                changed = [at for at, *_ in differences(before, after, "")]
                again = sorted(map(str, {*_trained(out).items()} ^ {*runs.items()}))
                if changed or again or status not in (0, result.exit_status):
                    failed += 1
                    print(f"{name}: {status} {said[-3:]} {changed[:5]} {again[:5]}")
                else:
                    print(f"{name}: {type(result).__name__} opened; {len(runs)} runs kept")
    return int(failed > 0)


def _trained(out: Path) -> dict[Path, int]:
    """When weights and marks of finished runs were written."""
    kinds = ("*.safetensors", "DONE")
    return {path: path.stat().st_mtime_ns for kind in kinds for path in out.rglob(kind)}


if __name__ == "__main__":
    sys.exit(main())
