"""Tasks whose ``ood`` split is of another distribution than what is trained on: CAT's Tables 2, 3.

The pairs are those of Hendrycks et al. (2020, "Pretrained Transformers Improve Out-of-Distribution
Robustness"), and PAWS-QQP with PAWS (swap-only).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from interp_compose.errors import DataFormatError
from interp_compose.tasks.glue import FORMATS, glue_rows
from interp_compose.tasks.labelled import (
    LabelledTask,
    LabelledText,
    class_of,
    counted,
    score_of,
    shuffled,
)
from interp_compose.tasks.pairs import Pair
from interp_compose.tasks.paws import paws_qqp, read_distinct
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
    swap, rows = read_distinct(path)
    splits = {"train": _classes(qqp.train), "test": _classes(qqp.test), "ood": _classes(swap)}
    report = counted(splits, f"PAWS in {data_dir}") | {"ood_repeated": rows - len(swap)}
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
    train, rest = (shuffled(_reviews(folder / split, hint)) for split in ("train", "test"))
    half = len(rest) // 2
    ood, _ = glue_rows(FORMATS["sst-2"], dev)
    splits = {"train": train, "validation": rest[:half], "test": rest[half:], "ood": ood}
    report = counted(splits, f"IMDB and SST-2 in {data_dir}")
    return LabelledTask("imdb-sst2", splits, ("negative", "positive"), ("accuracy",), report)


def _reviews(folder: Path, hint: str) -> Iterator[LabelledText]:
    """A text of each file, in the order of their names; ``<br />`` is a break of the line."""
    for number, name in enumerate(REVIEWS):
        paths = sorted((folder / name).glob("*.txt"))
        if not paths:
            data_files("imdb-sst2", folder, [f"{name}/0_1.txt"], needs="IMDB's reviews", hint=hint)
        for path in paths:
            text = " ".join(text_of(path).replace("<br />", " ").split())
            if not text:
                raise DataFormatError(f"{path} is empty; expected a review. Get the files again")
            yield LabelledText(text, None, float(number))


# ---- STS-B: images, MSRvid ----------------------------------------------------------------------

STS: Final = ("genre", "file", "year", "number", "score", "sentence1", "sentence2")
"""The columns of STSbenchmark's files; some rows have more, on sources and licences."""
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
    report = counted(splits, f"STSbenchmark in {data_dir}")
    return LabelledTask("stsb-images-msrvid", splits, (), ("pearson", "spearman"), report)


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
            score = score_of(row["score"], where, 0.0, 5.0)
            yield LabelledText(*_both(row["sentence1"], row["sentence2"], where), score)


def _both(text1: str, text2: str, where: str) -> tuple[str, str]:
    for text in (text1, text2):
        if not is_text(text):
            raise DataFormatError(f"{where} has an empty sentence; give a text that is not blank")
    return text1, text2


# ---- MNLI: telephone, letters -------------------------------------------------------------------

TELEPHONE: Final = 80_000
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
    genres = ("telephone", "telephone", "letters")
    own, test, ood = (
        glue_rows(form, path, partial(_is_of, genre))[0]
        for path, genre in zip(paths, genres, strict=True)
    )
    own = shuffled(own)
    kept = min(TELEPHONE, len(own) - len(own) // 25)  # 3,348 of 83,348 are one in 25
    splits = {"train": own[:kept], "validation": own[kept:], "test": test, "ood": ood}
    report = counted(splits, f"MNLI of GLUE in {data_dir}")
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
    whole, splits, start = sum(DRAWN.values()), {}, 0
    for split, size in DRAWN.items():
        end = start + min(size, size * len(music) // whole)
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
