"""CoGnition: the published layout, and the rule by which a compound counts as translated."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from interp_compose.errors import DataFormatError, InputError, MissingDataError
from interp_compose.papers.lrf.tasks import cognition as module
from interp_compose.papers.lrf.tasks.cognition import CompoundTest, load_compounds
from interp_compose.tasks.published import PUBLISHED, altered, rows_sha256
from interp_compose.tasks.sequences import SequencePair, load_sequences

LEXICON = (
    "the\t/\ndog\t狗/犬\nred\t红\neach\t每\nmod0\t他喜欢的\nsaw\t看到/看\nliked\t喜欢/\non\t/\n"
)
KINDS = {"NP": "each red dog he liked", "VP": "saw each red dog he liked", "PP": "on the dog"}
TEXTS = {
    "train": [("a dog ran .", "一只 狗 跑 了 。"), ("a cat .", "猫 sat 。")],
    "valid": [("a cat .", "一只 猫 。")],
    "test": [("the cat .", "猫 。"), ("dog .", "狗 。")],
}


COUNTS = {"train": 2, "valid": 1, "test": 2, "cg-test": 15}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "COUNTS", COUNTS)
    monkeypatch.setitem(PUBLISHED, "CoGnition", {})
    return layout(tmp_path)


def layout(path: Path) -> Path:
    """A small data set in the published layout: a folder data, and beside it eval/lexicon."""
    data = path / "data"
    for split, pairs in TEXTS.items():
        write(data / f"{split}.en", [source for source, _ in pairs])
        write(data / f"{split}.zh", [target for _, target in pairs])
    of_kind = {kind: [compound] * 5 for kind, compound in KINDS.items()}
    for kind, compounds in of_kind.items():
        write(data / "cg-test" / kind / f"{kind}.compound", compounds)
    compounds = [one for of_one in of_kind.values() for one in of_one]
    write(data / "cg-test" / "cg-test.compound", compounds)
    write(data / "cg-test" / "cg-test.en", [f"{i} {text} ." for i, text in enumerate(compounds)])
    write(data / "cg-test" / "cg-test.zh", ["每只他喜欢的红狗。"] * 15)
    write(path / "eval" / "lexicon", LEXICON.splitlines())
    return data


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def changed(path: Path, line: int, text: str | None) -> None:
    """Another text in one line, or one line less."""
    lines = path.read_text(encoding="utf-8").splitlines()
    write(path, [*lines[:line], *([] if text is None else [text]), *lines[line + 1 :]])


def test_the_published_layout(folder: Path) -> None:
    task = load_sequences("cognition", data_dir=folder)
    assert task.split("train") == (
        SequencePair("a dog ran .", "一 只 狗 跑 了 。"),
        SequencePair("a cat .", "猫 sat 。"),
    )
    assert task.split("cg-test")[5] == SequencePair(
        "5 saw each red dog he liked .", "每 只 他 喜 欢 的 红 狗 。", "VP"
    )
    assert task.report == {
        "source": f"CoGnition in {folder} "
        "(train, valid, test, cg-test not compared with the published rows)",
        "train_all": 2,
        "valid_all": 1,
        "test_all": 2,
        "cg-test_all": 15,
        "valid_with_unseen_tokens": 0,
        "valid_also_in_train": 1,
        "test_with_unseen_tokens": 1,  # the
        "test_also_in_train": 0,
        "cg-test_with_unseen_tokens": 15,
        "cg-test_also_in_train": 0,
    }


def test_the_compound_test_needs_no_training_data(folder: Path) -> None:
    (folder / "train.en").unlink()
    test = load_compounds(folder)
    assert test.compounds[4:6] == ("each red dog he liked", "saw each red dog he liked")
    assert [pair.kind for pair in test.pairs] == ["NP"] * 5 + ["VP"] * 5 + ["PP"] * 5
    assert test.lexicon["saw"] == ("看到", "看")
    assert test.lexicon["the"] == ()
    assert test.lexicon["liked"] == ("喜欢", "")
    with pytest.raises(MissingDataError, match="there is no .*train.en: get .*yafuly/CoGnition"):
        load_sequences("cognition", data_dir=folder)
    with pytest.raises(MissingDataError, match="there is no .*nowhere: it is eval/lexicon of"):
        load_compounds(folder, lexicon=folder / "nowhere")


@pytest.mark.parametrize("file", ["cg-test.zh", "lexicon"])
def test_an_altered_compound_test_says_so(
    file: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = load_compounds(folder)
    rows = {
        "cg-test": rows_sha256(test.pairs),
        "lexicon": rows_sha256(f"{atom}\t{'/'.join(of)}" for atom, of in test.lexicon.items()),
    }
    monkeypatch.setitem(PUBLISHED, "CoGnition", rows)
    assert load_compounds(folder) == test
    path = folder / "cg-test" / file if file == "cg-test.zh" else folder.parent / "eval" / file
    write(path, [path.read_text(encoding="utf-8").replace("狗", "猫", 1)])
    with pytest.warns(UserWarning, match=f"is altered: the rows of {file[:7]} .SHA-256"):
        load_compounds(folder)


MISMATCHED = [
    ("cg-test/cg-test.zh", 3, None, "cg-test.zh has 14 lines and .*cg-test.en 15; line 15 is"),
    ("cg-test/cg-test.zh", 3, " ", "cg-test.zh has 14 lines and .*cg-test.en 15; line 4 is mis"),
    ("cg-test/VP/VP.compound", 0, None, "the 15 compounds of .* are not the 14 of cg-test/NP/NP"),
    ("cg-test/NP/NP.compound", 0, "the dog", "the 15 compounds of .* are not the 15 of cg-test/"),
    ("cg-test/cg-test.en", 6, "6 the dog .", "sentence 7 .*'6 the dog .', lacks its compound 'saw"),
    ("../eval/lexicon", 1, "dog 狗", "lexicon, line 2 is not an atom, a tab and its translations"),
    ("../eval/lexicon", 1, "cat\t猫", "sentence 1 .* has the atom 'dog', which the lexicon lacks"),
]


@pytest.mark.parametrize(("file", "line", "text", "message"), MISMATCHED)
def test_lines_that_do_not_match_are_refused(
    file: str, line: int, text: str | None, message: str, folder: Path
) -> None:
    changed(folder / file, line, text)
    with pytest.raises(DataFormatError, match=message):
        load_compounds(folder)


def test_another_number_of_sentences_is_refused(folder: Path) -> None:
    for language in ("en", "zh"):
        changed(folder / f"test.{language}", 0, None)
    with pytest.raises(DataFormatError, match="test has 1 examples, and CoGnition's has 2"):
        load_sequences("cognition", data_dir=folder)


def compound_test(compound: str, kind: str, sentences: int = 5) -> CompoundTest:
    lexicon = {
        atom: () if text == "/" else tuple(text.split("/"))
        for atom, text in (line.split("\t") for line in LEXICON.splitlines())
    }
    pairs = tuple(SequencePair(f"{i} {compound} .", "狗", kind) for i in range(sentences))
    return CompoundTest(pairs, (compound,) * sentences, lexicon)


@pytest.mark.parametrize(
    ("compound", "kind", "translation", "translated"),
    [
        ("the dog", "NP", "一只 犬 。", True),
        ("the dog", "NP", "一只 猫 。", False),
        ("each red dog he liked", "NP", "每 只 他 喜欢 的 红 狗", True),
        ("each red dog he liked", "NP", "每只他喜欢的狗", False),  # red is missing
        ("each red dog he liked", "NP", "每只红狗，他喜欢的", False),  # the modifier comes last
        ("saw each red dog he liked", "VP", "他喜欢的，看每只红狗", True),
        ("saw each red dog he liked", "VP", "看每只红狗，他喜欢的", True),  # free beside a verb
        ("saw each red dog he liked", "VP", "每只红狗，他喜欢的", False),  # saw is missing
        ("each red dog", "NP", "每只狗红", False),
        ("each red dog", "NP", "每只狗红狗", True),  # before the noun's last place
        ("each red dog", "NP", "红狗每", False),
        ("on the dog", "PP", "狗", True),  # on and the may be left out
        ("liked the dog", "VP", "狗", True),  # the published lexicon's empty translation
    ],
)
def test_the_rule(compound: str, kind: str, translation: str, translated: bool) -> None:
    assert compound_test(compound, kind).translated([translation] * 5) == [translated] * 5


def test_a_compound_is_wrong_if_one_of_its_five_contexts_is() -> None:
    one, two = compound_test("the dog", "NP"), compound_test("on the dog", "PP", 10)
    test = CompoundTest(one.pairs + two.pairs, one.compounds + two.compounds, one.lexicon)
    with pytest.raises(InputError, match="there are 3 translations for 15 sentences"):
        test.error_rates(["狗"] * 3)
    rates = test.error_rates(["狗"] * 4 + ["猫"] + ["狗"] * 6 + ["猫", "猫", "狗", "狗"])
    assert rates.to_dict("list") == {
        "kind": ["all", "NP", "PP"],
        "n_sentences": [15, 5, 10],
        "instance_error": [3 / 15, 1 / 5, 2 / 10],
        "n_compounds": [3, 1, 2],
        "aggregate_error": [2 / 3, 1.0, 1 / 2],
    }


def test_compounds_that_do_not_fit_their_sentences_are_refused() -> None:
    test = compound_test("the dog", "NP")
    with pytest.raises(DataFormatError, match="there are 4 compounds for 5 sentences"):
        CompoundTest(test.pairs, test.compounds[:4], test.lexicon)
    with pytest.raises(DataFormatError, match="sentence 1 .* expected each compound in 5 sent"):
        CompoundTest(test.pairs[:4], test.compounds[:4], test.lexicon)
    with pytest.raises(DataFormatError, match="sentence 1 .* 'the dog' of kind 'XP'; expected one"):
        compound_test("the dog", "XP")
    for compound, kind in (("the", "NP"), ("the red red dog", "NP"), ("the dog", "VP")):
        with pytest.raises(DataFormatError, match=f"the compound '{compound}' of kind '{kind}'"):
            compound_test(compound, kind)


DETERMINERS = {"the", "every", "any", "another", "each"}
PREPOSITIONS = {
    *("about", "around", "before", "behind", "except", "for", "from", "inside", "like", "near"),
    *("on", "to", "toward", "towards", "under", "with", "without"),
}
NAMES = {"he liked": "mod0", "at the store": "mod1", "on the floor": "mod2"}


def translated_slowly(compound: str, text: str, lexicon: dict[str, str]) -> bool:
    """The rule once more: roles from the place of the determiner, places one by one."""
    for several, name in NAMES.items():
        compound = compound.replace(several, name)
    atoms = compound.split()
    places: dict[str, list[int]] = {}
    (at,) = (i for i, atom in enumerate(atoms) if atom in DETERMINERS)
    rest = atoms[at + 1 :]
    roles = {"head": atoms[:at], "determiner": [atoms[at]]}
    roles["modifier"] = [atom for atom in rest if atom.startswith("mod")]
    *roles["adjective"], noun = [atom for atom in rest if not atom.startswith("mod")]
    roles["noun"] = [noun]
    for role, of_role in roles.items():
        for atom in of_role:
            if lexicon[atom] == "/":
                continue
            words = lexicon[atom].split("/")
            places[role] = [m.start() for word in words for m in re.finditer(word, text)]
            if not places[role]:
                return False
    before = ["determiner", "adjective"] + ["modifier"] * (atoms[0] in DETERMINERS | PREPOSITIONS)
    return all(
        any(one < other for one in places[role] for other in places["noun"])
        for role in before
        if role in places
    )


@pytest.mark.data
def test_real_compounds_against_a_slow_reference(data_dir: Path) -> None:
    here = data_dir / "cognition"
    test = load_compounds(here, lexicon=here / "lexicon.txt")
    assert len(test.pairs) == 10800
    assert not altered("CoGnition", {"cg-test": test.pairs})
    rates = test.error_rates([pair.target for pair in test.pairs])
    assert rates["n_compounds"].tolist() == [2160, 720, 720, 720]
    lines = (here / "lexicon.txt").read_text(encoding="utf-8").splitlines()
    lexicon = dict(line.split("\t") for line in lines)
    draw = random.Random(0)
    texts = [pair.target.split() for pair in test.pairs]
    for words in texts[1::2]:
        cut = draw.randrange(len(words))
        words[:] = words[cut:] + words[: cut - 1]
    found = test.translated([" ".join(words) for words in texts])
    rows = list(zip(test.compounds, texts, strict=True))
    assert found == [
        translated_slowly(compound, "".join(words), lexicon) for compound, words in rows
    ]
    assert 0.1 < sum(found) / len(found) < 0.95
    with pytest.raises(MissingDataError, match="train.en"):
        load_sequences("cognition", data_dir=here)
