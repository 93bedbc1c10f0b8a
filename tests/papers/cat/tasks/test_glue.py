"""GLUE's tasks on small files in the format of each, and what is garbled."""

from __future__ import annotations

from pathlib import Path

import pytest

import interp_compose as ic
from interp_compose.errors import DataFormatError, InputError, MissingDataError

MNLI_TRAIN = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
)
MNLI_DEV = MNLI_TRAIN.replace("label1", "label1\tlabel2\tlabel3\tlabel4\tlabel5")


def mnli(number: int, genre: str, sentence1: str, sentence2: str, *labels: str) -> str:
    """A row of MNLI, the gold label last."""
    parses = "( a b )\t( c )\t(ROOT (A a) (B b))\t(ROOT (C c))"
    cells = (str(number), "31193", f"31193{labels[-1][0]}", genre, parses, sentence1, sentence2)
    return "\t".join((*cells, *labels)) + "\n"


PAIRS = "index\tsentence1\tsentence2\tlabel\n"
# Of each task: its files, and what the first training and test rows are.
FILES: dict[str, dict[str, str]] = {
    "cola": {
        "train.tsv": "gj04\t1\t\tOur friends won't buy this analysis.\n"
        'gj04\t0\t*\tThe "car honked.\n',
        "dev.tsv": "gj04\t0\t*\tThey drank the pub.\n",
    },
    "sst-2": {
        "train.tsv": "sentence\tlabel\na lamp that hums all night \t0\n"
        "that keeps its promises \t1\n",
        "dev.tsv": "sentence\tlabel\nas grey as a wet street\t0\n",
    },
    "mrpc": {
        "train.tsv": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        '1\t702876\t702977\tAmrozi accused his brother , " the witness " .\tHe accused him .\n'
        "0\t2108705\t2108831\tYucaipa owned Dominick 's .\tYucaipa bought Dominick 's .\n",
        "dev.tsv": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        "1\t1355540\t1355592\tHe said so .\tSo he said .\n",
    },
    "sts-b": {
        "train.tsv": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\t"
        "sentence2\tscore\n"
        "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA plane.\tAn air plane.\t5.000\n"
        "1\tmain-captions\tMSRvid\t2012test\t0004\tnone\tnone\tA man.\tA flute.\t0.25\n",
        "dev.tsv": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\t"
        "sentence2\tscore\n"
        "0\tmain-captions\tMSRvid\t2012test\t0000\tnone\tnone\tA hat.\tA hard hat.\t3.8\n",
    },
    "qqp": {
        "train.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        "1\t2\t3\tHow is it?\tHow was it?\t0\n2\t4\t5\tWhat is it\n?\tIs it?\t1\n"
        "3\t6\t7\tWho?\tWho is it?\t1\n4\t8\t9\tWhy?\t\t0\n",
        "dev.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n5\t1\t2\tA?\tB?\t1\n",
    },
    "mnli": {
        "train.tsv": MNLI_TRAIN
        + mnli(0, "government", "Cream has two.", "It has sides.", "neutral", "neutral")
        + mnli(1, "telephone", "You know.", "You see.", "entailment", "entailment"),
        "dev_matched.tsv": MNLI_DEV
        + mnli(0, "slate", "The new.", "All.", *["neutral"] * 5, "neutral")
        + mnli(1, "slate", "The.", "None.", "neutral", "entailment", "", "", "", "-"),
        "dev_mismatched.tsv": MNLI_DEV
        + mnli(0, "letters", "Dear.", "Not.", *["contradiction"] * 5, "contradiction"),
    },
    "qnli": {
        "train.tsv": "index\tquestion\tsentence\tlabel\n"
        "0\tWhen did it open?\tIt opened in 1900.\tentailment\n"
        "1\tWho won?\tIt rained.\tnot_entailment\n",
        "dev.tsv": "index\tquestion\tsentence\tlabel\n0\tWhat came?\tA law.\tentailment\n",
    },
    "rte": {
        "train.tsv": f"{PAIRS}0\tNo weapons.\tWeapons.\tnot_entailment\n"
        "1\tA place.\tThere is one.\tentailment\n",
        "dev.tsv": f"{PAIRS}0\tDana died.\tDana lives.\tnot_entailment\n",
    },
    "wnli": {
        "train.tsv": f"{PAIRS}0\tI stuck a pin.\tThe carrot had a hole.\t1\n1\tJohn.\tBill.\t0\n",
        "dev.tsv": f"{PAIRS}0\tThe drain.\tIt is clogged.\t0\n",
    },
}
FIRST = {
    "cola": ("Our friends won't buy this analysis.", None, 1.0),
    "sst-2": ("a lamp that hums all night ", None, 0.0),
    "mrpc": ('Amrozi accused his brother , " the witness " .', "He accused him .", 1.0),
    "sts-b": ("A plane.", "An air plane.", 5.0),
    "qqp": ("How is it?", "How was it?", 0.0),
    "mnli": ("Cream has two.", "It has sides.", 1.0),
    "qnli": ("When did it open?", "It opened in 1900.", 1.0),
    "rte": ("No weapons.", "Weapons.", 0.0),
    "wnli": ("I stuck a pin.", "The carrot had a hole.", 1.0),
}
METRICS = {
    "cola": ("matthews", "accuracy"),
    "mrpc": ("f1", "accuracy"),
    "qqp": ("f1", "accuracy"),
    "sts-b": ("spearman", "pearson"),
}


