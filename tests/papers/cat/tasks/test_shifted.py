"""Tasks with another distribution, on small files in the formats of each."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest

import interp_compose as ic
from interp_compose.errors import DataFormatError, MissingDataError, OptionError
from interp_compose.papers.cat.studies.encoders.cosines import have_same_words
from tests.papers.cat.tasks.test_glue import MNLI_DEV, MNLI_TRAIN, mnli


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


Hub = dict[tuple[str, str | None, str], datasets.Dataset]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    """What stands on the hub, by the data set's name, config and split."""
    there: Hub = {}

    def load(source: str, config: str | None, *, split: str) -> datasets.Dataset:
        if (source, config, split) not in there:
            raise ValueError("no such data set")
        return there[source, config, split]

    monkeypatch.setattr(datasets, "load_dataset", load)
    return there


def split_of(names: list[str] | None = None, **columns: list[Any]) -> datasets.Dataset:
    """Of a split whose classes have these names, given by their numbers."""
    data = datasets.Dataset.from_dict(columns)
    return data.cast_column("label", datasets.ClassLabel(names=names)) if names else data


def test_paws_qqp_and_swap_only(tmp_path: Path, hub: Hub) -> None:
    header = "id\tsentence1\tsentence2\tlabel\n"
    swap = f"{header}1\tHe won and she lost .\tShe won and he lost .\t0\n2\tA B\tB A\t1\n"
    write(tmp_path / "swap/train.tsv", swap + "3\tA B\tB A\t1\n")
    write(tmp_path / "paws_qqp/train.tsv", f"{header}1\tIs a b ?\tIs b a ?\t0\n2\ta b\tb a\t1\n")
    write(tmp_path / "paws_qqp/dev_and_test.tsv", f"{header}1\tc d\td c\t0\n")
    task = ic.cat.load_labelled("paws-swap", data_dir=tmp_path)
    assert [len(task.split(name)) for name in ("train", "test", "ood")] == [2, 1, 2]
    expected = ic.cat.LabelledText("He won and she lost .", "She won and he lost .", 0.0)
    assert task.split("ood")[0] == expected
    assert task.report["ood_repeated"] == 1
    with pytest.raises(MissingDataError, match="there is no .*swap/train.tsv: get paws_wiki_label"):
        ic.cat.load_labelled("paws-swap", data_dir=tmp_path / "paws_qqp")

    first, second = ["He won and she lost .", "A B", "A B"], ["She won and he lost .", "B A", "B A"]
    pairs: dict[str, list[Any]] = {"id": [1, 2, 3], "sentence1": first, "sentence2": second}
    wiki = ("google-research-datasets/paws", "labeled_swap", "train")
    hub[wiki] = split_of(["0", "1"], **pairs, label=[0, 1, 1])
    same = ic.cat.shifted_from_hub("paws-swap", data_dir=tmp_path / "paws_qqp")
    assert (same.splits, same.report["ood_repeated"]) == (task.splits, 1)
    hub[wiki] = split_of(["0", "1"], **pairs, label=[0, 1, 0])
    with pytest.raises(DataFormatError, match="labeled_swap, row 2 repeats the pair of row 1, but"):
        ic.cat.shifted_from_hub("paws-swap", data_dir=tmp_path / "paws_qqp")
    with pytest.raises(MissingDataError, match="needs the data set PAWS-QQP: make it from the Quo"):
        ic.cat.shifted_from_hub("paws-swap")


TWO = ("neg", "pos")


