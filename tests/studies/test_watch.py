"""A watcher of any training: what it measures, that training does not notice, what it refuses."""

from __future__ import annotations

import copy
import gc
import random
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    InputError,
    InterventionError,
    LayerError,
    MissingDataError,
    OptionError,
)
from interp_compose.interventions.leak import attention_leak
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.trained import TrainedModel
from interp_compose.models.weight_matrices import weight_matrices
from interp_compose.papers.shared.text.vocabulary import Vocabulary
from interp_compose.papers.shared.text.word_tokenizer import WordTokenizer
from interp_compose.studies.cap.measure import cap_curve
from interp_compose.studies.similarity.measure import similarity_curve
from interp_compose.studies.watch.measure import watch
from interp_compose.studies.watch.result import Watched
from interp_compose.studies.watch.rows import LOOKS, MEASURED
from interp_compose.studies.watch.watcher import Watcher
from interp_compose.training.history import Recorder
from interp_compose.types import Example
from tests.training.runs import hugging_face

WORDS = Vocabulary(tuple("abcdefghijklmnopqrst"))  # 20, and three specials: D_VOCAB
TOKENIZER = WordTokenizer(WORDS, ends=False)
EXAMPLES = [
    Example("a b c d e", " k", spans=((0, 3), (4, 5))),
    Example("f g h i", " l", spans=((0, 5),)),
    Example("b d f h j l", " m", spans=((2, 7), (8, 9))),
    Example("t s r q", " n", spans=((0, 3),)),
    Example("c a c a c", " k", spans=((4, 9),)),
]
PAIRS = [
    {"text1": "a b", "text2": "a c", "score": 0.9},
    {"text1": "d e f", "text2": "g h", "score": 0.2},
    {"text1": "i j", "text2": "j k l", "score": 0.5},
    {"text1": "m n", "text2": "o p", "score": 0.4},
]
ON_SPANS: dict[str, Any] = {"examples": EXAMPLES, "unit": "span"}


@pytest.fixture(scope="module")
def model() -> LensModel:
    """Looked at, and never trained."""
    return load_model(hugging_face(), tokenizer=TOKENIZER)


def steps(
    weights: list[nn.Parameter], logits: Callable[[Tensor], Tensor], start: int, stop: int
) -> Iterator[int]:
    """A loop as a user writes it: dropout from the global state, data from NumPy's and Python's;
    gradients are added up over two steps."""
    optimizer = torch.optim.SGD(weights, lr=0.05)
    if start == 0:
        yield 0
    for step in range(start, stop):
        tokens = torch.from_numpy(np.random.randint(0, 23, (3, 6)))  # noqa: NPY002
        targets = torch.tensor([random.randrange(23) for _ in range(3)])
        cross_entropy(logits(tokens)[:, -1], targets).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
        yield step + 1


def seeded() -> None:
    torch.manual_seed(1)
    np.random.seed(2)  # noqa: NPY002
    random.seed(3)


def random_states() -> tuple[Any, ...]:
    numpys = np.random.get_state()  # noqa: NPY002
    return random.getstate(), str(numpys), torch.get_rng_state().tolist()


ALL: dict[str, Any] = {
    "measures": ("stable_rank", "mean_abs_cosine", "cap", "attention_leak"),
    "layers": [1],
    "every": 1,
    "budget": None,
    **ON_SPANS,
}


