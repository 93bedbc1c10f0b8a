"""Small made-up data under the names that the pages use: files to download, the hub, own texts."""

from __future__ import annotations

from pathlib import Path

import datasets
import pytest

from interp_compose.papers.lrf.tasks import cognition
from interp_compose.tasks.published import PUBLISHED
from tests import architectures
from tests.papers.cat.tasks import test_labelled, test_squad
from tests.papers.complexity.studies.test_text_phases import DOCUMENTS
from tests.papers.lrf.tasks import test_cognition
from tests.studies.similarity_reference import bert_tokenizer
from tests.tasks import test_bird
from tests.test_cli_contract import HOWNET

SCORED = [
    ("water body", "body water", "0.4"),
    ("red house", "house red", "0.9"),
    ("red house", "green tree", "0.2"),
    ("old dog", "young dog", "0.5"),
    ("old dog", "red house", "0.1"),
]
RTE = """---
configs:
- config_name: rte
  data_files: [{split: train, path: train.csv}, {split: validation, path: validation.csv}]
---
"""
ROWS = "sentence1,sentence2,label\na dog barks,a dog is loud,0\na dog barks,a cat barks,1\n"
CAPTIONS = (
    "genre,dataset,score,sentence1,sentence2\n"
    "main-captions,images,4.2,a dog barks,a dog is loud\n"
    "main-captions,images,0.5,a dog barks,a cat sleeps\n"
    "main-captions,MSRvid,5.0,a man sings,a man sings\n"
)
WORK = """def train(config, folder):
    (folder / "gamma.txt").write_text(str(config["gamma"]))
"""


def lay_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, in a working directory."""
    given = folder / "path" / "to"
    for name in ("bird", "sst", "hownet", "text"):
        (given / name).mkdir(parents=True)
    test_bird.folder(given / "bird", *(test_bird.row(*one) for one in SCORED))
    test_labelled.sst(given / "sst")
    test_squad.folder(given / "squad")
    test_cognition.layout(given / "CoGnition")
    monkeypatch.setattr(cognition, "COUNTS", test_cognition.COUNTS)
    monkeypatch.setitem(PUBLISHED, "CoGnition", {})
    for name, text in HOWNET.items():
        (given / "hownet" / name).write_text(text, encoding="utf-8")
    for texts in (given / "text", folder / "my-texts"):
        texts.mkdir(exist_ok=True)
        (texts / "people.txt").write_text("\n\n".join(DOCUMENTS), encoding="utf-8")

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    test_squad.through_datasets(
        folder / "rajpurkar" / "squad", folder / "stanfordnlp" / "squad_adversarial"
    )
    for source, files in {
        "nyu-mll/glue": {"README.md": RTE, "train.csv": ROWS, "validation.csv": ROWS},
        "mteb/stsbenchmark-sts": {
            f"{split}.csv": CAPTIONS for split in ("train", "validation", "test")
        },
    }.items():
        (folder / source).mkdir(parents=True)
        for name, text in files.items():
            (folder / source / name).write_text(text, encoding="utf-8")
    encoder = folder / "sentence-transformers" / "all-MiniLM-L6-v2"
    architectures.build("BERT").save_pretrained(encoder)
    bert_tokenizer().save_pretrained(encoder)

    (folder / "my_module.py").write_text(WORK, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
