"""Tasks whose ``ood`` split is of another distribution than what is trained on: CAT's Tables 2, 3.

The pairs are those of Hendrycks et al. (2020, "Pretrained Transformers Improve Out-of-Distribution
Robustness"), and PAWS-QQP with PAWS (swap-only); from files, or from the hub.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from interp_compose._public import public
from interp_compose.errors import DataFormatError, OptionError
from interp_compose.papers.cat.tasks.glue import FORMATS, SCORES, SENTENCES, glue_rows
from interp_compose.papers.cat.tasks.hub import hub_texts, load_split
from interp_compose.papers.cat.tasks.labelled import (
    LabelledTask,
    LabelledText,
    class_of,
    counted,
    score_of,
    shuffled,
)
from interp_compose.tasks.pairs import Pair, PairTask
from interp_compose.tasks.paws import COLUMNS, distinct, paws_qqp, read_distinct
from interp_compose.tasks.rows import (
    data_files,
    is_text,
    jsonl_rows,
    mapping_of,
    numbered_lines,
    text_of,
)

# ---- PAWS-QQP, PAWS (swap-only) -----------------------------------------------------------------

SWAP: Final = "swap/train.tsv"
WIKI: Final = "google-research-datasets/paws"


def paws_swap(data_dir: str | Path | None) -> LabelledTask:
    """Paraphrases: ``paws_qqp/`` as :func:`.paws.paws_qqp` reads it, and ``swap/train.tsv``, the
    swap-only pairs of PAWS-Wiki, all of which are another distribution (CAT, Table 2)."""
    hint = (
        "get paws_wiki_labeled_swap.tar.gz from https://github.com/google-research-datasets/paws "
        f"and pass the folder with {SWAP} and paws_qqp/ as data_dir"
    )
    (path,) = data_files("paws-swap", data_dir, [SWAP], needs="PAWS (swap-only)", hint=hint)
    assert data_dir is not None
    qqp = paws_qqp(Path(data_dir) / "paws_qqp")
    return _swapped(qqp, *read_distinct(path), f"PAWS in {data_dir}")


def _swap_from_hub(data_dir: str | Path | None) -> LabelledTask:
    qqp = paws_qqp(data_dir)
    data, where = load_split(WIKI, "labeled_swap", "train", COLUMNS)
    swap, rows = distinct(((f"row {number}", row) for number, row in enumerate(data)), where)
    return _swapped(qqp, swap, rows, f"PAWS-QQP in {data_dir}, {WIKI} labeled_swap (datasets)")


def _swapped(qqp: PairTask, swap: Sequence[Pair], rows: int, source: str) -> LabelledTask:
    splits = {"train": _classes(qqp.train), "test": _classes(qqp.test), "ood": _classes(swap)}
    report = counted(splits, source) | {"ood_repeated": rows - len(swap)}
    return LabelledTask("paws-swap", splits, ("0", "1"), ("accuracy",), report)


def _classes(pairs: Iterable[Pair]) -> tuple[LabelledText, ...]:
    return tuple(LabelledText(one.text1, one.text2, float(one.label or 0)) for one in pairs)


# ---- IMDB, SST-2 --------------------------------------------------------------------------------

IMDB: Final = "aclImdb"
REVIEWS: Final = ("neg", "pos")


def imdb_sst2(data_dir: str | Path | None) -> LabelledTask:
    """Reviews of films, negative or positive: ``aclImdb/`` (Maas et al. 2011), whose test reviews
    are halved into validation and test (CAT, appendix C.1), and GLUE's ``SST-2/dev.tsv``."""
    hint = (
        "unpack https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz and GLUE's SST-2, "
        "and pass the folder with aclImdb/ and SST-2/dev.tsv as data_dir"
    )
    needs = "IMDB's reviews and GLUE's SST-2"
    (dev,) = data_files("imdb-sst2", data_dir, ["SST-2/dev.tsv"], needs=needs, hint=hint)
    assert data_dir is not None
    folder = Path(data_dir) / IMDB
    train, rest = (_reviews(folder / split, hint) for split in ("train", "test"))
    ood, _ = glue_rows(FORMATS["sst-2"], dev)
    return _films(train, rest, ood, f"IMDB and SST-2 in {data_dir}")


