"""Generates what the pages show of the package itself, each a file in ``_generated/``, and the
page of verdicts.

Run with ``python -m docs.tables``. The table of architectures is :mod:`docs.architectures`.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

from docs import (
    audits,
    authors_results,
    cap_results,
    carma_results,
    cat_paper,
    circuit_results,
    encoder_results,
    generalise_results,
    panel_page,
    phase_results,
    speed_results,
    task_results,
    transplant_results,
    verdict_page,
    watch_results,
)
from docs.measured import RESULTS, Table
from interp_compose.cli import COMMANDS, ON_RESULTS, _parsed, main as interp_compose
from interp_compose.papers.complexity.studies.anchors.grid import run_of
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.studies.core.grid import numbers
from interp_compose.tasks.mini import idm as mini_idm, sst as mini_sst
from interp_compose.tasks.prompts import PAPER_MODELS, TEMPLATES
from interp_compose.training.carma import CarmaConfig, default_layers
from interp_compose.training.config import TrainConfig
from interp_compose.training.paper_settings import PaperTask

FOLDER = Path(__file__).parent / "_generated"
NOTICE = "<!-- written by `python -m docs.tables`; do not edit -->\n\n"
TFLOPS_25 = 25e12
PAPER_COMMANDS = (
    *("phases --paper fig3", "phases --paper fig3-code", "phases --paper fig4"),
    "speed --paper fig8",
)
"""Of complexity control's settings on anchor functions."""
SPLITS = ("train", "validation", "test")


def paper_models() -> str:
    """CARMA's models, and where its authors began to pool."""
    heads = ["in the paper", "hub name", "class", "layers", "the authors' start layers"]
    rows = [
        [
            one.label,
            f"`{one.hub_name}`",
            f"`{one.architecture}`",
            str(one.n_layers),
            " ".join(map(str, one.start_layers)) or "none released",
        ]
        for one in PAPER_MODELS
    ]
    return NOTICE + table(heads, rows)


def carma_settings() -> str:
    """What appendix B.3 sets for CARMA's models and tasks, and the layers that are the default."""
    tasks: tuple[PaperTask, ...] = ("idm", "sst")
    rows = []
    for one in PAPER_MODELS:
        settings = []
        for task in tasks:
            carma = CarmaConfig.from_paper(one.label, task)
            train = TrainConfig.from_paper(one.label, task)
            trained = f"{train.batch_size} × {train.epochs}"
            settings.append((str(carma.weight), _acts_on(carma, one.n_layers), trained))
        default = _span(default_layers(one.n_layers))
        start = [one.label, f"`{one.hub_name}`", str(one.n_layers), default]
        rows.append([*start, *settings[0], *settings[1]])
    heads = ["in the paper", "hub name", "layers", "default here"]
    for name in ("IDM", "SC"):
        heads += [f"{name}: λ", f"{name}: acts on", f"{name}: batch × epochs"]
    return NOTICE + table(heads, rows)


def _acts_on(carma: CarmaConfig, n_layers: int) -> str:
    stated = carma.resolved(n_layers)
    mi, stability = _span(stated.layers), _span(stated.stability_layers)
    return mi if mi == stability else f"MI {mi}, stability {stability}"


def _span(ends: tuple[int, int]) -> str:
    return "{}–{}".format(*ends)


def prompts() -> str:
    """The prompt of every model family and kind of task."""
    rows = [
        [f"`{family}`", f"`{of_kind['idm']}`", f"`{of_kind['sst']}`"]
        for family, of_kind in TEMPLATES.items()
    ]
    return NOTICE + table(["class", "`idm`, `mini-idm`", "`sst`, `mini-sst`"], rows)


def shipped_tasks() -> str:
    """How many examples the shipped tasks have, before any tokenizer is asked."""
    splits = mini_idm.splits()
    every = mini_idm.definitions()
    sentences = mini_sst.sentences()
    rows = [
        ["`mini-idm`", *(str(len(splits[split])) for split in SPLITS)],
        ["`mini-sst`", *(str(len(sentences[split])) for split in SPLITS)],
    ]
    families = Counter(one.family for one in every)
    shown = ((name, str(n), _one_of(every, name)) for name, n in families.items())
    return (
        NOTICE
        + table(["task", *SPLITS], rows)
        + f"\n`mini-idm` has {len({one.skeleton for one in every})} skeletons and "
        + f"{len({one.answer for one in every})} answers, in {len(families)} families:\n\n"
        + table(["family", "definitions", "for example"], shown)
    )