def folder(tmp_path: Path, name: str, **other: str) -> Path:
    for file, text in FILES[name].items():
        given = other.get(file.removesuffix(".tsv"), text)
        (tmp_path / file).write_text(given, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_each_task_in_its_own_format(name: str, tmp_path: Path) -> None:
    task = ic.cat.load_labelled(name, data_dir=folder(tmp_path, name))
    assert task.metrics == METRICS.get(name, ("accuracy",))
    assert task.split("train")[0] == ic.cat.LabelledText(*FIRST[name])
    assert (len(task.split("train")), len(task.split("test"))) == (2, 1)
    assert len(task.split("ood")) == (name == "mnli")
    assert len(task.labels) == {"sts-b": 0, "mnli": 3}.get(name, 2)
    left_out = {key: n for key, n in task.report.items() if key.endswith("left_out") and n}
    # of a question with a line break both halves, and the row without a question
    expected = {"qqp": {"train_left_out": 3}, "mnli": {"test_left_out": 1}}
    assert left_out == expected.get(name, {})


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("cola", "gj04\t2\t\tA cat.", "train.tsv, line 1 has '2' as its label; expected one of 0"),
        ("cola", "gj04\t1\tA cat.", "line 1 has 3 columns: .*expected 4, without a header: source"),
        ("cola", "gj04\t1\t\t ", "line 1 has no sentence; give a text that is not blank"),
        ("sst-2", "text\tlabel\na\t1", "line 1 has 0 columns named 'sentence'"),
        ("sst-2", "sentence\tlabel\na\tb\t1", "line 2 has 3 columns where the header has 2"),
        ("sst-2", "sentence\tlabel", "has a header and no rows"),
        ("sts-b", "sentence1\tsentence2\tscore\na\tb\t5.1", "'5.1' as its score.*from 0 to 5"),
        ("rte", f"{PAIRS}0\ta\tb\tneutral", "'neutral' as its label; expected one of not_ent"),
        ("wnli", "", "train.tsv is empty; expected one row a line"),
    ],
)
def test_a_garbled_file_is_named(name: str, line: str, said: str, tmp_path: Path) -> None:
    here = folder(tmp_path, name, train=line)
    with pytest.raises(DataFormatError, match=said):
        ic.cat.load_labelled(name, data_dir=here)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="'rte' needs GLUE's RTE: get it from https://glue"):
        ic.cat.load_labelled("rte")
    with pytest.raises(
        MissingDataError, match=r"there is no .*train.tsv: get it .*dev.tsv \(RTE\)"
    ):
        ic.cat.load_labelled("rte", data_dir=tmp_path)
    one = "sentence\tlabel\nfine\t1\ngood\t1\n"
    with pytest.raises(InputError, match="all 2 training texts of 'sst-2' have the class or score"):
        ic.cat.load_labelled("sst-2", data_dir=folder(tmp_path, "sst-2", train=one))
    unsure = MNLI_DEV + mnli(1, "slate", "The.", "None.", *["neutral"] * 5, "-")
    with pytest.raises(InputError, match="the test split of 'mnli' is empty"):
        ic.cat.load_labelled("mnli", data_dir=folder(tmp_path, "mnli", dev_matched=unsure))