def _films_from_hub() -> LabelledTask:
    imdb, sst2 = "stanfordnlp/imdb", ("nyu-mll/glue", "sst2", "validation")
    train, rest = (
        [
            replace(one, text1=_unbroken(one.text1))
            for one in _named(REVIEWS, imdb, None, split, texts=("text",))
        ]
        for split in ("train", "test")
    )
    ood = _named(("negative", "positive"), *sst2, texts=("sentence",))
    return _films(train, rest, ood, f"{imdb}, nyu-mll/glue sst2 (datasets)")


def _films(
    train: Iterable[LabelledText],
    rest: Iterable[LabelledText],
    ood: tuple[LabelledText, ...],
    source: str,
) -> LabelledTask:
    train, rest = shuffled(train), shuffled(rest)
    half = len(rest) // 2
    splits = {"train": train, "validation": rest[:half], "test": rest[half:], "ood": ood}
    labels = ("negative", "positive")
    return LabelledTask("imdb-sst2", splits, labels, ("accuracy",), counted(splits, source))


def _unbroken(text: str) -> str:
    return " ".join(text.replace("<br />", " ").split())


def _reviews(folder: Path, hint: str) -> Iterator[LabelledText]:
    """A text of each file, in the order of their names; ``<br />`` is a break of the line."""
    for number, name in enumerate(REVIEWS):
        paths = sorted((folder / name).glob("*.txt"))
        if not paths:
            data_files("imdb-sst2", folder, [f"{name}/0_1.txt"], needs="IMDB's reviews", hint=hint)
        for path in paths:
            text = _unbroken(text_of(path))
            if not text:
                raise DataFormatError(f"{path} is empty; expected a review. Get the files again")
            yield LabelledText(text, None, float(number))


# ---- STS-B: images, MSRvid ----------------------------------------------------------------------

STS: Final = ("genre", "file", "year", "number", "score", "sentence1", "sentence2")
"""The columns of STSbenchmark's files; some rows have more, on sources and licences."""
BENCHMARK: Final = "mteb/stsbenchmark-sts"
STS_FILES: Final = {"train": "sts-train.csv", "validation": "sts-dev.csv", "test": "sts-test.csv"}


def stsb_images(data_dir: str | Path | None) -> LabelledTask:
    """Similarity of captions, 0 to 5: those of images, and those of videos (MSRvid), in
    STSbenchmark (Cer et al. 2017), whose test labels are public."""
    hint = (
        "get Stsbenchmark.tar.gz from http://ixa2.si.ehu.eus/stswiki/index.php/STSbenchmark and "
        f"pass the folder with {', '.join(STS_FILES.values())} as data_dir"
    )
    names = list(STS_FILES.values())
    paths = data_files("stsb-images-msrvid", data_dir, names, needs="STSbenchmark", hint=hint)
    splits = {
        split: tuple(_captions(path, "images"))
        for split, path in zip(STS_FILES, paths, strict=True)
    }
    splits["ood"] = tuple(_captions(paths[-1], "MSRvid"))
    return _scored(splits, f"STSbenchmark in {data_dir}")


def _captions_from_hub() -> LabelledTask:
    sources = {split: (split, "images") for split in STS_FILES} | {"ood": ("test", "MSRvid")}
    splits = {}
    for name, (split, file) in sources.items():
        splits[name], _ = hub_texts(
            BENCHMARK,
            None,
            split,
            texts=SENTENCES,
            target="score",
            only=("dataset", file),
            ends=SCORES,
        )
    return _scored(splits, f"{BENCHMARK} (datasets)")


def _scored(splits: Mapping[str, tuple[LabelledText, ...]], source: str) -> LabelledTask:
    metrics = ("pearson", "spearman")
    return LabelledTask("stsb-images-msrvid", splits, (), metrics, counted(splits, source))


