"""``finetune``: train a copy of a model on a task, plainly or with CARMA (eq. 8)."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch

from interp_compose._public import public
from interp_compose._versions import environment_versions
from interp_compose.errors import (
    CapabilityError,
    DeviceError,
    InputError,
    InterventionError,
    OptionError,
    OutputError,
    warn,
)
from interp_compose.models.autocast import finite_scores
from interp_compose.models.copying import copy_model
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import weights_digest
from interp_compose.models.ready import check_ids, check_one_stack, check_prompts, check_tokenizer
from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.runs.files import check_writable, locked, make_folder, named, remove_stale
from interp_compose.tasks.examples import ExampleRows
from interp_compose.tasks.task import Task
from interp_compose.tensors import check_autocast, devices_of
from interp_compose.text.answers import answer_ids
from interp_compose.text.label_set import VOCABULARY, candidate_ids, checked_answers
from interp_compose.text.units import Unit, tokenize_prompts
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.training.data import TrainingExample, collate, in_order
from interp_compose.training.history import (
    Recorder,
    Tracker,
    TrainingHistory,
    WeightTracker,
    check_history,
)
from interp_compose.training.loop import Trainer, run_training, trains
from interp_compose.training.losses import count_anchors
from interp_compose.training.objectives import AnswerToken, Carma
from interp_compose.training.processes import Processes
from interp_compose.types import Example

CHECKPOINTS = "checkpoints"
HISTORY = "history.jsonl"
NEXT_TOKEN = ", since training and CARMA's measures are of the next token alone (eq. 9 to 11)"


class Finetuned(NamedTuple):
    """A trained copy, in evaluation mode, and what happened while it was trained."""

    model: LensModel
    history: TrainingHistory


@public
def finetune(
    model: LensModel,
    task: Task | ExampleRows,
    *,
    carma: CarmaConfig | None = None,
    config: TrainConfig | None = None,
    folder: str | Path | None = None,
    track: Tracker | None = None,
    progress: bool = True,
) -> Finetuned:
    """Train a copy of ``model`` on the task's training split; the model itself stays as it is.

    The loss is the cross-entropy of the answer token (nats) or, with ``carma``, eq. 8's
    (1 − λ)·task + λ·(γ·MI + η·stability), on residual streams captured in the task's own forward
    pass. With λ = 0 the weights are bit-identical to plain fine-tuning's.

    Args:
        model: from :func:`load_model`, a decoder in float32.
        task: from :func:`load_task`, or a :class:`Task` of rows of your own; its validation split
            is what early stopping looks at. Or rows alone, as :func:`cap_curve` takes them: all are
            trained on, and no accuracy is measured meanwhile.
        carma: None for plain fine-tuning.
        config: by default :meth:`TrainConfig.suggested` for the model's size.
        folder: where ``history.jsonl`` and the checkpoints go. A run that was killed, called again
            with the same arguments, goes on from the last checkpoint, and on a CPU ends in
            bit-identical weights.
        track: called with each row of the history (``step``, ``loss``, ``validation/accuracy``,
            …) as it comes; ``wandb.log`` and ``trackio.log`` will do, and so does a
            :class:`~.watcher.Watcher` of :func:`watch`.
        progress: show a bar with loss, accuracy and CARMA's terms.

    Returns:
        ``(model, history)``: the trained copy, named like "mini-base · fine-tuned on mini-idm", and
        a :class:`TrainingHistory`.

    Under ``accelerate launch`` (or ``torchrun``) the processes share each batch out.

    Raises:
        InputError: before any work: prompts, answers, layers, an empty split, a folder with
            another run's checkpoints.
        CapabilityError: an encoder, or weights in half precision.
        DeviceError: bfloat16 on a GPU that has none.
        InterventionError: CARMA would do nothing, interventions are open on the model, or, at the
            end, no weight has moved.
        NonFiniteError: a loss or gradient is NaN or infinite; names the step and the term.
        CorruptFileError: no checkpoint in ``folder`` is intact.
        OutputError: the folder can no longer be written to, or another process is training there.
    """
    if folder is not None:
        check_history(_folder(folder) / HISTORY)
    elif config is not None and config.checkpoint_every is not None:
        raise OptionError(
            f"checkpoint_every={config.checkpoint_every} without a folder, in which checkpoints "
            "would be kept: give one, or leave it out"
        )
    task = task if isinstance(task, Task) else Task(train=task)
    unit = "word" if carma is None else carma.unit
    with _pythons_randomness_kept():
        train = encode_examples(model, task.split("train"), unit=unit, which="train")
        validation = encode_examples(model, task.split("validation"), unit=unit, which="validation")
        return finetune_on(
            model,
            train,
            validation,
            task.name,
            carma=carma,
            config=config,
            folder=folder,
            track=track,
            progress=progress,
        )


@contextmanager
def _pythons_randomness_kept() -> Iterator[None]:
    """Libraries that are loaded on the way draw from Python's generator."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


