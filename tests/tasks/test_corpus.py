"""A user's text: what a document is, which are held out, what is refused."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

import interp_compose as ic
from interp_compose.errors import DataFormatError, InputError, MissingDataError, OptionError
from interp_compose.tasks.corpus import Documents, read_documents

DOCUMENTS = [f"document {i}\nhas two lines" for i in range(20)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files: ten documents each, of which the second one repeats one of the first."""
    (tmp_path / "notes.md").write_bytes(b"\0")  # is not read
    (tmp_path / "a.TXT").write_text("\n\n".join(DOCUMENTS[:10]), encoding="utf-8")
    (tmp_path / ".a.txt").write_text("hidden", encoding="utf-8")
    (tmp_path / "more").mkdir()
    text = "\r\n \t\r\n".join([*DOCUMENTS[10:], DOCUMENTS[3].replace("\n", "  ")])
    (tmp_path / "more" / "b.txt.gz").write_bytes(gzip.compress(text.encode("utf-8-sig")))
    return tmp_path


def test_documents_are_split_by_the_digests_of_their_words(folder: Path) -> None:
    corpus = ic.load_text(folder, held_out=0.25)
    expected = sorted(
        DOCUMENTS, key=lambda text: hashlib.sha256(" ".join(text.split()).encode()).digest()
    )
    assert corpus.held_out == tuple(expected[:5])
    assert corpus.train == tuple(expected[5:])
    assert corpus.name == folder.name
    assert corpus.report == {
        "files": 2,
        "documents": "blank-line",
        "left_out_as_repeated": 1,
        "train_documents": 15,
        "train_bytes": sum(map(len, corpus.train)),
        "held_out_documents": 5,
        "held_out_bytes": sum(map(len, corpus.held_out)),
    }
    assert ic.load_text(folder, held_out=0.0001).held_out == tuple(expected[:1])
    assert ic.load_text(folder, held_out=0.9999).train == tuple(expected[19:])


def test_a_file_may_be_a_document(folder: Path) -> None:
    corpus = ic.load_text(folder, documents="file")
    assert len(corpus.train) == len(corpus.held_out) == 1
    assert "\n\n".join(DOCUMENTS[:10]) in corpus.train + corpus.held_out
    with pytest.raises(InputError, match="holds one document with documents='file'"):
        ic.load_text(folder / "a.TXT", documents="file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty.txt is empty"),
        (b" \n\n\t\n", "empty.txt is empty"),
        (b"a\n\nb\0c", r"has a NUL byte \(at character 4\)"),
        ("é".encode("latin-1"), "is no UTF-8 text"),
    ],
)
def test_a_file_that_is_no_text_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(content)
    with pytest.raises(DataFormatError, match=message):
        ic.load_text(tmp_path)


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"there is no .*nosuch; expected a text file"):
        ic.load_text(tmp_path / "nosuch")
    (tmp_path / "notes.md").write_text("a\n\nb", encoding="utf-8")
    with pytest.raises(MissingDataError, match="holds no text file; expected names that end in"):
        ic.load_text(tmp_path)
    assert ic.load_text(tmp_path / "notes.md").report["train_documents"] == 1
    (tmp_path / "broken.gz").write_bytes(b"a\n\nb")
    with pytest.raises(DataFormatError, match="cannot be decompressed"):
        ic.load_text(tmp_path / "broken.gz")
    for share in (0.0, 1.0, -0.5, float("nan")):
        with pytest.raises(OptionError, match="expected a share between 0 and 1"):
            ic.load_text(tmp_path / "notes.md", held_out=share)
    with pytest.raises(InputError, match="held-out document 'a b' is in the training part too"):
        ic.TextCorpus("mine", ("a b",), ("a  b",), {})
    with pytest.raises(InputError, match="the part 'held_out' of the text 'mine' has no documents"):
        ic.TextCorpus("mine", ("a",), (), {})
    with pytest.raises(InputError, match="document 1 of the part 'train' is blank"):
        ic.TextCorpus("mine", ("a", " "), ("b",), {})


# ---- one document after another -------------------------------------------------------------

PIECES = (
    "a",
    "b c",
    "é",
    " ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\f",
    "\u2028",
    "\u200b",
    "\ufeff",
)
"""Of which the last two are no white space."""


def written_out(text: str, *, whole: bool) -> list[str]:
    """The documents of a text that is in memory, split by a pattern."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    parts = [plain] if whole else re.split(r"\n(?:[^\S\n]*\n)+", f"\n{plain}\n")
    return [part.strip() for part in parts if part.strip()]


@pytest.mark.parametrize("kind", ["plain", "byte-order mark", "compressed"])
@pytest.mark.parametrize("documents", ["blank-line", "file"])
def test_documents_are_those_of_the_whole_text(
    documents: Documents, kind: str, tmp_path: Path
) -> None:
    """Lines of white space separate them however lines end; what else there is stays. A corpus has
    the same ones, the first of equal ones."""
    random = np.random.default_rng(0)
    path = tmp_path / ("text.txt.gz" if kind == "compressed" else "text.txt")
    seen = 0
    for _ in range(150):
        text = "".join(random.choice(PIECES, size=random.integers(1, 16)))
        text = text.lstrip("\ufeff")
        data = text.encode("utf-8-sig" if kind == "byte-order mark" else "utf-8")
        path.write_bytes(gzip.compress(data) if kind == "compressed" else data)
        expected = written_out(text, whole=documents == "file")
        if not expected:
            with pytest.raises(DataFormatError, match="is empty; leave it out"):
                list(read_documents(path, documents))
            continue
        assert list(read_documents(path, documents)) == expected
        first: dict[str, str] = {}
        for one in expected:
            first.setdefault(" ".join(one.split()), one)
        if len(first) > 1:
            corpus = ic.load_text(path, documents=documents, held_out=0.5)
            assert sorted(corpus.train + corpus.held_out) == sorted(first.values())
            assert corpus.report["left_out_as_repeated"] == len(expected) - len(first)
            seen += 1
    assert (seen > 20) == (documents == "blank-line")


def test_files_of_a_folder_come_one_after_another(folder: Path) -> None:
    again = DOCUMENTS[3].replace("\n", "  ")
    assert list(read_documents(folder)) == [*DOCUMENTS, again]
    one, other = read_documents(folder, "file")
    assert one == "\n\n".join(DOCUMENTS[:10])
    assert other == "\n \t\n".join([*DOCUMENTS[10:], again])


def test_a_text_is_read_as_far_as_it_is_asked_for(tmp_path: Path) -> None:
    """What is wrong behind is met when one comes there."""
    text = "\n\n".join(f"{one} of many" for one in range(50_000))
    for name, data, message in (
        ("a.txt", f"{text}\n\0".encode(), rf"NUL byte \(at character {len(text) + 1}\)"),
        ("b.txt", text.encode() + b"\n\xff", "is no UTF-8 text"),
        ("c.txt.gz", gzip.compress(text.encode())[:-9], "cannot be decompressed"),
    ):
        (tmp_path / name).write_bytes(data)
        documents = read_documents(tmp_path / name)
        assert [next(documents) for _ in range(3)] == ["0 of many", "1 of many", "2 of many"]
        with pytest.raises(DataFormatError, match=message):
            list(documents)
