"""Sememes: HowNet's files by hand, line by line; the split of words; what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import interp_compose as ic
from interp_compose.errors import DataFormatError, InputError, MissingDataError, OptionError
from interp_compose.papers.cat.tasks.sememes import ANNOTATIONS, DICTIONARY, NAMES

FILES = {
    ANNOTATIONS: "狗\t兽 畜\n河\t水域\n水\t液\n水\t饮用\n孤\t液 液\n",
    DICTIONARY: "dog\t狗/犬\nWater\t水\nwater\t河/无\nhot dog\t狗\nnothing\t无\nriver\t河\n",
    NAMES: "beast|兽\nlivestock|畜\nwaters|水域\nliquid|液\ndrink|饮用\nunused|闲\n",
}
WORDS = {"dog": (0, 1), "water": (2, 3, 4), "river": (2,)}
"""By their translations: those of "Water" and of "water" together."""
LIKE_WORDS = st.text("abcdé'-", min_size=1, max_size=6)


def folder_of(path: Path, **changed: str | bytes | None) -> Path:
    """A folder of the three files, some of them other, or left out (None)."""
    names = {"annotations": ANNOTATIONS, "dictionary": DICTIONARY, "names": NAMES}
    contents: dict[str, Any] = {**FILES, **{names[name]: own for name, own in changed.items()}}
    for name, content in contents.items():
        if content is not None:
            data = content if isinstance(content, bytes) else content.encode()
            (path / name).write_bytes(data)
    return path


def test_a_folder_by_hand(tmp_path: Path) -> None:
    sememes = ic.cat.load_sememes(folder_of(tmp_path))
    assert sememes.names == ("beast", "livestock", "waters", "liquid", "drink", "unused")
    assert dict(sememes.words) == WORDS
    assert dict(ic.cat.load_sememes(str(tmp_path)).words) == WORDS


def test_blank_lines_other_line_ends_and_a_mark_at_the_beginning(tmp_path: Path) -> None:
    other = {
        name: ("\ufeff\n" + content.replace("\n", "\r\n \r\n")).encode()
        for name, content in FILES.items()
    }
    folder = folder_of(
        tmp_path,
        annotations=other[ANNOTATIONS],
        dictionary=other[DICTIONARY],
        names=other[NAMES],
    )
    assert dict(ic.cat.load_sememes(folder).words) == WORDS


def test_a_name_of_several_sememes_gets_a_number(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, names=FILES[NAMES] + "beast|鸟\nliquid|汤\nbeast|鱼\n")
    names = ic.cat.load_sememes(folder).names
    assert names[:4] == ("beast", "livestock", "waters", "liquid")
    assert names[6:] == ("beast 2", "liquid 2", "beast 3")


def test_a_number_that_is_a_name_already_is_passed_over(tmp_path: Path) -> None:
    names = "liquid|水\nliquid 2|液\nliquid|饮\n"
    folder = folder_of(tmp_path, names=names, annotations="水\t水\n", dictionary="water\t水\n")
    assert ic.cat.load_sememes(folder).names == ("liquid", "liquid 2", "liquid 3")


@pytest.mark.parametrize("line", ["water \t水/河", "water\t水 / 河", "\u00a0water\t 水/ 河 "])
def test_blanks_around_an_entry_change_nothing(line: str, tmp_path: Path) -> None:
    made = {"names": "liquid|液\nwaters|域\n", "annotations": "水\t液\n河\t域\n"}
    sememes = ic.cat.load_sememes(folder_of(tmp_path, dictionary=f"{line}\n", **made))
    assert dict(sememes.words) == {"water": (0, 1)}


def test_a_words_sememes_are_in_order(tmp_path: Path) -> None:
    numbers = (9, 0, 8, 1, 17)
    folder = folder_of(
        tmp_path,
        annotations="狗\t" + " ".join(f"义{i}" for i in numbers),
        dictionary="dog\t狗",
        names="\n".join(f"name{i}|义{i}" for i in range(18)),
    )
    assert ic.cat.load_sememes(folder).words["dog"] == tuple(sorted(numbers))


@pytest.mark.parametrize("missing", [ANNOTATIONS, DICTIONARY, NAMES])
def test_a_file_that_is_not_there(missing: str, tmp_path: Path) -> None:
    folder_of(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(MissingDataError, match=f"there is no .*{missing}; expected a folder with"):
        ic.cat.load_sememes(tmp_path)
    (tmp_path / missing).mkdir()
    with pytest.raises(MissingDataError, match=f"there is no .*{missing}"):
        ic.cat.load_sememes(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"annotations": "狗\t兽\n河 水域\n"},
            "line 2 of .*hownet.txt is '河 水域': expected an entry",
        ),
        ({"annotations": "狗\t\n"}, "line 1 of .*hownet.txt is '狗': expected an entry, one tab"),
        ({"annotations": "狗\t兽\t畜\n"}, r"line 1 of .*hownet.txt is '狗\\t兽\\t畜': expected"),
        ({"annotations": "\t兽\n"}, "line 1 of .*hownet.txt is '兽': expected an entry"),
        (
            {"annotations": "\n狗\t猫\n"},
            "line 2 of .*hownet.txt has the sememe '猫', which sememe_",
        ),
        ({"dictionary": "dog 狗\n"}, "line 1 of .*en2zh_dict.txt is 'dog 狗': expected an entry"),
        ({"dictionary": "dog\t//\n"}, "line 1 of .*en2zh_dict.txt is .*: expected an entry"),
        ({"dictionary": "cat\t猫\n"}, "no word of en2zh_dict.txt has a translation that hownet"),
        ({"dictionary": "hot dog\t狗\n"}, "no word of en2zh_dict.txt has a translation"),
        ({"dictionary": ""}, "no word of en2zh_dict.txt has a translation"),
        (
            {"names": "beast 兽\n"},
            "line 1 of .*EnZh.txt is 'beast 兽': expected a sememe's English",
        ),
        ({"names": "|兽\n"}, r"line 1 of .*EnZh.txt is '\|兽': expected"),
        ({"names": "beast|\n"}, r"line 1 of .*EnZh.txt is 'beast\|': expected"),
        ({"names": "beast|兽\n\nanimal|兽\n"}, "line 3 of .*: expected .* each sememe once"),
        ({"names": "兽".encode("gb18030")}, "EnZh.txt is no UTF-8 text .*; get it again"),
    ],
)
def test_lines_that_are_refused(
    changed: dict[str, str | bytes], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataFormatError, match=message):
        ic.cat.load_sememes(folder_of(tmp_path, **changed))


@pytest.mark.parametrize(
    ("names", "words", "message"),
    [
        ((), {"a": (0,)}, "names holds 0 sememes, 0 different ones: expected one or more"),
        (("x", "y", "x"), {"a": (0,)}, "names holds 3 sememes, 2 different ones"),
        (("x",), {}, "words is empty: expected at least one annotated word"),
        (("x",), {"a b": (0,)}, "'a b' is no single word"),
        (("x",), {"a ": (0,)}, "'a ' is no single word"),
        (("x",), {"": (0,)}, "'' is no single word"),
        (("x", "y"), {"a": (1, 2)}, r"'a' has the sememes \(1, 2\): expected .* from 0 to 1"),
        (("x", "y"), {"a": (-1,)}, r"'a' has the sememes \(-1,\): expected at least one"),
        (("x", "y"), {"b": (0,), "a": ()}, r"'a' has the sememes \(\): expected at least one"),
    ],
)
def test_annotations_that_cannot_be(
    names: tuple[str, ...], words: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ic.cat.Sememes(names, words)


# ---- the split -----------------------------------------------------------------------------------


def slow_held(word: str, share: float) -> bool:
    """Whether the first 8 bytes of its SHA-256, as a fraction of all, are below the share."""
    digits = hashlib.sha256(word.encode("utf-8")).hexdigest()[:16]
    return int(digits, 16) < share * 16**16


@given(st.sets(LIKE_WORDS, min_size=1, max_size=40), st.floats(0.05, 0.95))
def test_words_are_split_by_their_digests(words: set[str], share: float) -> None:
    sememes = ic.cat.Sememes(("x", "y"), {word: (len(word) % 2,) for word in sorted(words)})
    held = {word for word in words if slow_held(word, share)}
    if held in (set(), words):
        with pytest.raises(OptionError, match=f"of {len(words)} words leaves one of the two sides"):
            sememes.split(share)
        return
    sides = sememes.split(share)
    assert [set(side.words) for side in sides] == [words - held, held]
    for side in sides:
        assert side.names == sememes.names
        assert all(sememes.words[word] == own for word, own in side.words.items())


def test_a_word_is_on_one_side_whatever_others_there_are() -> None:
    """And on that of a smaller share as well; about the share is held out."""
    words = {f"word{i}": (i % 3,) for i in range(2000)}
    half = {word: own for i, (word, own) in enumerate(words.items()) if i % 2}
    names = ("x", "y", "z")
    held = {share: set(ic.cat.Sememes(names, words).split(share)[1].words) for share in (0.1, 0.3)}
    assert held[0.1] < held[0.3]
    assert set(ic.cat.Sememes(names, half).split(0.3)[1].words) == held[0.3] & set(half)
    for share, own in held.items():
        assert abs(len(own) / 2000 - share) < 4 * (share * (1 - share) / 2000) ** 0.5


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_share_that_cannot_be(share: float) -> None:
    sememes = ic.cat.Sememes(("x",), {"a": (0,), "b": (0,)})
    with pytest.raises(OptionError, match=f"share={share!r}: expected a number between 0 and 1"):
        sememes.split(share)
