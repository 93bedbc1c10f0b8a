"""What is free, what a batch and weights need at least, and refusals before any work."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from benchmarks.common import LiveTensors
from interp_compose.errors import InterpComposeError, NotEnoughMemoryError
from interp_compose.models import enough_memory
from interp_compose.models.enough_memory import (
    EXPECTED,
    MOST_OF_FREE,
    MOST_OF_LEAST,
    Shape,
    available_bytes,
    check_loading,
    n_weights_of,
    rows_that_fit,
    sweep_bytes,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.model_files import check_places
from interp_compose.studies.ablation.measure import prepare_ablation
from interp_compose.studies.ablation.options import AblationOptions
from interp_compose.studies.cap.measure import PreparedCap, as_kept, cap_curve, prepare_cap
from interp_compose.studies.cap.options import CapOptions
from interp_compose.studies.core.study import Prepared
from interp_compose.studies.similarity.measure import prepare_similarity
from interp_compose.studies.similarity.options import SimilarityOptions
from interp_compose.studies.transplant.measure import prepare_transplant
from interp_compose.studies.transplant.options import TransplantOptions
from interp_compose.types import Example
from tests.studies.conftest import splitting_tokenizer
from tests.studies.test_transplant import PAIRS

CPU = torch.device("cpu")
KIB, GIB = 2**10, 2**30
SHAPES: dict[str, dict[str, int]] = {
    "small vocabulary": {"vocab_size": 64, "num_hidden_layers": 4},
    "large vocabulary": {"vocab_size": 50_000, "num_hidden_layers": 4},
    "deep, few key heads": {
        "vocab_size": 2_000,
        "num_hidden_layers": 8,
        "num_key_value_heads": 2,
    },
}
EXAMPLES = [Example("abc " * (10 + k % 3) + "bcd ab x", "a") for k in range(6)]


def llama(**shape: int) -> LensModel:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    config = transformers.LlamaConfig(**{**sizes, **shape}, max_position_embeddings=128)
    module = transformers.LlamaForCausalLM(config).eval()
    return load_model(module, tokenizer=splitting_tokenizer())


def peak_of(prepared: Prepared[Any], batch: Any) -> int:
    with torch.no_grad():
        prepared.rows(batch)  # what is computed once only is not the batch's
        live = LiveTensors()
        with live:
            prepared.rows(batch)
    assert live.now == 0  # nothing that was made for a batch outlives it
    return live.peak


CASES: dict[str, Callable[[LensModel], Prepared[Any]]] = {
    "cap": lambda model: prepare_cap(model, EXAMPLES, CapOptions()),
    "cap, one layer": lambda model: prepare_cap(model, EXAMPLES, CapOptions(layers=[1])),
    "cap, broadcast": lambda model: prepare_cap(model, EXAMPLES, CapOptions(mode="broadcast")),
    "words": lambda model: prepare_ablation(model, EXAMPLES, AblationOptions(what="words")),
    "heads": lambda model: prepare_ablation(model, EXAMPLES, AblationOptions(what="heads")),
    "similarity": lambda model: prepare_similarity(
        model,
        [(one.prompt, "ab abc " * (k + 2), float(k)) for k, one in enumerate(EXAMPLES)],
        SimilarityOptions(),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_estimate_is_below_what_is_held_and_near_it(shape: str) -> None:
    model = llama(**SHAPES[shape])
    ratios = {}
    for name, prepare in CASES.items():
        prepared = prepare(model)
        batch = max(prepared.batches, key=prepared.least_bytes)
        ratios[name] = peak_of(prepared, batch) / prepared.least_bytes(batch)
    print(ratios)
    assert all(1 <= ratio <= MOST_OF_LEAST for ratio in ratios.values()), ratios


LATE = [Example("a b " * 12 + "abc " * (3 + k % 3) + "bcd ab x", "a") for k in range(6)]
"""Behind a prefix of single tokens, which is not run again."""


def gpt2(dtype: torch.dtype = torch.float32) -> LensModel:
    torch.manual_seed(0)
    sizes = {"n_embd": 64, "n_head": 4, "n_layer": 6, "n_positions": 128, "vocab_size": 97}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    module = transformers.GPT2LMHeadModel(config).eval().to(dtype)
    return load_model(module, tokenizer=splitting_tokenizer())


SWEPT: dict[str, Callable[[], LensModel]] = {
    "GPT-2": gpt2,
    "few key heads": lambda: llama(**SHAPES["deep, few key heads"]),
    "large vocabulary": lambda: llama(**SHAPES["large vocabulary"]),
    "GPT-2 in bfloat16": lambda: gpt2(torch.bfloat16),
}


@pytest.mark.parametrize("name", SWEPT)
def test_a_sweep_takes_about_what_is_expected(name: str) -> None:
    model, ratios = SWEPT[name](), {}
    modes: tuple[Any, ...] = ("collapse", "broadcast")
    for mode, examples, size in product(modes, (EXAMPLES, LATE), (2, 6)):
        prepared = prepare_cap(model, examples, CapOptions(mode=mode, batch_size=size))
        batch = max(prepared.batches, key=prepared.expected_bytes)
        ratio = prepared.expected_bytes(batch) / peak_of(prepared, batch)
        ratios[mode, examples is LATE, size] = ratio
    print(ratios)
    assert all(EXPECTED[0] <= ratio <= EXPECTED[1] for ratio in ratios.values()), ratios


def test_what_is_expected_was_measured_and_is_in_the_docs() -> None:
    root = Path(__file__).parents[2]
    kept = json.loads((root / "benchmarks/results/cap_expected_cpu.json").read_text("utf-8"))
    ends = [end for row in kept["rows"] for end in row["expected_in_live_range"]]
    assert EXPECTED[0] <= min(ends) < 1 < max(ends) <= EXPECTED[1]
    text = (root / "docs" / "models.md").read_text("utf-8")
    assert f"it came to {min(ends):.2f} to {max(ends):.2f} times what tensors held" in text


def test_nothing_of_a_transplant_outlives_its_batch() -> None:
    prepared = prepare_transplant(
        llama(**SHAPES["deep, few key heads"]), PAIRS, TransplantOptions(layers=[0, 3])
    )
    assert peak_of(prepared, prepared.batches[0]) > prepared.least_bytes(prepared.batches[0])


def test_the_table_of_a_large_model_is_the_formula() -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
    table = text.split("## Memory of a 7B model")[1].split("\n\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    shape = Shape(
        **{"n_weights": 6_738_415_616, "n_layers": 32, "d_model": 4096, "n_heads": 32},
        **{"n_key_heads": 32, "d_head": 128, "d_mlp": 11008, "d_vocab": 32000, "itemsize": 2},
        gated=True,
    )
    # What chunk_tokens gives for a GPU of 24 GiB.
    max_tokens = 24 * GIB // 20 // (32 * 4096 * 2 + 12 * 32000 // 40)
    assert f"calls of {max_tokens:,} tokens" in table
    for cells in rows[1:]:
        n = int(cells[0])
        ways: Any = {"n_layers": 32, "ways": 7, "pooled": 40, "positions": 7 * n * 40}
        together = 7 * n, 7 * n * 40
        parts = sweep_bytes(shape, n, 64, **ways, together=together, max_tokens=max_tokens)
        named = [parts.get(part, 0) for part in ("residuals", "keys", "streams", "block")]
        numbers = [shape.weights, *named, shape.weights + sum(named)]
        assert cells[1:] == [f"{number / GIB:.2f}" for number in numbers]
    assert len(rows) == 5


def test_the_batch_that_fits_is_the_largest_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 100)
    for expected in (9, 10, 20, 79, 80, 81):
        fits = int(MOST_OF_FREE * 100) // expected
        assert rows_that_fit(lambda n, each=expected: n * each, 9, [CPU]) == min(fits, 9)
    assert rows_that_fit(lambda n: n * 40, 9, [CPU, CPU]) == 3  # two devices
    assert rows_that_fit(lambda n: (10, 70, 20)[n - 1], 3, [CPU]) == 1  # and not three alone
    free(monkeypatch, None)
    assert rows_that_fit(lambda n: n, 9, [CPU]) == 0


def test_a_batch_that_is_proposed_is_not_warned_of(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """Of texts of many lengths the longest come together."""
    model = llama(**SHAPES["small vocabulary"])
    texts = [f"{'very ' * i}big aeroplanes are" for i in range(12)]
    examples = [Example(text, "a") for text in texts]
    (batch,) = prepare_cap(model, examples, CapOptions(batch_size=12)).batches
    expected = prepare_cap(model, examples, CapOptions()).expected_bytes
    free(monkeypatch, expected(batch) - 1)
    cap_curve(model, examples, batch_size=12, progress=False)
    (warning,) = (str(one.message) for one in recwarn if "estimated" in str(one.message))
    proposed = int(warning.split("batch_size=")[1].split(",")[0])
    recwarn.clear()
    cap_curve(model, examples, batch_size=proposed, progress=False)
    assert not [one for one in recwarn if "estimated" in str(one.message)]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_automatic_batch_holds_less_than_is_free_and_twice_as_many_would_not(
    monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    """The longest text may have nothing to pool, and most tokens, or most units."""
    model = llama(**SHAPES[shape])
    examples = [*EXAMPLES * 3, Example("abc " * 24 + "x", "a"), Example("a b " * 30 + "x", "a")]
    one = prepare_cap(model, examples, CapOptions(batch_size=1))
    n_bytes = int(3 * max(map(one.expected_bytes, one.batches)) / MOST_OF_FREE)
    free(monkeypatch, n_bytes)
    prepared = prepare_cap(model, examples, CapOptions(batch_size="auto"))
    size = prepared.config["batch_size"]
    assert 1 < size < len(examples)
    assert max(map(len, prepared.batches)) == size
    assert max(peak_of(prepared, batch) for batch in prepared.batches) <= n_bytes
    twice = prepare_cap(model, examples, CapOptions(batch_size=2 * size))
    assert max(map(twice.expected_bytes, twice.batches)) > MOST_OF_FREE * n_bytes
    by_number = cap_curve(model, examples, batch_size=size, progress=False)
    automatic = cap_curve(model, examples, batch_size="auto", progress=False)
    assert automatic.config == by_number.config
    assert automatic.outcomes.equals(by_number.outcomes)
    for n_bytes, batch_size in ((None, None), (10, 1)):  # not known; not one is expected to fit
        free(monkeypatch, n_bytes)
        other = prepare_cap(model, examples, CapOptions(batch_size=batch_size))
        automatic = prepare_cap(model, examples, CapOptions(batch_size="auto"))
        assert automatic.config == other.config


def test_an_automatic_batch_is_what_a_folder_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = llama(**SHAPES["small vocabulary"])
    rows, calls = PreparedCap.rows, iter((False, True))

    def interrupted(self: PreparedCap, items: Any) -> Any:
        if next(calls):
            raise KeyboardInterrupt
        return rows(self, items)

    with monkeypatch.context() as patch:
        patch.setattr(PreparedCap, "rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cap_curve(model, EXAMPLES, batch_size=1, resume=tmp_path, progress=False)
    free(monkeypatch, GIB)
    resumed = cap_curve(model, EXAMPLES, batch_size="auto", resume=tmp_path, progress=False)
    assert resumed.config["batch_size"] == 1
    assert cap_curve(model, EXAMPLES, batch_size="auto", progress=False).config["batch_size"] == 8
    resumed.save(tmp_path / "kept")
    options = CapOptions(batch_size="auto")
    assert as_kept(options, tmp_path, tmp_path / "kept").batch_size == 1
    assert as_kept(options, tmp_path).batch_size == "auto"


def test_a_batch_without_units_is_a_clean_pass() -> None:
    examples = [*EXAMPLES, *(Example("a b " * 20 + "a", "a") for _ in range(6))]
    prepared = prepare_cap(llama(**SHAPES["small vocabulary"]), examples, CapOptions(batch_size=6))
    items = sorted(prepared.items, key=lambda item: item.affected)
    plain, pooled = items[:6], items[6:]
    assert not any(item.affected for item in plain)
    ratio = prepared.expected_bytes(plain) / peak_of(prepared, plain)
    assert EXPECTED[0] <= ratio <= EXPECTED[1]
    assert prepared.expected_bytes(plain) < prepared.expected_bytes(pooled)


def test_live_tensors_are_counted_once_and_until_they_end() -> None:
    there = torch.zeros(1000)
    live = LiveTensors()
    with live:
        one = there + 1  # 4,000 bytes
        view = one[:10].reshape(2, 5)
        del one
        assert live.now == 4000
        two = there.double()  # and 8,000
        del view, two
        assert live.now == 0
        three = there.add_(1)
    assert (live.now, live.peak) == (0, 12_000)
    assert three is there


@torch.no_grad()
def test_logits_are_computed_where_they_are_read_alone() -> None:
    model = llama(**SHAPES["small vocabulary"])
    tokens, shapes = torch.arange(14).reshape(2, 7), list[list[int]]()
    module: Any = model.lens.original_model
    module.lm_head.register_forward_hook(lambda m, args, out: shapes.append([*out.shape]))
    mask = torch.ones_like(tokens)
    _, resid = model.capture(tokens, ["blocks.2.hook_resid_pre"], read="last")
    entering = resid["blocks.2.hook_resid_pre"]
    places: Any = {"attention_mask": mask, "position_ids": model.positions(tokens, mask)}
    last = model.resume(entering, 2, **places, read="last")
    hidden = model.resume(entering, 2, **places, read="hidden")
    # The clean pass, then both; two tokens that tell what blocks return run the first one alone.
    assert shapes == [[2, 1, 64], [2, 1, 64], [2, 0, 64]]
    shapes.clear()
    model.run_blocks(entering, 2, 3, **places)
    model.forward(tokens, read=3)
    assert torch.equal(model.forward(tokens, read="hidden"), hidden)
    torch.testing.assert_close(module.lm_head(hidden)[:, -1:], last)
    assert shapes[:2] == [[2, 3, 64], [2, 0, 64]]
    # A study's batch: the clean pass, then chunks of streams, each at its last position.
    prepared = prepare_cap(model, EXAMPLES, CapOptions(layers=[1, 3]))
    shapes.clear()
    prepared.rows(prepared.batches[0])
    assert len(shapes) > 1
    assert {shape[1] for shape in shapes} == {1}


# ---- refusals ----


def free(monkeypatch: pytest.MonkeyPatch, n_bytes: int | None) -> None:
    monkeypatch.setattr(enough_memory, "available_bytes", lambda device: n_bytes)


def test_a_curve_is_refused_before_its_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = llama(**SHAPES["small vocabulary"])
    prepared = prepare_cap(model, EXAMPLES, CapOptions(batch_size=6))
    needed = max(map(prepared.least_bytes, prepared.batches))
    expected = max(map(prepared.expected_bytes, prepared.batches))
    free(monkeypatch, expected)
    whole = cap_curve(model, EXAMPLES, batch_size=6, progress=False)
    free(monkeypatch, expected - 1)
    with pytest.warns(UserWarning, match=r"of 6 is estimated to take .* set batch_size=3, which"):
        cap_curve(model, EXAMPLES, batch_size=6, progress=False)
    free(monkeypatch, needed - 1)
    calls: list[Any] = []
    monkeypatch.setattr(type(prepared), "rows", lambda self, items: calls.append(items))
    with pytest.raises(NotEnoughMemoryError) as refusal:
        cap_curve(model, EXAMPLES, batch_size=6, progress=False)
    message = str(refusal.value)
    assert calls == []
    for part in (f"({needed:,} bytes)", f"({needed - 1:,} bytes)", "a batch of 6"):
        assert part in message
    assert f"and is estimated to take {expected / GIB:.3g} GiB" in message
    assert "set batch_size=1, which would fit, measure fewer layers" in message
    assert isinstance(refusal.value, InterpComposeError)
    assert isinstance(refusal.value, MemoryError)
    free(monkeypatch, 0)
    with pytest.raises(NotEnoughMemoryError, match=r"free \(cpu\): measure fewer layers"):
        cap_curve(model, EXAMPLES, batch_size=1, progress=False)
    with pytest.raises(NotEnoughMemoryError, match=r"free \(cpu\): use shorter texts\."):
        cap_curve(model, EXAMPLES, layers=[1], batch_size=1, progress=False)
    monkeypatch.undo()
    free(monkeypatch, 2 * expected // 3)  # half of the batch fits
    half = cap_curve(model, EXAMPLES, batch_size=3, progress=False)
    assert half.frame["accuracy"].tolist() == whole.frame["accuracy"].tolist()


def test_what_is_not_known_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, None)
    model = llama(**SHAPES["small vocabulary"])
    assert len(cap_curve(model, EXAMPLES, layers=[0], progress=False).clean) == len(EXAMPLES)


def test_finished_batches_need_no_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = llama(**SHAPES["small vocabulary"])
    options: Any = {"layers": [0], "progress": False, "batch_size": 6, "resume": tmp_path}
    monkeypatch.setattr(
        "interp_compose.studies.cap.measure.PreparedCap.result", lambda self, rows: 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        cap_curve(model, EXAMPLES, **options)
    monkeypatch.undo()
    free(monkeypatch, 0)
    assert len(cap_curve(model, EXAMPLES, **options).clean) == len(EXAMPLES)


def saved(folder: Path) -> int:
    """A checkpoint in bfloat16, and how many weights its layers and embedding have."""
    module: Any = llama(**SHAPES["small vocabulary"]).lens.original_model
    config = transformers.LlamaConfig(**module.config.to_dict())
    plain = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    plain.save_pretrained(folder)
    splitting_tokenizer().save_pretrained(folder)
    return sum(weight.numel() for weight in plain.model.parameters())


def test_a_checkpoint_is_refused_before_its_weights_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    n_weights = saved(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    assert n_weights_of(config) == n_weights
    free(monkeypatch, 4 * n_weights)
    assert load_model(tmp_path).n_layers == 4
    free(monkeypatch, 4 * n_weights - 1)
    load_model(tmp_path, dtype="bfloat16")  # mapped from its file
    (tmp_path / "model.safetensors").write_bytes(b"never read")
    with pytest.raises(NotEnoughMemoryError, match="loading .* dtype='bfloat16', which takes two"):
        load_model(tmp_path)


def test_a_gpu_has_to_hold_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, dtype="bfloat16"
    )
    n_weights = n_weights_of(config)
    assert n_weights is not None
    left = {"cpu": 0, "cuda": 2 * n_weights}
    monkeypatch.setattr(enough_memory, "available_bytes", lambda device: left[device.type])
    check_loading(config, "tiny", "cuda", torch.bfloat16)
    left["cuda"] = 4 * n_weights
    with pytest.raises(NotEnoughMemoryError, match=r"free \(cpu\)"):
        check_loading(config, "tiny", "cuda", torch.float32)
    left["cuda"] = 2 * n_weights - 1
    with pytest.raises(NotEnoughMemoryError, match=r"free \(cuda\): take a smaller model\."):
        check_loading(config, "tiny", "cuda", torch.bfloat16)


@pytest.mark.parametrize("config", [None, "packed", "wrong"])
def test_weights_that_cannot_be_counted_refuse_nothing(
    config: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 0)
    configs: dict[Any, Any] = {
        None: None,
        "packed": transformers.LlamaConfig(quantization_config={"bits": 4}, dtype="bfloat16"),
        "wrong": object(),
    }
    assert n_weights_of(configs[config]) is None
    check_loading(configs[config], "x", "cpu", torch.float32)


# ---- what is free ----


def system(
    monkeypatch: pytest.MonkeyPatch, folder: Path, lines: str, groups: dict[str, dict[str, Any]]
) -> None:
    """``/proc`` and ``/sys/fs/cgroup`` of another machine: 100 MiB available, 1 MiB of swap."""
    (folder / "proc" / "self").mkdir(parents=True)
    meminfo = "MemTotal: 204800 kB\nMemAvailable: 102400 kB\nSwapFree: 1024 kB\nHugePages_Free: 0\n"
    (folder / "proc" / "meminfo").write_text(meminfo)
    (folder / "proc" / "self" / "cgroup").write_text(lines)
    for group, files in groups.items():
        (folder / "groups" / group).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / "groups" / group / name).write_text(f"{text}\n")
    monkeypatch.setattr(enough_memory, "PROC", folder / "proc")
    monkeypatch.setattr(enough_memory, "GROUPS", folder / "groups")


V2 = "0::/user/job\n"
V1 = "9:cpu:/\n4:cpuset,memory:/user/job\n0::/\n"


def second(limit: object, used: int) -> dict[str, Any]:
    stat = "anon 5\nactive_file 300\ninactive_file 40"
    return {"memory.max": limit, "memory.current": used, "memory.stat": stat}


def first(limit: int, used: int) -> dict[str, Any]:
    stat = "active_file 1\ntotal_active_file 300\ntotal_inactive_file 40"
    return {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": used, "memory.stat": stat}


@pytest.mark.parametrize(
    ("lines", "groups", "expected"),
    [
        ("", {}, 100 * KIB**2),
        (V2, {"user/job": second("max", 9)}, 100 * KIB**2),
        (V2, {"user/job": second(GIB, 9)}, 100 * KIB**2),
        (V2, {"user/job": second(5000, 1000)}, 5000 - 1000 + 340),
        (V2, {"user": second(5000, 1000), "user/job": second("max", 9)}, 5000 - 1000 + 340),
        (V2, {"": second(5000, 1000)}, 5000 - 1000 + 340),  # in a container
        (V2, {"elsewhere": second(5000, 1000)}, 100 * KIB**2),
        (V1, {"memory/user/job": first(5000, 1000)}, 5000 - 1000 + 340),
        (V1, {"memory": first(5000, 1000), "memory/user/job": first(2**63, 9)}, 4340),
        (V1, {"user/job": second(5000, 1000)}, 100 * KIB**2),
    ],
)
def test_what_a_cpu_has_left(
    lines: str,
    groups: dict[str, dict[str, Any]],
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    system(monkeypatch, tmp_path, lines, groups)
    assert available_bytes(CPU) == expected + KIB**2


def test_what_a_gpu_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 200)
    assert available_bytes(torch.device("cuda")) == 1100


def test_elsewhere_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(enough_memory, "PROC", tmp_path)
    assert available_bytes(CPU) is None
    assert available_bytes(torch.device("mps")) is None


def test_here_something_is_left() -> None:
    left = available_bytes(CPU)
    assert left is None or left > 2**24


def test_nobody_is_asked_whether_python_of_a_checkpoint_may_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """transformers asks where ``trust_remote_code`` is unset, on the terminal, for 15 seconds."""

    class Remote(transformers.PreTrainedConfig):
        model_type = "remote"

    questions: list[str] = []

    def answer(question: str = "") -> str:
        questions.append(question)
        return "n"

    monkeypatch.setattr("builtins.input", answer)
    config = Remote(auto_map=dict.fromkeys(("AutoModel", "AutoModelForCausalLM"), "a--b.C"))
    config._name_or_path = "someone/a"
    assert n_weights_of(config) is None
    check_places(config, "a", {"anything": "cpu"})
    assert not questions