@trains
def finetune_on(
    model: LensModel,
    train: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    task: str,
    *,
    carma: CarmaConfig | None,
    config: TrainConfig | None,
    folder: str | Path | None,
    progress: bool,
    title: str | None = None,
    track: Tracker | None = None,
) -> Finetuned:
    """:func:`finetune` on examples that are encoded already."""
    if config is None:
        config = TrainConfig.suggested(sum(weight.numel() for weight in model.parameters()))
    if carma is not None:
        carma = carma.resolved(model.n_layers)
    check_training(model, train, validation, config, carma)
    where = None if folder is None else _folder(folder)
    processes = Processes(model.device)
    smoothing = config.label_smoothing
    objective = (
        AnswerToken(train, validation, smoothing)
        if carma is None
        else Carma(train, validation, smoothing, config=carma, n_layers=model.n_layers)
    )
    total = config.total_steps(len(train), objective.lengths)
    settings = {
        "study": "finetune",
        "model": model.name,
        "architecture": model.architecture,
        "task": task,
        "train": asdict(config),
        "carma": None if carma is None else asdict(carma),
        "parts": config.accumulate * processes.count,
        "n_train": len(train),
        "n_validation": len(validation),
        "total_steps": total,
        "warmup": config.warmup_of(total),
        "examples_sha256": _digest([*train, *validation]),
        "weights_sha256": weights_digest(model),
        "frozen": [
            name for name, weight in model.lens.named_parameters() if not weight.requires_grad
        ],
        "device": processes.device.type,
    }
    twin, with_carma = copy_model(model), carma is not None and carma.weight > 0
    twin.name = f"{model.name} · fine-tuned {'with CARMA ' if with_carma else ''}on {task}"
    if processes.device != model.device:
        twin.lens.to(processes.device)
    recorder, checkpoints = Recorder(), None
    recorder.track = track if processes.is_main else None
    if isinstance(recorder.track, WeightTracker):
        recorder.track.watch(twin)
    kind = "CARMA" if with_carma else "fine-tuning"
    trainer = Trainer(twin, objective, config, recorder=recorder, processes=processes)
    with ExitStack() as during:
        if where is not None:
            fingerprint = {**settings, "versions": environment_versions()}
            checkpoints = CheckpointFolder(where / CHECKPOINTS, fingerprint)
            if processes.is_main:
                during.enter_context(locked(where))
                recorder.path = where / HISTORY
                remove_stale(where / CHECKPOINTS)
        if config.precision == "bfloat16":
            during.enter_context(finite_scores(twin))
        run_training(
            trainer,
            checkpoints=checkpoints,
            progress=progress,
            title=title or f"{kind} {model.name}",
        )
    _check_moved(model, twin, config, steps=total)
    return Finetuned(twin, TrainingHistory(settings, recorder.tables(), environment_versions()))


def _check_moved(model: LensModel, twin: LensModel, config: TrainConfig, *, steps: int) -> None:
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    if steps == 0 or not all(torch.equal(old, new.to(old.device)) for old, new in pairs):
        return
    if config.patience is not None:
        warn(
            f"validation accuracy of {model.name!r} never rose above the untrained model's, whose "
            "weights are what is returned; raise the learning rate or the patience.",
        )
        return
    raise InterventionError(
        f"not one weight of {model.name!r} moved in {steps} steps (lr={config.lr}, clip="
        f"{config.clip}): steps are too small for {str(model.dtype).removeprefix('torch.')}. Raise "
        "the learning rate, or clip less."
    )