def test_imdb_and_sst2(tmp_path: Path, hub: Hub) -> None:
    for split, n in (("train", 3), ("test", 5)):
        for number, kind in enumerate(TWO):
            for i in range(n):
                text = f"{split} {kind} {i}<br /><br />A film."
                write(tmp_path / f"aclImdb/{split}/{kind}/{i}_{3 + 4 * number}.txt", text)
    write(tmp_path / "SST-2/dev.tsv", "sentence\tlabel\nfine\t1\n")
    task = ic.cat.load_labelled("imdb-sst2", data_dir=tmp_path)
    sizes = [len(task.split(name)) for name in ("train", "validation", "test", "ood")]
    assert sizes == [6, 5, 5, 1]
    assert task.split("ood") == (ic.cat.LabelledText("fine", None, 1.0),)
    texts = {one.text1: one.target for one in task.split("train")}
    assert texts["train neg 0 A film."] == 0
    assert texts["train pos 2 A film."] == 1
    halves = [*task.split("validation"), *task.split("test")]
    assert Counter(one.target for one in halves) == {0.0: 5, 1.0: 5}
    assert [one.target for one in task.split("train")] != sorted(texts.values())
    again = ic.cat.load_labelled("imdb-sst2", data_dir=tmp_path)
    assert again.splits == task.splits

    for split, n in (("train", 3), ("test", 5)):
        reviews = [f"{split} {kind} {i}<br /><br />A film." for kind in TWO for i in range(n)]
        label = [0] * n + [1] * n
        hub["stanfordnlp/imdb", None, split] = split_of([*TWO], text=reviews, label=label)
    words = ["negative", "positive"]
    of_glue = ("nyu-mll/glue", "sst2", "validation")
    hub[of_glue] = split_of(words, sentence=["fine"], label=[1], idx=[0])
    assert ic.cat.shifted_from_hub("imdb-sst2").splits == task.splits
    hub[of_glue] = split_of(words[::-1], sentence=["fine"], label=[0])
    with pytest.raises(DataFormatError, match="has the classes positive, negative; expected negat"):
        ic.cat.shifted_from_hub("imdb-sst2")
    with pytest.raises(OptionError, match="'imdb-sst2' of the hub reads no data_dir"):
        ic.cat.shifted_from_hub("imdb-sst2", data_dir=tmp_path)
    with pytest.raises(OptionError, match="'amazon-music-video' is not read from the hub; choose"):
        ic.cat.shifted_from_hub("amazon-music-video")
    (tmp_path / "aclImdb/test/pos/0_7.txt").write_bytes(b" ")
    with pytest.raises(DataFormatError, match="0_7.txt is empty; expected a review"):
        ic.cat.load_labelled("imdb-sst2", data_dir=tmp_path)
    (tmp_path / "aclImdb/test/pos/0_7.txt").write_bytes(b"\xff")
    with pytest.raises(DataFormatError, match="0_7.txt is not UTF-8"):
        ic.cat.load_labelled("imdb-sst2", data_dir=tmp_path)
    (tmp_path / "aclImdb/test").rename(tmp_path / "aclImdb/tests")
    with pytest.raises(MissingDataError, match="there is no .*test/neg/0_1.txt: unpack https"):
        ic.cat.load_labelled("imdb-sst2", data_dir=tmp_path)


def sts(file: str, score: str, *texts: str) -> str:
    return "\t".join(("main-captions", file, "2014", "0005", score, *texts)) + "\n"


def test_captions_of_images_and_videos(tmp_path: Path, hub: Hub) -> None:
    two = sts("images", "4.2", "A dog.", "A hound.") + sts("images", "0.500", 'A "cat".', "A dog.")
    other = sts("MSRvid", "5.000", "A man.", "A man.", "a licence", "more")
    write(tmp_path / "sts-train.csv", two + other)
    write(tmp_path / "sts-dev.csv", two)
    write(tmp_path / "sts-test.csv", other + two)
    task = ic.cat.load_labelled("stsb-images-msrvid", data_dir=tmp_path)
    assert (task.labels, task.metrics) == ((), ("pearson", "spearman"))
    assert task.split("train") == task.split("validation") == task.split("test")
    assert task.split("train")[1] == ic.cat.LabelledText('A "cat".', "A dog.", 0.5)
    assert task.split("ood") == (ic.cat.LabelledText("A man.", "A man.", 5.0),)

    columns: dict[str, list[Any]] = {
        "genre": ["main-captions"] * 3,
        "dataset": ["images", "MSRvid", "images"],
        "sentence1": ["A dog.", "A man.", 'A "cat".'],
        "sentence2": ["A hound.", "A man.", "A dog."],
    }
    for split in ("train", "validation", "test"):
        there = ("mteb/stsbenchmark-sts", None, split)
        hub[there] = split_of(**columns, score=[4.2, 5.0, 0.5])
    assert ic.cat.shifted_from_hub("stsb-images-msrvid").splits == task.splits
    hub[there] = split_of(**columns, score=[4.2, 5.0, 5.5])
    with pytest.raises(
        DataFormatError, match="row 2 of split 'test' of mteb/.* has '5.5' as its s"
    ):
        ic.cat.shifted_from_hub("stsb-images-msrvid")
    hub[there] = split_of(sentence1=["a"], sentence2=["b"], score=[1.0])
    with pytest.raises(DataFormatError, match="of mteb/stsbenchmark-sts has no column 'dataset'"):
        ic.cat.shifted_from_hub("stsb-images-msrvid")

    for line, said in (
        (sts("images", "6", "a", "b"), "line 1 has '6' as its score"),
        (sts("images", "1", "a", " "), "line 1 has an empty sentence"),
        (sts("images", "1", "a"), "line 1 has 6 columns: .*expected 7 or more"),
    ):
        write(tmp_path / "sts-dev.csv", line)
        with pytest.raises(DataFormatError, match=f"sts-dev.csv, {said}"):
            ic.cat.load_labelled("stsb-images-msrvid", data_dir=tmp_path)