def _captions(path: Path, source: str) -> Iterator[LabelledText]:
    for number, line in numbered_lines(path):
        cells, where = line.split("\t"), f"{path}, line {number}"
        if len(cells) < len(STS):
            raise DataFormatError(
                f"{where} has {len(cells)} columns: {line[:80]!r}; expected {len(STS)} or more, "
                f"tabs between them, without a header: {', '.join(STS)}"
            )
        row = dict(zip(STS, cells, strict=False))
        if row["file"] == source:
            score = score_of(row["score"], where, *SCORES)
            texts = row["sentence1"], row["sentence2"]
            if not all(map(is_text, texts)):
                raise DataFormatError(
                    f"{where} has an empty sentence; give a text that is not blank"
                )
            yield LabelledText(*texts, score)


# ---- MNLI: telephone, letters -------------------------------------------------------------------

TELEPHONE: Final = "telephone"
LETTERS: Final = "letters"
MULTI: Final = "nyu-mll/multi_nli"
CALLS: Final = 80_000
"""Training pairs; the others of that genre are the validation split (CAT, appendix C.1)."""


def mnli_telephone(data_dir: str | Path | None) -> LabelledTask:
    """Entailment of transcribed telephone calls, and of letters: ``train.tsv``, ``dev_matched.tsv``
    and ``dev_mismatched.tsv`` of GLUE's MNLI."""
    names = ["train.tsv", "dev_matched.tsv", "dev_mismatched.tsv"]
    hint = (
        "get MNLI from https://gluebenchmark.com/tasks and pass the folder with "
        f"{', '.join(names)} as data_dir"
    )
    paths = data_files("mnli-telephone-letters", data_dir, names, needs="GLUE's MNLI", hint=hint)
    form = FORMATS["mnli"]
    genres = (TELEPHONE, TELEPHONE, LETTERS)
    train, test, ood = (
        glue_rows(form, path, partial(_is_of, genre))[0]
        for path, genre in zip(paths, genres, strict=True)
    )
    return _calls(train, test, ood, f"MNLI of GLUE in {data_dir}")


def _calls_from_hub() -> LabelledTask:
    genres = {"train": TELEPHONE, "validation_matched": TELEPHONE, "validation_mismatched": LETTERS}
    texts = ("premise", "hypothesis")
    train, test, ood = (
        _named(FORMATS["mnli"].labels, MULTI, None, split, texts=texts, only=("genre", genre))
        for split, genre in genres.items()
    )
    return _calls(train, test, ood, f"{MULTI} (datasets)")