def _one_of(every: Sequence[mini_idm.Definition], family: str) -> str:
    first = next(one for one in every if one.family == family)
    return f"*{first.text}* → **{first.answer}**"


def help_of(command: str) -> str:
    """What ``interp-compose {command} --help`` prints, 80 columns wide."""
    printed = io.StringIO()
    with (
        patch.dict(os.environ, {"COLUMNS": "80"}),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),
    ):
        interp_compose([command, "--help"])
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines()) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; numbers below 0 with a minus, and with "to" in a range."""
    lines = [heads, *([_signed(cell) for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(heads))
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _signed(cell: str) -> str:
    return re.sub(r"(−[\d.]+)–", r"\1 to ", re.sub(r"(?<![\w-])-(?=\d)", "−", cell))


def carma_outcomes(task: str) -> str:
    """What the comparison found on a shipped task."""
    return NOTICE + table(*carma_results.outcomes(task))


def carma_stability() -> str:
    """Variation over seeds and improvements, by task."""
    return _per_task(carma_results.stability)


def carma_protocols() -> str:
    """CARMA's gain under CAP, by task, layer and pooling."""
    return _per_task(carma_results.poolings)


def carma_representations() -> str:
    """What CARMA does to residual streams, by task and layer."""
    return _per_task(carma_results.representations)


def _per_task(rows: Callable[[str], Table]) -> str:
    parts = (f"`{task}`\n\n{table(*rows(task))}" for task in carma_results.TASKS)
    return NOTICE + "\n".join(parts)


def carma_watched() -> str:
    """Complexity and CAP, before and after both trainings."""
    return NOTICE + table(*carma_results.watched(carma_results.TASKS[0]))


def anchors_watched() -> str:
    """What pooling leaves in models on anchor functions, and their stable rank."""
    return NOTICE + table(*watch_results.anchors())


def watch_cost() -> str:
    """What looks take of a training."""
    return NOTICE + table(*watch_results.cost())


def carma_controls() -> str:
    """CARMA's gain under CAP and under the controls."""
    return NOTICE + table(*carma_results.controls(carma_results.TASKS[0]))


def carma_search() -> str:
    """The search for a better setting, whole."""
    task = carma_results.TASKS[0]
    searched, held_out = carma_results.search(task), carma_results.held_out(task)
    seeds = f"{carma_results.search_choice(task)}\n\nOn the held-out seeds:"
    return NOTICE + table(*searched) + f"\n{seeds}\n\n" + table(*held_out)


def compared_with_authors(part: str, rows: Callable[[], Table]) -> str:
    """The released code compared with the library, and how that was measured."""
    return NOTICE + table(*rows()) + f"\n{authors_results.conditions(part)}\n"


def carma_dose() -> str:
    """Words that the synonym replacement asked for, and reached."""
    return NOTICE + table(*carma_results.dose())


def carma_gains() -> str:
    """CARMA's gain under CAP by layer and task."""
    return NOTICE + table(*carma_results.gains())


def carma_labels() -> str:
    """Sentiment over the vocabulary and among the labels."""
    return NOTICE + table(*carma_results.labels())


def audits_without_row() -> str:
    """The classes that TransformerLens names and no audit was made of."""
    return NOTICE + table(*audits.without_row())


def leaks() -> str:
    """What an attention mask lets through, by model and mode."""
    return NOTICE + table(*circuit_results.leaks())


def transplants(name: str) -> str:
    """What transplants carry, by pooling and layer."""
    return NOTICE + table(*transplant_results.transplants(name))


def transplants_anchors() -> str:
    """What transplanted chains carry in models of two phases."""
    models = transplant_results.ANCHOR_MODELS
    return NOTICE + table(*transplant_results.of_models(models, "γ (phase)"))


def transplants_scan() -> str:
    """What transplanted phrases carry in decoders of SCAN."""
    models = transplant_results.SCAN_MODELS
    return NOTICE + table(*transplant_results.of_models(models, "γ"))


