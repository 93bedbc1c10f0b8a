"""What make release refuses to publish, and which versions it tries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import release

PACKAGE = {f"interp_compose/{name}" for name in release.INSIDE}
ABOUT = "interp_compose-0.1.dist-info/"
WHEEL = {**dict.fromkeys(PACKAGE, 10), f"{ABOUT}licenses/LICENSE": 10, f"{ABOUT}METADATA": 10}
SOURCE = {**dict.fromkeys((*PACKAGE, "LICENSE", "README.md", "pyproject.toml"), 10)}


def test_a_wheel_has_what_git_has_and_the_licence() -> None:
    release.check_wheel(WHEEL, PACKAGE)
    for files, package, message in (
        (WHEEL, PACKAGE | {"interp_compose/a.py"}, "the wheel lacks interp_compose/a.py"),
        ({**WHEEL, "interp_compose/b.py": 1}, PACKAGE, "the wheel has interp_compose/b.py"),
        ({**WHEEL, "tests/a.py": 1}, PACKAGE | {"tests/a.py"}, "the wheel has folders tests/a.py"),
        ({**WHEEL, "interp_compose/py.typed": 6 * 2**20}, PACKAGE, "bytes: interp_compose/py.ty"),
        (
            {name: size for name, size in WHEEL.items() if "LICENSE" not in name},
            PACKAGE,
            "the wheel lacks LICENSE",
        ),
        (
            {name: size for name, size in WHEEL.items() if "mini-idm" not in name},
            PACKAGE,
            "the wheel lacks interp_compose/shipped/mini-idm/model.safetensors",
        ),
    ):
        with pytest.raises(SystemExit, match=re.escape(message)):
            release.check_wheel(files, package)


def test_a_source_distribution_has_no_outputs() -> None:
    release.check_source({**SOURCE, "tests/a.py": 10})
    for extra in ("out/a.png", ".venv/a", "docs/_build/a.html", "tests/__pycache__/a.pyc"):
        with pytest.raises(SystemExit, match=f"the source distribution has {extra}"):
            release.check_source({**SOURCE, extra: 1})
    with pytest.raises(SystemExit, match="the source distribution lacks LICENSE"):
        release.check_source({n: size for n, size in SOURCE.items() if n != "LICENSE"})


def test_the_lowest_versions_are_the_bounds() -> None:
    assert list(
        release.lowest(["a>=1.2,<2", "b-c>=3", "d <4, >=2.1", "e>=2; python_version < '3'"])
    ) == [
        "a==1.2",
        "b-c==3",
        "d==2.1",
        "e==2 ; python_version < '3'",
    ]
    with pytest.raises(SystemExit, match="'a<2': expected a lower bound"):
        list(release.lowest(["a<2"]))


def test_torch_is_pinned_unless_it_is_left_to_pip() -> None:
    pinned = release.pinned("torch")
    low = release.constraints("lowest", pinned)
    assert [one for one in low if one.startswith("torch==")] == [f"torch=={pinned}"]
    assert "transformer-lens==3.9" in low
    assert release.constraints("highest", pinned) == [f"torch=={pinned}"]
    assert release.constraints("highest", "") == []
    (bound,) = [one for one in release.constraints("lowest", "") if one.startswith("torch==")]
    assert bound != f"torch=={pinned}"


def test_the_lines_that_are_run_are_readmes() -> None:
    assert "ic.cap_curve" in release.ten_lines()
    assert release.ten_lines() in (Path(release.ROOT) / "README.md").read_text(encoding="utf-8")
