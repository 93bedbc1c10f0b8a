"""CoGnition: English to Chinese, and compounds in contexts that test compositional translation.

Li, Yin, Chen and Zhang 2021, "On Compositional Generalization of Neural Machine Translation" (ACL).
A target token is a Chinese character, or a run of Latin letters, digits and marks: the files
separate words with blanks in the training, validation and test split and nothing in the compound
test, so that words would not be the same tokens there. (The authors train on words cut by 2,000
byte-pair merges.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from interp_compose._public import public, short
from interp_compose.errors import DataFormatError, InputError, warn
from interp_compose.tasks.published import altered, named
from interp_compose.tasks.rows import data_files, numbered_lines
from interp_compose.tasks.sequences import (
    SequencePair,
    SequenceTask,
    check_counts,
    report_of,
)

if TYPE_CHECKING:
    import pandas as pd

COUNTS: Final = {"train": 196246, "valid": 10000, "test": 10000, "cg-test": 10800}
KINDS: Final = ("NP", "VP", "PP")
CONTEXTS: Final = 5
"""Sentences with the same compound, one after another."""
MODIFIERS: Final = {"he liked": "mod0", "at the store": "mod1", "on the floor": "mod2"}
"""Three words that are one atom, and their names in the lexicon."""
TOKEN: Final = re.compile(r"[!-~]+|[^\s!-~]")
CG_FILES: Final = tuple(
    f"cg-test/{name}" for name in ("cg-test.en", "cg-test.zh", "cg-test.compound")
)
KIND_FILES: Final = tuple(f"cg-test/{kind}/{kind}.compound" for kind in KINDS)


def cognition(data_dir: str | Path | None) -> SequenceTask:
    """The four splits; raises as :func:`.sequences.load_sequences` says."""
    parallel = {split: (f"{split}.en", f"{split}.zh") for split in COUNTS if split != "cg-test"}
    _files(data_dir, [*sum(parallel.values(), ()), *CG_FILES, *KIND_FILES])
    splits = {
        split: tuple(_pair(*texts) for texts in _lines(_files(data_dir, names)))
        for split, names in parallel.items()
    }
    splits["cg-test"] = _compounds(data_dir)[0]
    check_counts("CoGnition", data_dir, splits, COUNTS)
    name, source = named("cognition", "CoGnition", data_dir, splits)
    return SequenceTask(name, splits, report_of(source, splits, overlap=True))


@public
def load_compounds(data_dir: str | Path, *, lexicon: str | Path | None = None) -> CompoundTest:
    """The compound test of CoGnition, which needs neither training data nor a model.

    Args:
        data_dir: the folder ``data`` of CoGnition; only its folder ``cg-test`` is read.
        lexicon: the file with the translations of the atoms; else ``eval/lexicon`` next to
            ``data_dir``, where it is published.

    Raises:
        MissingDataError: a file is not there; says where to get it.
        DataFormatError: the files' lines do not match, or a compound's atom has no translation.
        UserWarning: sentences or translations are not the published ones.
    """
    path = Path(data_dir).parent / "eval" / "lexicon" if lexicon is None else Path(lexicon)
    hint = "it is eval/lexicon of https://github.com/yafuly/CoGnition; pass it as lexicon="
    (path,) = data_files("cognition", path.parent, [path.name], needs="a lexicon", hint=hint)
    test = CompoundTest(*_compounds(data_dir), _lexicon(path))
    atoms = (f"{atom}\t{'/'.join(words)}" for atom, words in test.lexicon.items())
    if changes := altered("CoGnition", {"cg-test": test.pairs, "lexicon": atoms}):
        warn(f"the compound test in {data_dir} is altered: {changes}; its error rates are its own")
    return test


@public
@dataclass(frozen=True)
class CompoundTest:
    """Sentences, each with a compound of known atoms, and what translations an atom may have.

    A compound is a noun phrase (``kind`` NP: determiner, adjective or not, noun, modifier or not),
    or a verb (VP) or preposition (PP) before one. Five sentences in a row share a compound.

    Raises:
        DataFormatError: numbers of sentences and compounds differ; a compound is not in its
            sentence, is not that of five sentences in a row, or has an atom without translation.
    """

    pairs: tuple[SequencePair, ...]
    compounds: tuple[str, ...]
    lexicon: Mapping[str, tuple[str, ...]]
    """Translations of each atom; none for an atom that Chinese may leave out."""

    def __post_init__(self) -> None:
        if len(self.pairs) != len(self.compounds):
            raise DataFormatError(
                f"there are {len(self.compounds)} compounds for {len(self.pairs)} sentences; "
                "expected one for each"
            )
        for i, (pair, compound) in enumerate(zip(self.pairs, self.compounds, strict=True)):
            where = f"sentence {i + 1} of the compound test, {short(pair.source)},"
            if f" {compound} " not in f" {pair.source} ":
                raise DataFormatError(f"{where} lacks its compound {compound!r}")
            first = i - i % CONTEXTS
            if self.compounds[first : first + CONTEXTS] != (compound,) * CONTEXTS:
                raise DataFormatError(
                    f"{where} has the compound {compound!r}; expected each compound in "
                    f"{CONTEXTS} sentences in a row, the first of them 1, {CONTEXTS + 1}, …"
                )
            for atom in _atoms(compound, pair.kind, where).values():
                if atom not in self.lexicon:
                    raise DataFormatError(f"{where} has the atom {atom!r}, which the lexicon lacks")

    def translated(self, translations: Sequence[str]) -> list[bool]:
        """Whether each sentence's compound is translated, by the rule of the published tool.

        Blanks are removed from a translation. Then every atom has to have one of its translations
        in it. With several places, determiner and adjective have to have one before the noun's last
        place, and so has the modifier, where there is no verb (a modifier of a verb phrase may
        belong to the verb). An atom that Chinese may leave out is never missing or misplaced.

        Raises:
            InputError: not one translation for each sentence.
        """
        if len(translations) != len(self.pairs):
            raise InputError(
                f"there are {len(translations)} translations for {len(self.pairs)} sentences"
            )
        rows = zip(self.pairs, self.compounds, translations, strict=True)
        return [self._is_translated(pair.kind, compound, text) for pair, compound, text in rows]

    def _is_translated(self, kind: str, compound: str, translation: str) -> bool:
        text = "".join(translation.split())
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for role, atom in _atoms(compound, kind, "").items():
            if not self.lexicon[atom]:
                continue
            matches = [word for word in self.lexicon[atom] if word in text]
            if not matches:
                return False
            first[role] = min(text.find(word) for word in matches)
            last[role] = max(text.rfind(word) for word in matches)
        before = (
            ("determiner", "adjective") if kind == "VP" else ("determiner", "adjective", "modifier")
        )
        return all(first[role] < last["noun"] for role in before if role in first)

    def error_rates(self, translations: Sequence[str]) -> pd.DataFrame:
        """Compound translation error rates in [0, 1], of each kind and of all.

        ``instance_error`` is the share of sentences whose compound is not translated,
        ``aggregate_error`` that of compounds that are not translated in all of their five
        sentences. Columns: kind, n_sentences, instance_error, n_compounds, aggregate_error.

        Raises:
            InputError: not one translation for each sentence.
        """
        import pandas as pd

        frame = pd.DataFrame(
            {
                "kind": [pair.kind for pair in self.pairs],
                "compound": [i // CONTEXTS for i in range(len(self.pairs))],
                "wrong": [not right for right in self.translated(translations)],
            }
        )
        rows: list[dict[str, Any]] = []
        for kind in ("all", *dict.fromkeys(frame["kind"])):
            part = frame if kind == "all" else frame[frame["kind"] == kind]
            of_compound = part.groupby("compound")["wrong"].any()
            rows.append(
                {
                    "kind": kind,
                    "n_sentences": len(part),
                    "instance_error": part["wrong"].mean(),
                    "n_compounds": len(of_compound),
                    "aggregate_error": of_compound.mean(),
                }
            )
        return pd.DataFrame(rows)


def _atoms(compound: str, kind: str, where: str) -> dict[str, str]:
    """The atoms of a compound by their role."""
    for words, name in MODIFIERS.items():
        compound = compound.replace(words, name)
    atoms = compound.split()
    roles = ["head"] * (kind in ("VP", "PP")) + ["determiner"]
    ending = ["noun", "modifier"] if atoms[-1] in MODIFIERS.values() else ["noun"]
    n_adjectives = len(atoms) - len(roles) - len(ending)
    if kind not in KINDS or n_adjectives not in (0, 1):
        raise DataFormatError(
            f"{where} has the compound {compound!r} of kind {kind!r}; expected one of "
            f"{', '.join(KINDS)}: determiner, adjective or not, noun, modifier or not, and before "
            "them a verb (VP) or a preposition (PP)"
        )
    return dict(zip(roles + ["adjective"] * n_adjectives + ending, atoms, strict=True))


def _files(data_dir: str | Path | None, names: Sequence[str]) -> list[Path]:
    hint = (
        "get https://github.com/yafuly/CoGnition and pass its folder data, with "
        f"{', '.join(names)}, as data_dir (--data-dir)"
    )
    return data_files("cognition", data_dir, names, needs="the data set CoGnition", hint=hint)


def _lines(paths: Sequence[Path]) -> list[tuple[str, ...]]:
    """Lines with the same number of several files."""
    read = [dict(numbered_lines(path)) for path in paths]
    for path, lines in zip(paths[1:], read[1:], strict=True):
        if unmatched := sorted(set(lines) ^ set(read[0])):
            raise DataFormatError(
                f"{path} has {len(lines)} lines and {paths[0]} {len(read[0])}; line "
                f"{unmatched[0]} is missing or blank in one of them. Lines with the same number "
                "belong together: get the files again"
            )
    return [tuple(lines[number].strip() for lines in read) for number in read[0]]


def _compounds(data_dir: str | Path | None) -> tuple[tuple[SequencePair, ...], tuple[str, ...]]:
    """The sentences of the compound test and the compound of each."""
    rows = _lines(_files(data_dir, CG_FILES))
    compounds = tuple(compound for *_, compound in rows)
    of_kind = [
        (kind, compound)
        for kind, path in zip(KINDS, _files(data_dir, KIND_FILES), strict=True)
        for _, compound in numbered_lines(path)
    ]
    if tuple(compound.strip() for _, compound in of_kind) != compounds:
        raise DataFormatError(
            f"the {len(compounds)} compounds of {data_dir}/{CG_FILES[-1]} are not the "
            f"{len(of_kind)} of {', '.join(KIND_FILES)} one after another; get the files again"
        )
    kinds = [kind for kind, _ in of_kind]
    pairs = (
        _pair(source, target, kind) for (source, target, _), kind in zip(rows, kinds, strict=True)
    )
    return tuple(pairs), compounds


def _pair(source: str, target: str, kind: str = "") -> SequencePair:
    return SequencePair(source, " ".join(TOKEN.findall(target)), kind)


def _lexicon(path: Path) -> dict[str, tuple[str, ...]]:
    """Translations by atom: ``/`` between them, and alone for an atom that may be left out.

    The published file gives *building* twice, and the second line counts, as in the published tool.
    It ends the line of *liked* with ``/``: an empty translation, which is always found.
    """
    lexicon = {}
    for number, line in numbered_lines(path):
        atom, tab, translations = line.strip().partition("\t")
        if not tab or not atom or not translations:
            raise DataFormatError(
                f"{path}, line {number} is not an atom, a tab and its translations: {line[:80]!r}"
            )
        lexicon[atom] = () if translations == "/" else tuple(translations.split("/"))
    return lexicon