def _calls(
    train: Iterable[LabelledText],
    test: tuple[LabelledText, ...],
    ood: tuple[LabelledText, ...],
    source: str,
) -> LabelledTask:
    form, train = FORMATS["mnli"], shuffled(train)
    n_train = min(CALLS, len(train) - len(train) // 25)  # 3,348 of 83,348 are one in 25
    splits = {"train": train[:n_train], "validation": train[n_train:], "test": test, "ood": ood}
    report = counted(splits, source)
    return LabelledTask("mnli-telephone-letters", splits, form.labels, form.metrics, report)


def _is_of(genre: str, cells: Mapping[str, str]) -> bool:
    return cells["genre"] == genre


# ---- Amazon: music, video -----------------------------------------------------------------------

AMAZON: Final = ("reviews_Digital_Music_5.json.gz", "reviews_Amazon_Instant_Video_5.json.gz")
STARS: Final = ("1", "2", "3", "4", "5")
DRAWN: Final = {"train": 50_000, "validation": 10_000, "test": 5_000}
"""Reviews of music, drawn at random (CAT, appendix C.1); of a smaller file, in this proportion."""


def amazon_music(data_dir: str | Path | None) -> LabelledTask:
    """Stars of reviews, 1 to 5, of music and of videos (He and McAuley 2016; "5-core")."""
    hint = (
        f"get {' and '.join(AMAZON)} from https://cseweb.ucsd.edu/~jmcauley/datasets/amazon/"
        "links.html and pass their folder as data_dir"
    )
    paths = data_files("amazon-music-video", data_dir, AMAZON, needs="reviews of Amazon", hint=hint)
    music, video = (shuffled(_stars(path)) for path in paths)
    n_drawn, splits, start = sum(DRAWN.values()), {}, 0
    for split, size in DRAWN.items():
        end = start + min(size, size * len(music) // n_drawn)
        splits[split], start = music[start:end], end
    splits["ood"] = video[: DRAWN["test"]]
    report = counted(splits, f"reviews of Amazon in {data_dir}")
    return LabelledTask("amazon-music-video", splits, STARS, ("accuracy",), report)


def _stars(path: Path) -> Iterator[LabelledText]:
    """A review a line; those without a text are left out."""
    for number, row in jsonl_rows(path):
        where = f"{path}, line {number}"
        review = mapping_of(row, where, "an object with reviewText and overall")
        if is_text(review.get("reviewText")):
            stars = review.get("overall")
            text = f"{stars:g}" if isinstance(stars, int | float) else str(stars)
            yield LabelledText(review["reviewText"], None, class_of(text, STARS, where))


# ---- from the hub -------------------------------------------------------------------------------

FROM_HUB: Final[Mapping[str, Callable[[], LabelledTask]]] = {
    "imdb-sst2": _films_from_hub,
    "stsb-images-msrvid": _captions_from_hub,
    "mnli-telephone-letters": _calls_from_hub,
}


@public
def shifted_from_hub(name: str, *, data_dir: str | Path | None = None) -> LabelledTask:
    """A task with another distribution next to that of training, through ``datasets``.

    ``"imdb-sst2"`` is of ``stanfordnlp/imdb`` and ``nyu-mll/glue`` (``sst2``),
    ``"stsb-images-msrvid"`` of ``mteb/stsbenchmark-sts``, ``"mnli-telephone-letters"`` of
    ``nyu-mll/multi_nli``. Of ``"paws-swap"`` the pairs of PAWS-Wiki are
    ``google-research-datasets/paws`` (``labeled_swap``); PAWS-QQP, whose licence keeps it from the
    hub, is read from files. What is drawn at random depends on the order of rows: it need not be
    what :func:`.load_labelled.load_labelled` draws of files.

    Args:
        name: one of these four.
        data_dir: for ``"paws-swap"`` the folder with PAWS-QQP's ``train.tsv`` and
            ``dev_and_test.tsv``; the others take none.

    Raises:
        OptionError: another name; a ``data_dir`` where none is read.
        MissingPackageError: ``datasets`` is not installed.
        MissingDataError: a data set cannot be fetched; PAWS-QQP is not there.
        DataFormatError: a column is missing, classes have other names, or a row is garbled; names
            the row.
        InputError: a split is empty, or all training texts are of one class.
    """
    if name == "paws-swap":
        return _swap_from_hub(data_dir)
    if name not in FROM_HUB:
        raise OptionError(
            f"{name!r} is not read from the hub; choose one of paws-swap, {', '.join(FROM_HUB)}, "
            "or read files with load_labelled"
        )
    if data_dir is not None:
        raise OptionError(f"{name!r} of the hub reads no data_dir; leave {str(data_dir)!r} out")
    return FROM_HUB[name]()


def _named(
    names: tuple[str, ...],
    source: str,
    config: str | None,
    split: str,
    *,
    texts: Sequence[str],
    only: tuple[str, str] | None = None,
) -> tuple[LabelledText, ...]:
    """Texts of classes that have these names, in this order, where the data set states any."""
    items, stated = hub_texts(source, config, split, texts=texts, target="label", only=only)
    if stated not in ((), names):
        raise DataFormatError(
            f"split {split!r} of {source} has the classes {', '.join(stated)}; expected "
            f"{', '.join(names)}, in this order"
        )
    return items