def test_a_look_whose_intervention_changes_nothing_says_so_and_training_goes_on(
    tmp_path: Path,
) -> None:
    """Between two looks all vectors become alike, and become what they were."""
    module = hugging_face()
    model = load_model(module, tokenizer=TOKENIZER)
    path = tmp_path / "looks.jsonl"
    asked: dict[str, Any] = {"measures": ("agreement",), "pairs": PAIRS, "layers": [1]}
    watcher = watch(model, every=1, budget=None, path=path, **asked)
    watcher(0)
    tables = [module.transformer.wte.weight, module.transformer.wpe.weight]
    before = [table.detach().clone() for table in tables]
    with torch.no_grad():
        for table in tables:
            table.copy_(table[:1].expand_as(table))
    with pytest.warns(UserWarning, match="changed no .*; this look has no number of 'agreement'"):
        watcher(1)
    with torch.no_grad():
        for table, weights in zip(tables, before, strict=True):
            table.copy_(weights)
    watcher(2)
    frame = Watched.read(path).frame
    assert frame.groupby("step").size().tolist() == [4, 1, 4]
    row = frame[frame["step"] == 1].iloc[0]
    assert (row["of"], row["layer"], row["n"]) == ("changed nothing", -1, 0)
    assert np.isnan(row["value"])
    numbers = [frame[frame["step"] == step]["value"].tolist() for step in (0, 2)]
    assert numbers[0] == numbers[1]
    watcher.plot("agreement")


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_loop_trains_the_same_with_it_to_the_bit(wrapped: bool) -> None:
    """Behind TransformerLens, and Hugging Face's module as it is, of which looks copy."""

    def trained(watched: bool) -> tuple[dict[str, Tensor], Watcher | None]:
        module = hugging_face()
        model = load_model(module, tokenizer=TOKENIZER) if wrapped else module
        watcher = None
        if watched:
            watcher = watch(model, **ALL, tokenizer=None if wrapped else TOKENIZER)
        model.train()
        lens = model.lens if wrapped else module
        odd = next(part for part in module.modules() if isinstance(part, nn.Dropout))
        odd.eval()  # a mode of its own, to be kept

        def logits(tokens: Tensor) -> Tensor:
            return model(tokens) if wrapped else module(tokens).logits

        seeded()
        for step in steps(list(model.parameters()), logits, 0, 3):
            before = [
                (w.grad, None if w.grad is None else w.grad.clone()) for w in lens.parameters()
            ]
            modes = [part.training for part in module.modules()]
            states = random_states()
            if watcher is not None:
                watcher(step)
            assert random_states() == states
            after = [weight.grad for weight in lens.parameters()]
            for (grad, values), now in zip(before, after, strict=True):
                assert grad is now
                assert grad is None or torch.equal(grad, values)
            assert modes == [part.training for part in module.modules()]
        assert torch.is_grad_enabled()
        return dict(lens.state_dict()), watcher

    plain, _ = trained(False)
    seen, watcher = trained(True)
    assert plain.keys() == seen.keys()
    for name, weight in plain.items():
        assert torch.equal(weight, seen[name]), name
    assert watcher is not None
    assert sorted(set(watcher.frame["step"])) == [0, 1, 2, 3]
    ranks = watcher.frame[watcher.frame["measure"] == "stable_rank"]
    moved = ranks.pivot(index=["layer", "of"], columns="step", values="value")
    assert (moved[0] != moved[2]).all()
    assert (moved[0] == moved[1]).all()  # no weight moves in the first step


def test_its_numbers_are_those_of_the_studies(model: LensModel) -> None:
    watcher = watch(model, measures=("cap", "agreement"), pairs=PAIRS, pooling=("mean", "sum"),
                    layers=[0, 2], **ON_SPANS)  # fmt: skip
    watcher(0)
    frame = watcher.frame.set_index(["measure", "layer", "of"])
    how: dict[str, Any] = {"layers": [0, 2], "pooling": ("mean", "sum"), "controls": False}
    curve = cap_curve(model, EXAMPLES, unit="span", progress=False, **how)
    for cell in curve.frame.to_dict("records"):
        found = frame.loc["cap", cell["layer"], cell["pooling"]]
        assert (found["value"], found["low"]) == (cell["accuracy"], cell["ci_low"])
        assert (found["high"], found["n"]) == (cell["ci_high"], 5)
    clean = frame.loc["cap", -1, "no pooling"]
    assert clean["value"] == curve.clean["correct"].mean()
    similar = similarity_curve(model, PAIRS, progress=False, **how)
    rows = similar.frame[similar.frame["subset"] == "all"].to_dict("records")
    assert len(rows) == 4
    for cell in rows:
        for metric in ("pearson", "spearman"):
            found = frame.loc["agreement", cell["layer"], f"{metric}, {cell['pooling']}"]
            assert found["value"] == cell[metric]
            found = frame.loc["agreement", -1, f"{metric}, no pooling"]
            assert found["value"] == cell[f"clean_{metric}"]
    assert len(frame) == 1 + 4 + 2 * (1 + 4)