def phases(setting: str) -> str:
    """The phase of every cell of a diagram."""
    return NOTICE + table(*phase_results.phases(setting))


def phase_cells(setting: str) -> str:
    """Everything measured of every cell of a diagram."""
    return NOTICE + table(*phase_results.every_cell(setting))


def phase_circuits(setting: str, weight_decay: float) -> str:
    """What masks show along the init rate."""
    return NOTICE + table(*phase_results.circuits(setting, weight_decay))


def phase_seeds(name: str) -> str:
    """Three init rates over five seeds."""
    return NOTICE + table(*phase_results.seeds(name))


def phase_orders(name: str) -> str:
    """Whether embeddings of numbers are in order."""
    return NOTICE + table(*phase_results.orders(name))


def phase_onsets() -> str:
    """Which came first, reasoning or condensation."""
    return NOTICE + table(*phase_results.onsets())


def post_ln() -> str:
    """What moves the post-LN model."""
    return NOTICE + table(*phase_results.post_ln())


def shuffled_draws() -> str:
    """What pooling words loses more than other spans do, over several draws of these."""
    return NOTICE + table(*cap_results.shuffled_draws())


def unseen_sum() -> str:
    """Whether an unseen pair's sum decides what it is answered."""
    return NOTICE + table(*phase_results.unseen_sum())


def phase_answers(norm: str) -> str:
    """What models answer to unseen pairs."""
    return NOTICE + table(*phase_results.answers(norm))


