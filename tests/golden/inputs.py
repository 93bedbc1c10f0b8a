"""Models, data and texts that the configurations read, all made here."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tests import architectures
from tests.papers.complexity.studies.test_text_phases import DOCUMENTS
from tests.studies.conftest import TEXTS, splitting_tokenizer
from tests.studies.similarity_reference import bert_tokenizer, tsv
from tests.studies.test_transplant import PAIRS
from tests.test_cli_contract import HOWNET


def lay_out(folder: Path) -> None:
    """Write all of it into a new folder."""
    folder.mkdir(parents=True)
    for name, tokenizer in (("GPT-2", splitting_tokenizer()), ("BERT", bert_tokenizer())):
        architectures.build(name).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    rows = [{"prompt": f'{text} "', "answer": "a"} for text in TEXTS]
    for name, lines in (("rows", rows), ("transplants", [asdict(pair) for pair in PAIRS])):
        text = "\n".join(map(json.dumps, lines))
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    tsv(folder / "pairs.tsv")
    (folder / "people.txt").write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    (folder / "sememes").mkdir()
    for file, text in HOWNET.items():
        (folder / "sememes" / file).write_text(text, encoding="utf-8")