def test_a_leak_is_that_of_all_layers_from_one_on(model: LensModel) -> None:
    """Words of several tokens, by hand; each text alone, without padding, weighed by positions."""
    watcher = watch(model, measures=("attention_leak",), **ON_SPANS)
    watcher(0)
    found = watcher.frame.set_index(["layer", "of"])["value"]
    assert found.index.tolist() == [(-1, "no knockout"), *((i, "knocked out") for i in range(3))]
    assert found[0, "knocked out"] == 0  # never read, so that nothing of them is known
    assert found[2, "knocked out"] > 0
    watcher = watch(model, measures=("attention_leak",), unit="span", examples=EXAMPLES[:1])
    watcher(0)
    one = watcher.frame.set_index("layer")["value"]
    tokens = torch.tensor([[3, 4, 5, 6, 7]])
    for layer in range(3):
        leak = attention_leak(model, tokens, keys=[0, 1], layers=list(range(layer, 3)))
        assert one[layer] == pytest.approx(leak.changed)
        assert one[-1] == pytest.approx(leak.unmasked_changed)


def test_no_copy_of_a_watched_module_outlives_its_look() -> None:
    """The first one neither, whose proofs serve the later looks."""
    watched, copies = TrainedModel(hugging_face()), []
    proven: list[set[str]] = []
    for _ in range(2):
        with watched.looked_at() as lens:
            proven.append(set(lens.capabilities.found))
            lens.require("resume")
            copies.append(weakref.ref(lens))
        del lens
        gc.collect()
        assert [copy() for copy in copies] == [None] * len(copies)
    assert not proven[0]
    assert "resume" in proven[1]


def test_a_module_and_the_same_behind_transformer_lens_give_the_same_numbers() -> None:
    module = hugging_face()
    wrapped = load_model(copy.deepcopy(module), tokenizer=TOKENIZER)
    one = watch(module, **ALL, tokenizer=TOKENIZER)
    other = watch(wrapped, **ALL)
    for watcher in (one, other):
        watcher(0)
    pd.testing.assert_frame_equal(one.frame, other.frame, rtol=1e-6)
    assert one.result.config == other.result.config


# ---- Hugging Face's Trainer --------------------------------------------------------------------


def trainer(folder: Path, watcher: Watcher | None, module: nn.Module, stop: int = 4) -> Any:
    from transformers import Trainer, TrainingArguments

    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 23, 6).tolist() for _ in range(12)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own
        made = Trainer(
            module,
            TrainingArguments(
                str(folder), max_steps=stop, per_device_train_batch_size=3, save_steps=2,
                report_to=[], disable_tqdm=True, use_cpu=True, seed=7, learning_rate=1e-2,
                lr_scheduler_type="constant", logging_strategy="no",
            ),
            train_dataset=[{"input_ids": row, "labels": row} for row in rows],
            callbacks=[] if watcher is None else [watcher.callback()],
        )  # fmt: skip
    return made