def encode_examples(
    model: LensModel,
    examples: Sequence[Example],
    *,
    unit: Unit,
    which: str,
    answers: str | Sequence[str] = VOCABULARY,
) -> list[TrainingExample]:
    """Check, tokenize and align a split; ``which`` names it in errors. ``answers``: what accuracy
    chooses among, the vocabulary or a list of labels; the loss is over the vocabulary.

    Raises:
        InputError: see :func:`tokenize_prompts`, :func:`answer_ids` and :func:`check_prompts`.
        CapabilityError: an encoder–decoder.
    """
    check_one_stack(model, "fine-tuning")
    check_tokenizer(model)
    if not examples:
        return []
    prompts = tokenize_prompts(model.tokenizer, examples, unit=unit)
    check_prompts(model, prompts, lambda i: f"{which} example {i}: its prompt", collapse=None)
    expected = answer_ids(model.tokenizer, examples, prompts, because=NEXT_TOKEN)
    candidates = candidate_ids(model.tokenizer, examples, prompts, checked_answers(answers))
    highest = int((expected if candidates is None else candidates).max())
    check_ids(model, max(highest, *(int(prompt.ids.max()) for prompt in prompts)))
    return [
        TrainingExample(
            prompt.ids,
            prompt.groups,
            int(answer),
            None if candidates is None else candidates[number],
        )
        for number, (prompt, answer) in enumerate(zip(prompts, expected, strict=True))
    ]


def _folder(folder: str | Path) -> Path:
    """A folder that is there, made if needed."""
    try:
        check_writable(make_folder(folder))
    except OutputError as refusal:
        why = refusal.__cause__ or refusal
        raise InputError(
            f"folder={named(str(folder))!r} is no folder and cannot be made one to write to "
            f"({why}); choose another"
        ) from refusal
    return Path(folder)


def check_training(
    model: LensModel,
    train: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    config: TrainConfig,
    carma: CarmaConfig | None,
) -> None:
    """Refuse, before any work, what could only fail or do nothing."""
    check_autocast(model.device, f"training {model.name!r}")
    if model.bidirectional:
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) is an encoder and predicts no next token; "
            "fine-tune a decoder."
        )
    if len(devices := devices_of(model.parameters())) > 1:
        raise CapabilityError(
            f"the layers of {model.name!r} lie on {', '.join(map(str, devices))}, and training is "
            "proven on one device; load the model with device=…, not device_map."
        )
    if model.dtype not in (torch.float32, torch.float64):
        raise CapabilityError(
            f"{model.name!r} has weights in {str(model.dtype).removeprefix('torch.')}, in which "
            "small updates are lost; load it in float32, and for speed train with "
            'TrainConfig(precision="bfloat16").'
        )
    if not any(weight.requires_grad for weight in model.parameters()):
        raise InputError(
            f"every weight of {model.name!r} is frozen (requires_grad is False); unfreeze those "
            "that are to be trained."
        )
    on_gpu = model.device.type == "cuda"
    if config.precision == "bfloat16" and on_gpu and not torch.cuda.is_bf16_supported():
        raise DeviceError('this GPU has no bfloat16; train with precision="float32"')
    if not train:
        raise InputError(
            "the task's training split is empty; a file of your own is all test. Divide it: "
            "dataclasses.replace(task, train=task.test[:800], test=task.test[800:])."
        )
    if config.evaluate_every is not None and not validation:
        raise OptionError(
            f"evaluate_every={config.evaluate_every} looks at the validation split, and the task's "
            "is empty; give it one (ic.Task(train=…, validation=…)), or leave it out"
        )
    if config.patience is not None and not validation:
        raise InputError(
            f"patience={config.patience} looks at validation accuracy, and the task's validation "
            "split is empty; give it one (ic.Task(train=…, validation=…)), or leave patience out."
        )
    if carma is None or carma.weight == 0:
        return
    if carma.mi_weight == 0 and carma.stability_weight == 0:
        raise InterventionError(
            "mi_weight and stability_weight are both 0: CARMA would do nothing but shrink the "
            "task's loss. Raise one, or pass carma=None."
        )
    if carma.mi_weight > 0 and not _has_anchor(train):
        raise InterventionError(
            f"not one of {len(train)} training prompts has a {carma.unit} of several tokens beside "
            "another: the MI term would do nothing. Choose larger units, or mi_weight=0."
        )


def _has_anchor(items: Sequence[TrainingExample]) -> bool:
    parts = ([items[i] for i in places] for places in in_order(items, 256))
    return any(int(count_anchors(collate(part).word_ids)) for part in parts)


def _digest(items: Sequence[TrainingExample]) -> str:
    """SHA-256 of the ids, words, answers and candidates, in their order."""
    digest = hashlib.sha256()
    for item in items:
        row = [item.ids.tolist(), item.words.tolist(), item.answer]
        row += [] if item.candidates is None else [item.candidates.tolist()]
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()