def paper_runs() -> str:
    """What the settings of complexity control's paper would take, by estimate."""
    rows = []
    for command in PAPER_COMMANDS:
        run, axes = paper_setting(command)
        runs = math.prod(map(len, axes.values()))
        depths = axes.get("depths", ())
        if not depths:
            rows.append(_paper_run(command, runs, run))
        for depth in map(int, depths):
            of_depth = replace(run, n_layers=depth)
            rows.append(_paper_run(f"{command} --depths {depth}", runs // len(depths), of_depth))
    heads = ["`interp-compose`", "runs", "training sequences", "steps", "FLOP a run"]
    return NOTICE + table([*heads, "FLOP in all", "hours at 25 TFLOP/s"], rows)


def paper_setting(command: str) -> tuple[PhaseRun, dict[str, tuple[float, ...]]]:
    """The run that a command on anchor functions states, and the values of each axis."""
    options = _parsed(command.split())
    axes = {
        name: tuple(numbers(vars(options)[name], name))
        for name in ("gammas", "weight_decays", "depths", "violations")
        if name in vars(options)
    }
    seeds = tuple(float(seed) for seed in range(options.grid.seeds))
    return run_of(options.run, options.preset()), {**axes, "seeds": seeds}


def _paper_run(command: str, runs: int, run: PhaseRun) -> list[str]:
    hours = runs * run.flops / TFLOPS_25 / 3600
    sizes = [f"{run.samples:,}", f"{run.steps:,}"]
    flops = [f"{value:.1e}".replace("e+", "e") for value in (run.flops, runs * run.flops)]
    told = f"{hours:.0f}" if hours >= 10 else f"{hours:.1f}"
    return [f"`{command}`", str(runs), *sizes, *flops, told]


def generalise_cost() -> str:
    """What a training step of an encoder–decoder costs."""
    return NOTICE + table(*generalise_results.cost())


def generalise_decoding() -> str:
    """Tokens per second beside Hugging Face's."""
    return NOTICE + table(*generalise_results.decoding())


def generalised(name: str) -> str:
    """What encoder–decoders got right, and over training where the file says it."""
    text = NOTICE + table(*generalise_results.accuracy(name))
    if curves := generalise_results.curves(name):
        n = len({row["seed"] for row in generalise_results.read(name)["curve"]})
        told = "one seed" if n == 1 else f"means over {n} seeds"
        text += f"\nOver training, of a sample, {told}:\n\n{table(*curves)}"
    return text


def fusion_cap(name: str) -> str:
    """What is left of sequences when phrases are pooled, by model and layer."""
    return NOTICE + table(*generalise_results.pooled(name))


def fusion_layers(name: str) -> str:
    """What probes read from each residual of the encoder."""
    return NOTICE + table(*generalise_results.layers(name))


def fusion_cuts() -> str:
    """What is left without an earlier layer in fuse-attention, and what its heads read, of the
    tasks whose file says it."""
    text = NOTICE + table(*generalise_results.cuts())
    for name in ("fusion_length", "fusion_cogs"):
        task = generalise_results.read(name)["config"]["grammar"].upper()
        found = generalise_results.heads(name)
        kept = f":\n\n{table(*found)}" if found else " and the entropy of it were not kept.\n"
        text += f"\n{task}: what heads read" + kept
    return text


def fusion_kinds() -> str:
    """Which tokens of COGS' logical forms are right."""
    return NOTICE + table(*generalise_results.kinds_of_tokens("fusion_cogs"))


def generalised_types(name: str, split: str) -> str:
    """What they got right of each type of a split."""
    return NOTICE + table(*generalise_results.by_type(name, split))


def generalised_pairs(name: str) -> str:
    """How every two of them differ."""
    return NOTICE + table(*generalise_results.pairs(name))


def beside_paper(part: Callable[[], Table]) -> str:
    """What CAT's paper prints, alone or beside what was measured."""
    return NOTICE + table(*part())


def encoders(part: Callable[[str], Table], name: str) -> str:
    """One of the tables of encoders that compose."""
    return NOTICE + table(*part(name))


CODES: dict[str, Callable[[str], Table]] = {
    "sememes": encoder_results.named_sememes,
    "again": partial(encoder_results.words_again, question="words"),
    "senses": partial(encoder_results.words_again, question="senses"),
    "phrases": encoder_results.words_of_phrases,
    "shared": encoder_results.shared_codes,
}
"""What is told of codes."""


def of_codes() -> dict[str, Callable[[], str]]:
    """The files of each result of codes that there is: ``codes_{name}_sememes.md``, …"""
    return {
        f"{path.stem}_{part}.md": partial(encoders, rows, path.stem)
        for path in sorted(RESULTS.glob("codes_*.json"))
        for part, rows in CODES.items()
    }


def decoders(name: str) -> str:
    """What decoders got right of a task, by size of the training set."""
    return NOTICE + table(*task_results.by_size(name))


def decoders_inside(name: str) -> str:
    """How they fit the training data, and their first layer's W_Q."""
    return NOTICE + table(*task_results.inside(name))


def decoders_opened(name: str, split: str) -> str:
    """What interventions leave of their accuracy."""
    return NOTICE + table(*task_results.opened(name, split))


def decoders_by_setting(name: str, split: str) -> str:
    """What decoders get right of a task at each setting."""
    return NOTICE + table(*task_results.by_setting(name, split))


def decoders_by_kind(name: str, split: str) -> str:
    """What decoders get right of each kind of a split."""
    return NOTICE + table(*task_results.by_kind(name, split))


def perplexities(name: str) -> str:
    """How well decoders predict held-out text."""
    return NOTICE + table(*task_results.perplexities(name))


def failures(name: str) -> str:
    """Whether diffusion models draw a triangle for a small circle."""
    return NOTICE + table(*task_results.failures(name))


def drawn(name: str) -> str:
    """What they draw for each node."""
    return NOTICE + table(*task_results.drawn(name))


def inside(name: str) -> str:
    """What was found inside them."""
    return NOTICE + table(*generalise_results.inside(name))


def speed_epochs(name: str) -> str:
    """How fast data are fitted that break the rule."""
    return NOTICE + table(*speed_results.epochs(name))


def speed_delays(name: str) -> str:
    """How much later than others, seed by seed."""
    return NOTICE + table(*speed_results.delays(name))


def speed_pairs(name: str, n_layers: int) -> str:
    """The same by pair of anchors."""
    return NOTICE + table(*speed_results.pairs(name, n_layers))


FILES: dict[str, Callable[[], str]] = {
    "paper_models.md": paper_models,
    "carma_settings.md": carma_settings,
    "prompts.md": prompts,
    "shipped_tasks.md": shipped_tasks,
    **{f"{name}_help.txt": partial(help_of, name) for name in (*COMMANDS, *ON_RESULTS)},
    "authors_cap.md": partial(compared_with_authors, "cap", authors_results.cap),
    "authors_losses.md": partial(compared_with_authors, "losses", authors_results.losses),
    "authors_anchors.md": partial(compared_with_authors, "steps", authors_results.anchors),
    "audits_without_row.md": audits_without_row,
    "leaks.md": leaks,
    "transplants_anchors.md": transplants_anchors,
    "transplants_scan.md": transplants_scan,
    "transplants_mini_idm.md": partial(transplants, "mini_idm"),
    "phases_pre.md": partial(phases, "pre"),
    "phase_cells_pre.md": partial(phase_cells, "pre"),
    "phase_circuits_pre.md": partial(phase_circuits, "pre", 0.01),
    "phase_circuits_pre_decayed.md": partial(phase_circuits, "pre", 1.0),
    "phase_circuits_post.md": partial(phase_circuits, "post", 0.01),
    "phase_circuits_post_decayed.md": partial(phase_circuits, "post", 1.0),
    "phase_seeds.md": partial(phase_seeds, "phase_seeds"),
    "phase_orders.md": partial(phase_orders, "phase_seeds"),
    "phase_seeds_post.md": partial(phase_seeds, "phase_seeds_post"),
    "phase_orders_post.md": partial(phase_orders, "phase_seeds_post"),
    "phase_onsets.md": phase_onsets,
    "phases_pre_unclipped.md": partial(phases, "pre_unclipped"),
    "phase_answers_pre.md": partial(phase_answers, "pre"),
    "phase_answers_post.md": partial(phase_answers, "post"),
    "phases_post.md": partial(phases, "post"),
    "phase_cells_post.md": partial(phase_cells, "post"),
    "post_ln.md": post_ln,
    "shuffled_draws.md": shuffled_draws,
    "unseen_sum.md": unseen_sum,
    "paper_runs.md": paper_runs,
    "speed.md": partial(speed_epochs, "fitting_speed"),
    "speed_delays.md": partial(speed_delays, "fitting_speed"),
    "speed_pairs.md": partial(speed_pairs, "fitting_speed", 2),
    "speed_post.md": partial(speed_epochs, "fitting_speed_post"),
    "speed_delays_post.md": partial(speed_delays, "fitting_speed_post"),
    "speed_pairs_post.md": partial(speed_pairs, "fitting_speed_post", 2),
    "generalise_cost.md": generalise_cost,
    "generalise_decoding.md": generalise_decoding,
    "generalise_length.md": partial(generalised, "generalise_scan_length_26"),
    "turn_left.md": partial(decoders, "task_phases_scan_turn_left"),
    "turn_left_inside.md": partial(decoders_inside, "task_phases_scan_turn_left"),
    "turn_left_opened.md": partial(decoders_opened, "inside_scan_turn_left", "test"),
    "cogs_decoders.md": partial(decoders, "task_phases_cogs"),
    "cogs_decoders_kinds.md": partial(decoders_by_kind, "task_phases_cogs", "gen"),
    "cogs_decoders_inside.md": partial(decoders_inside, "task_phases_cogs"),
    "encoders_minilm.md": partial(encoders, encoder_results.scores, "encoders_minilm"),
    "encoders_minilm_tuned.md": partial(encoders, encoder_results.tuned, "encoders_minilm_tuned"),
    "encoders_minilm_paws.md": partial(encoders, encoder_results.classified, "encoders_minilm"),
    "encoders_minilm_learned.md": partial(encoders, encoder_results.learned, "encoders_minilm"),
    "encoders_small.md": partial(encoders, encoder_results.scores, "encoders_small"),
    "encoders_every.md": partial(encoders, encoder_results.scores, "encoders_every"),
    **{
        f"{name}_{task}.md": partial(encoders, partial(encoder_results.classified, task=task), name)
        for name in ("encoders_small", "encoders_every")
        for task in ("paws-qqp", "sst")
    },
    "encoders_small_shares.md": partial(
        encoders, partial(encoder_results.by_share, task="sst"), "encoders_small"
    ),
    "encoders_small_learned.md": partial(encoders, encoder_results.learned, "encoders_small"),
    "encoders_every_learned.md": partial(encoders, encoder_results.learned, "encoders_every"),
    "cat_pooled.md": partial(
        encoders, partial(encoder_results.words_pooled, embedding="mean"), "cat_pooled"
    ),
    "cat_complexity.md": partial(encoders, encoder_results.complexity, "cat_pooled"),
    "cat_watched.md": partial(encoders, watch_results.ends, "cat_watched"),
    "lrf_watched.md": partial(encoders, watch_results.ends, "lrf_watched"),
    "every_block.md": partial(encoders, encoder_results.every_block, "every_block"),
    "cat_printed.md": partial(beside_paper, cat_paper.printed),
    "cat_beside.md": partial(
        beside_paper, partial(cat_paper.beside, "encoders_minilm", "bert", "cat-last")
    ),
    "cat_beside_small.md": partial(
        beside_paper, partial(cat_paper.beside, "encoders_small", "bert", "cat-last")
    ),
    "cat_beside_tuned.md": partial(
        beside_paper, partial(cat_paper.beside, "encoders_minilm_tuned", "bert", "cat-last")
    ),
    **of_codes(),
    "encoder_steps.md": partial(encoders, encoder_results.steps, "encoder_steps_cpu"),
    "encoder_memory.md": partial(encoders, encoder_results.memory, "encoder_memory_cpu"),
    "proofs.md": partial(decoders, "task_phases_prontoqa_1"),
    "proofs_inside.md": partial(decoders_inside, "task_phases_prontoqa_1"),
    "addition.md": partial(decoders_by_setting, "task_phases_addition_99", "inside"),
    "addition_inside.md": partial(decoders_inside, "task_phases_addition_99"),
    "addition_opened.md": partial(decoders_opened, "inside_addition_99", "inside"),
    "fine_tuned.md": partial(decoders_by_setting, "task_phases_addition_99_mini_base", "inside"),
    "text_perplexity.md": partial(perplexities, "text_phases_text"),
    "concepts_failure.md": partial(failures, "concept_graphs"),
    "concepts_drawn.md": partial(drawn, "concept_graphs"),
    "generalise_jump.md": partial(generalised, "generalise_scan_jump"),
    "generalise_jump_pairs.md": partial(generalised_pairs, "generalise_scan_jump"),
    "generalise_cogs.md": partial(generalised, "generalise_cogs"),
    "generalise_cogs_types.md": partial(generalised_types, "generalise_cogs", "gen"),
    "fusion_cogs.md": fusion_kinds,
    "generalise_turn_left.md": partial(generalised, "generalise_scan_turn_left"),
    "generalise_turn_left_pairs.md": partial(generalised_pairs, "generalise_scan_turn_left"),
    "generalise_length_pairs.md": partial(generalised_pairs, "generalise_scan_length_26"),
    "fusion_length.md": partial(inside, "fusion_length"),
    "fusion_length_cap.md": partial(fusion_cap, "fusion_length"),
    "fusion_cogs_cap.md": partial(fusion_cap, "fusion_cogs"),
    "fusion_length_layers.md": partial(fusion_layers, "fusion_length"),
    "fusion_cogs_layers.md": partial(fusion_layers, "fusion_cogs"),
    "fusion_cuts.md": fusion_cuts,
    "carma_mini_idm.md": partial(carma_outcomes, "mini-idm"),
    "carma_mini_sst.md": partial(carma_outcomes, "mini-sst"),
    "carma_stability.md": carma_stability,
    "carma_protocols.md": carma_protocols,
    "carma_representations.md": carma_representations,
    "carma_dose.md": carma_dose,
    "carma_gains.md": carma_gains,
    "carma_labels.md": carma_labels,
    "carma_controls.md": carma_controls,
    "anchors_watched.md": anchors_watched,
    "carma_watched.md": carma_watched,
    "watch_cost.md": watch_cost,
    "carma_search.md": carma_search,
}


def verdicts() -> str:
    """Every testable claim of the papers, with a verdict."""
    return NOTICE + verdict_page.page(table)


def panels() -> str:
    """Each panel of complexity control's Figs 6 and 7 beside ours."""
    return NOTICE + panel_page.page(table)


PAGES: dict[str, Callable[[], str]] = {"verdicts.md": verdicts, "panels.md": panels}
"""Whole pages, outside ``_generated/``."""


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(exist_ok=True)
    for folder, files in ((FOLDER, FILES), (FOLDER.parent, PAGES)):
        for name, text in files.items():
            temporary = folder / f".{name}.tmp"
            temporary.write_text(text(), encoding="utf-8")
            os.replace(temporary, folder / name)


if __name__ == "__main__":
    main()