def trained(made: Any, resume: str | None = None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.train(resume_from_checkpoint=resume)


def test_huggingfaces_trainer_is_watched_and_resumes(tmp_path: Path) -> None:
    how: dict[str, Any] = {
        "measures": ("stable_rank",), "every": 1, "budget": None, "clock": lambda: 0.0,
    }  # fmt: skip
    plain, module = hugging_face(), hugging_face()
    trained(trainer(tmp_path / "plain", None, plain))
    whole = watch(module, path=tmp_path / "whole.jsonl", **how)
    trained(trainer(tmp_path / "whole", whole, module))
    for one, other in zip(plain.parameters(), module.parameters(), strict=True):
        assert torch.equal(one, other)
    assert whole.looks["step"].tolist() == [0, 1, 2, 3, 4]

    path = tmp_path / "broken.jsonl"
    module = hugging_face()
    trained(trainer(tmp_path / "broken", watch(module, path=path, **how), module, stop=3))
    module = hugging_face()
    resumed = watch(module, path=path, **how)
    told: list[int] = []
    look = resumed._look
    resumed._look = lambda step, training: (told.append(step), look(step, training))[1]  # type: ignore[method-assign, func-returns-value]
    again = trainer(tmp_path / "broken", resumed, module)
    trained(again, resume=str(tmp_path / "broken" / "checkpoint-2"))
    assert told == [3, 4]  # of 0 to 2 the file has the rows
    pd.testing.assert_frame_equal(resumed.frame, whole.frame)
    assert path.read_text(encoding="utf-8") == (tmp_path / "whole.jsonl").read_text(
        encoding="utf-8"
    )


# ---- Lightning ---------------------------------------------------------------------------------


def test_lightnings_trainer_is_watched(tmp_path: Path) -> None:
    """By the callback of docs/watch.md, where Lightning is installed."""
    lightning: Any = pytest.importorskip("lightning")
    rows = torch.randint(0, 23, (12, 6), generator=torch.Generator().manual_seed(0))

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module: Any = hugging_face()

        def training_step(self, batch: Tensor, _: int) -> Tensor:
            loss: Tensor = self.module(input_ids=batch, labels=batch).loss
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.05)

    def fitted(module: Module, *callbacks: Any) -> list[Tensor]:
        off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
        torch.manual_seed(1)
        trainer = lightning.Trainer(
            max_steps=4, accelerator="cpu", callbacks=[*callbacks], default_root_dir=tmp_path,
            enable_model_summary=False, **off,
        )  # fmt: skip
        trainer.fit(module, torch.utils.data.DataLoader(rows, batch_size=3))
        return list(module.parameters())

    class Watching(lightning.Callback):  # type: ignore[misc]
        def on_train_start(self, trainer: Any, module: Any) -> None:
            self.on_train_batch_end(trainer)

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.is_global_zero:
                watcher(trainer.global_step)

    module = Module()
    watcher = watch(module.module, measures=("stable_rank",), every=1, budget=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Lightning
        weights, plain = fitted(module, Watching()), fitted(Module())
    assert all(map(torch.equal, weights, plain))
    assert watcher.looks["step"].tolist() == [0, 1, 2, 3, 4]
    moved = watcher.frame.groupby("step")["value"].mean()
    assert moved.nunique() == 5


# ---- what it gives ------------------------------------------------------------------------------


def test_its_file_and_its_figures(model: LensModel, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    names = ("stable_rank", "cap", "attention_leak", "agreement")
    watcher = watch(
        model, measures=names, every=10, budget=0.5, path=path, layers=[0, 1], pairs=PAIRS,
        clock=iter([0.0, 0.0, 0.0, 1.0, 1.5, 9.0, 9.0, 10.0, *[11.0] * 9]).__next__, **ON_SPANS,
    )  # fmt: skip
    with pytest.raises(InputError, match="no look has been taken yet"):
        watcher.plot()
    for step in (0, 5, 10, 20):
        watcher(step)
    read = Watched.read(path)
    assert read.looks["taken"].tolist() == [True, False, True]
    pd.testing.assert_frame_equal(read.frame, watcher.frame)
    assert read.config == watcher.result.config
    figures = read.figures()
    assert list(figures) == [f"{name}_over_training" for name in names]
    chart = figures["cap_over_training"].chart
    assert chart is not None
    assert chart.subtitle == "2 looks · 1 skipped for the budget of 0.5 · bands: 95 % intervals"
    assert [line.label for line in chart.panels[0].lines] == ["layer 0", "layer 1", "no pooling"]
    ranks = figures["stable_rank_over_training"].chart
    own = read.frame[(read.frame["measure"] == "stable_rank") & (read.frame["layer"] == 1)]
    assert ranks.panels[0].lines[1].y[1] == own[own["step"] == 20]["value"].mean()
    assert ranks.panels[0].lines[1].x == [0.0, 20.0]
    with pytest.raises(OptionError, match="measure='rank': expected one of stable_rank"):
        watcher.plot("rank")
    folder = read.save(tmp_path / "kept")
    pd.testing.assert_frame_equal(Watched.load(folder).frame, read.frame)


def test_a_file_of_another_watcher_is_left_alone(model: LensModel, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    watch(model, path=path, every=10)(0)
    kept = path.read_bytes()
    with pytest.raises(InputError, match=r"another watcher \(every was 10, is now 5\)"):
        watch(model, path=path, every=5)(0)
    assert path.read_bytes() == kept
    path.write_text('{"step": 1}\n', encoding="utf-8")
    with pytest.raises(CorruptFileError, match=r"line 1 is not a row of ic.watch as it was writ"):
        watch(model, path=path)(0)
    Recorder(path).restart([{"table": "steps"}])
    with pytest.raises(CorruptFileError, match=r"line 1 is not a row of ic.watch as it was writ"):
        watch(model, path=path)(0)
    with pytest.raises(MissingDataError, match="there is no file"):
        Watched.read(tmp_path / "nowhere.jsonl")


def test_a_step_that_was_skipped_and_then_looked_at_is_in_its_file_once(
    model: LensModel, tmp_path: Path
) -> None:
    path, ticks = tmp_path / "rows.jsonl", iter(map(float, range(99)))
    asked: Any = {"measures": ("frobenius_norm",), "every": 1, "path": path}
    watcher = watch(model, budget=0.01, clock=ticks.__next__, **asked)
    for step in range(3):
        watcher(step)
    watcher.look(2)
    assert watcher.looks["taken"].tolist() == [True, False, True]
    pd.testing.assert_frame_equal(Watched.read(path).looks, watcher.looks)


def test_damage_of_its_file_is_refused_and_a_cut_line_is_noted(
    model: LensModel, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    watcher = watch(model, path=path, every=1, budget=None, measures=("frobenius_norm",))
    for step in range(3):
        watcher(step)
    data = path.read_bytes()
    assert Watched.read(path).notes == []
    lines = data.splitlines(keepends=True)
    for broken in (lines[:3] + lines[4:], [*lines[:2], lines[3], lines[2], *lines[4:]]):
        path.write_bytes(b"".join(broken))
        with pytest.raises(CorruptFileError, match="rows.jsonl, line [34] is not a row of ic"):
            Watched.read(path)
        with pytest.raises(CorruptFileError, match="rows.jsonl, line [34] is not a row of ic"):
            watch(model, path=path, every=1, budget=None, measures=("frobenius_norm",))(3)
    for cut, said in (
        (5, "line .*, which is cut, is left out"),
        (len(lines[-1]), "18 whole rows of its last look"),
    ):
        path.write_bytes(data[:-cut])
        read = Watched.read(path)
        assert read.looks["step"].tolist() == [0, 1]
        assert re.search(f"! rows.jsonl: {said}", read.summary())
        (note,) = read.notes
        folder = read.save(tmp_path / f"kept{cut}")
        assert Watched.load(folder).notes == [note]
    again = watch(model, path=path, every=1, budget=None, measures=("frobenius_norm",))
    again(2)
    pd.testing.assert_frame_equal(Watched.read(path).frame, watcher.frame)
    assert Watched.read(path).notes == []


# ---- refused ------------------------------------------------------------------------------------


class Sharded(nn.Module):
    """Named as PyTorch's, which needs processes."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


Sharded.__name__ = "FullyShardedDataParallel"


COMPILED: list[tuple[Callable[[nn.Module], Any], str]] = [
    (lambda module: torch.compile(module), "the model .* is compiled by torch.compile"),
    (lambda module: (module.transformer.h[1].compile(), module)[1],
     "its part 'transformer.h.1' .* is compiled"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile
@pytest.mark.parametrize(
    ("change", "message"),
    [
        *COMPILED,
        (lambda module: nn.DataParallel(module), "the model is a DataParallel, spread over"),
        (lambda module: Sharded(module), "the model is a FullyShardedDataParallel, spread over"),
    ],
)  # fmt: skip
def test_a_model_that_is_compiled_or_sharded(
    change: Callable[[nn.Module], nn.Module], message: str
) -> None:
    with pytest.raises(CapabilityError, match=message):
        watch(change(hugging_face()))  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile
@pytest.mark.parametrize(("change", "message"), COMPILED)
def test_a_model_that_is_compiled_before_its_training_begins(
    change: Callable[[nn.Module], nn.Module], message: str, tmp_path: Path
) -> None:
    """It was not when the watcher was made."""
    module = hugging_face()
    watcher = watch(module)
    made = trainer(tmp_path, watcher, change(module))
    with pytest.raises(CapabilityError, match=message):
        trained(made)
    assert watcher.looks.empty


def test_what_is_no_model() -> None:
    with pytest.raises(OptionError, match="cannot load a Linear"):
        watch(nn.Linear(2, 3))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"measures": ("cap",), "layers": [3], **ON_SPANS}, LayerError, "3"),
        ({"measures": ("attention_leak",), "layers": [-4], **ON_SPANS}, LayerError, "-4"),
        ({"measures": ("cap",), "examples": EXAMPLES}, InterventionError, "pooling would change"),
        ({"measures": ("attention_leak",), "examples": EXAMPLES}, InterventionError, "knocked out"),
        ({"measures": ("cap",), "examples": []}, InputError, "no examples"),
    ],
)
def test_data_that_cannot_be_measured(
    model: LensModel, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        watch(model, **options)


def test_examples_that_can_be_read_once_are_enough_for_two_measures(model: LensModel) -> None:
    rows = iter(EXAMPLES)
    watcher = watch(model, measures=("cap", "attention_leak"), examples=rows, unit="span")
    assert len(list(rows)) == 0
    watcher.watch(model)  # again, as finetune does of its copy
    watcher(0)
    assert set(watcher.frame["measure"]) == {"cap", "attention_leak"}


def test_weights_are_enough_without_a_tokenizer() -> None:
    module = hugging_face()
    watcher = watch(module, measures=("stable_rank",), matrices=("W_in",))
    watcher(0)
    matrices = weight_matrices(load_model(copy.deepcopy(module)), ("W_in",))
    for matrix, found in zip(matrices, watcher.frame["value"], strict=True):
        values = np.linalg.svd(matrix.weight.double().numpy(), compute_uv=False)
        assert found == pytest.approx(float((values**2).sum() / values[0] ** 2), rel=1e-5)


def test_the_summary_has_intervals_and_names_what_nothing_was_done_to() -> None:
    rows = [
        {"step": step, "measure": measure, "layer": layer, "of": of, "value": value, "n": n}
        | {"low": low, "high": high}
        for step in (0, 40)
        for measure, layer, of, value, n, low, high in (
            ("stable_rank", 1, "W_Q", 2.0 + step, 1, np.nan, np.nan),
            ("stable_rank", 1, "W_K", 3.0 + step, 1, np.nan, np.nan),
            ("cap", -1, "no pooling", 0.5, 20, 0.299, 0.701),
            ("cap", 0, "mean", 0.25, 20, 0.112, 0.469),
        )
    ]
    look = {"taken": True, "seconds": 1.0, "training_seconds": 2.0, "watching_seconds": 1.0}
    looks = [{"step": step, "expected": np.nan, **look} for step in (0, 40)]
    found = Watched(
        config={"measures": ["stable_rank", "cap"]},
        frames={"measured": MEASURED.of(rows), "looks": LOOKS.of(looks)},
        versions={},
    )
    lines = [line.split() for line in found.summary().splitlines()]
    assert "95 % intervals" in found.summary()
    accuracy = ["0.500", "[0.299,", "0.701]"]
    assert ["cap", "no", "pooling", *accuracy, *accuracy, "20"] in lines
    pooled = ["0.250", "[0.112,", "0.469]"]
    assert ["cap", "mean", "0", *pooled, *pooled, "20"] in lines
    assert ["stable_rank", "mean", "of", "matrices", "1", "2.5", "42.5", "2"] in lines


@pytest.mark.parametrize(
    ("measure", "read"),
    [("cap", ON_SPANS), ("attention_leak", ON_SPANS), ("agreement", {"pairs": PAIRS})],
)
def test_a_missing_tokenizer_is_passed_where_the_model_was(
    measure: str, read: dict[str, Any]
) -> None:
    module = hugging_face()
    with pytest.raises(InputError, match=r"without a tokenizer; pass one to watch\(…, tokenizer"):
        watch(module, measures=(measure,), **read)
    loaded = load_model(module)
    with pytest.raises(InputError, match=r"tokenizer; pass one to load_model\(…, tokenizer"):
        watch(loaded, measures=(measure,), **read)
    with pytest.raises(OptionError, match=r"is loaded .* or pass it to load_model\(…, tokenizer"):
        watch(loaded, measures=(measure,), tokenizer=object(), **read)
