"""One run: an encoder that was pre-trained, on one task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from interp_compose.models.load import load_model
from interp_compose.papers.cat.models.bert import Output
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.encoders.cosines import Row, cosine_rows
from interp_compose.papers.cat.studies.encoders.data import (
    DATA,
    kept_labelled,
    kept_pairs,
    kept_spans,
)
from interp_compose.papers.cat.studies.encoders.result import NOTHING, WORDS
from interp_compose.papers.cat.studies.encoders.spans import span_rows
from interp_compose.papers.cat.studies.encoders.tuned import Tuning, frozen_rows, tuned_rows
from interp_compose.papers.shared.grid.sequence_run import MODEL
from interp_compose.runs.checkpoint import clear_together
from interp_compose.runs.checksums import read_signed, write_signed
from interp_compose.runs.files import atomic_write, json_bytes
from interp_compose.studies.core.grid import RESULT
from interp_compose.training.loop import trains

WORK: Final = "encoders"
"""What a sweep calls these runs."""
SOURCE: Final = Path(DATA) / "encoders.json"
"""Where the encoders are that runs open: of a folder that has moved, the next call says so."""


@dataclass(frozen=True, kw_only=True)
class JudgedRun:
    """Everything that decides a run."""

    encoder: str
    """The folder's name among the runs of `pretrain`."""
    weights: str
    """Digest of its weights."""
    model: str
    seed: int
    task: str
    data: str
    """Digest of the task, kept beside the runs."""
    tuned: str
    outputs: Sequence[str]
    embeddings: Sequence[str]
    share: float = 0.0
    """Of the training split; 0 where nothing is trained."""
    epochs: int = 0
    lr: float = 0.0
    batch_size: int = 0
    pairs: Mapping[str, str] = field(default_factory=dict)
    """Tasks of pairs whose cosines are measured again after training, with their digests."""

    def rows(self, out: Path, folder: Path) -> Iterator[Row]:
        """What is measured, of a study in ``out``."""
        path = Path(read_signed(out / SOURCE)) / "runs" / self.encoder / MODEL
        model = load_model(str(path))
        assert isinstance(model, SmallEncoderModel)
        place = {"model": self.model, "seed": self.seed, "tuned": self.tuned, "share": self.share}
        place |= {"trained_on": NOTHING if self.tuned == "no" else self.task}
        task_rows: Iterator[Row] | list[Row]
        tuning = Tuning(self.epochs, self.lr, self.batch_size, self.seed)
        if self.tuned == "no":
            pairs = kept_pairs(out, self.data)
            task_rows = cosine_rows(model, pairs, self.outputs, self.embeddings)
        elif list(self.embeddings) == [WORDS]:
            spans = kept_spans(out, self.data, self.task)
            checkpoint_folder = folder if self.tuned == "end-to-end" else None
            task_rows = span_rows(model, spans, self.outputs, self.share, tuning, checkpoint_folder)
        else:
            task = kept_labelled(out, self.data, self.task)
            if self.tuned == "frozen":
                settings = (self.outputs, self.embeddings, self.share, tuning)
                task_rows = frozen_rows(model, task, *settings)
            else:
                output, embedding = cast(Output, self.outputs[0]), self.embeddings[0]
                task_rows = tuned_rows(model, task, output, embedding, self.share, tuning, folder)
        for row in task_rows:
            yield {**place, "task": self.task, **row}
        for name, digest in self.pairs.items():
            pairs = kept_pairs(out, digest)
            for row in cosine_rows(model, pairs, self.outputs, self.embeddings):
                yield {**place, "task": name, **row}


@trains
def judge(config: Mapping[str, Any], folder: Path) -> None:
    """The rows of a run into its folder."""
    run = JudgedRun(**config)
    rows = list(run.rows(folder.parents[1], folder))
    for row in rows:
        row["value"] = None if row["value"] != row["value"] else row["value"]  # JSON has no NaN
    atomic_write(folder / RESULT, json_bytes({"run": asdict(run), "scores": rows}))
    clear_together([folder])


def note_source(runs: Path, out: Path) -> None:
    """Keep where the encoders are."""
    write_signed(out / SOURCE, str(runs.absolute()))