def test_calls_and_letters(tmp_path: Path, hub: Hub) -> None:
    kinds = ("entailment", "neutral", "contradiction")
    calls = "".join(mnli(i, "telephone", f"a {i}", "b", *[kinds[i % 3]] * 2) for i in range(50))
    write(tmp_path / "train.tsv", MNLI_TRAIN + mnli(0, "fiction", "c", "d", *kinds[:2]) + calls)
    rows = {
        genre: mnli(0, genre, genre, "b", *["neutral"] * 6)
        for genre in ("slate", "telephone", "letters", "oup")
    }
    write(tmp_path / "dev_matched.tsv", MNLI_DEV + rows["slate"] + rows["telephone"])
    write(tmp_path / "dev_mismatched.tsv", MNLI_DEV + rows["letters"] + rows["oup"])
    task = ic.cat.load_labelled("mnli-telephone-letters", data_dir=tmp_path)
    sizes = [len(task.split(name)) for name in ("train", "validation", "test", "ood")]
    assert sizes == [48, 2, 1, 1]
    every = {one.text1 for name in ("train", "validation") for one in task.split(name)}
    assert every == {f"a {i}" for i in range(50)}
    assert task.split("test")[0].text1 == "telephone"
    assert task.split("ood")[0].text1 == "letters"

    def split(name: str, **columns: list[Any]) -> None:
        count = len(columns["premise"])
        hub["nyu-mll/multi_nli", None, name] = split_of(
            [*kinds], hypothesis=["b"] * count, **columns
        )

    numbers = [1, *(i % 3 for i in range(50))]
    own = ["c", *(f"a {i}" for i in range(50))]
    split("train", premise=own, genre=["fiction", *["telephone"] * 50], label=numbers)
    genres = ["slate", "telephone"]
    split("validation_matched", premise=genres, genre=genres, label=[1, 1])
    genres = ["letters", "oup"]
    split("validation_mismatched", premise=genres, genre=genres, label=[1, 1])
    assert ic.cat.shifted_from_hub("mnli-telephone-letters").splits == task.splits
    del hub["nyu-mll/multi_nli", None, "train"]
    with pytest.raises(MissingDataError, match="'train' of 'nyu-mll/multi_nli' cannot be loaded"):
        ic.cat.shifted_from_hub("mnli-telephone-letters")


def review(stars: float, text: str) -> str:
    about = {"reviewerID": "A1", "asin": "B2", "helpful": [0, 1], "summary": "s"}
    return json.dumps({**about, "reviewText": text, "overall": stars}) + "\n"


MUSIC, VIDEO = "reviews_Digital_Music_5.json.gz", "reviews_Amazon_Instant_Video_5.json.gz"


def test_stars_of_music_and_video(tmp_path: Path) -> None:
    music = "".join(review(float(1 + i % 5), f"song {i}") for i in range(130))
    write(tmp_path / MUSIC, music + review(5.0, ""))
    write(tmp_path / VIDEO, review(3, "a film"))
    task = ic.cat.load_labelled("amazon-music-video", data_dir=tmp_path)
    sizes = [len(task.split(name)) for name in ("train", "validation", "test", "ood")]
    assert sizes == [100, 20, 10, 1]
    assert task.split("ood") == (ic.cat.LabelledText("a film", None, 2.0),)
    songs = {one.text1 for name in ("train", "validation", "test") for one in task.split(name)}
    assert len(songs) == 130
    write(tmp_path / VIDEO, review(6.0, "a film"))
    with pytest.raises(DataFormatError, match="line 1 has '6' as its label; expected one of 1"):
        ic.cat.load_labelled("amazon-music-video", data_dir=tmp_path)
    (tmp_path / VIDEO).write_bytes(gzip.compress(review(3, "a film").encode())[:-9])
    with pytest.raises(DataFormatError, match="cannot be unpacked"):
        ic.cat.load_labelled("amazon-music-video", data_dir=tmp_path)


@pytest.mark.data
def test_pairs_of_paws_with_the_same_words_in_another_order(data_dir: Path) -> None:
    """As docs/cat.md counts them."""
    pairs = ic.load_pairs("paws-qqp", data_dir=data_dir / "paws_qqp").test
    same = [one for one in pairs if have_same_words(one.text1, one.text2)]
    assert (len(pairs), len(same), sum(one.label == 0 for one in same)) == (671, 489, 369)
