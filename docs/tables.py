"""Generates what the pages show of the package itself, each a file in ``_generated/``, and the
pages of verdicts and panels.

Run with ``python -m docs.tables``. The table of architectures is :mod:`docs.architectures`.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pandas as pd

from docs import (
    audits,
    authors_results,
    carma_results,
    cat_paper,
    encoder_results,
    finding_page,
    generalise_results,
    intervention_results,
    measured,
    natural_results,
    panel_page,
    phase_results,
    speed_page,
    speed_results,
    task_results,
    verdict_page,
    watch_results,
)
from docs.measured import RESULTS, Cell, Table, frame, listed, markdown, table
from interp_compose.cli import COMMANDS, NOT_MEASURING, _parsed, main as interp_compose
from interp_compose.papers.complexity.studies.anchors.grid import run_of
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.studies.cap.reading import READINGS, Reading
from interp_compose.studies.core.decided import ABOVE, BELOW, NEAR
from interp_compose.studies.core.grid import numbers
from interp_compose.tasks.mini import idm as mini_idm, sst as mini_sst
from interp_compose.tasks.prompts import PAPER_MODELS, TEMPLATES
from interp_compose.tasks.table import names_of
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


def fragment(*parts: str | Table) -> str:
    """The text of a file: tables, and what is written between them."""
    texts = [part if isinstance(part, str) else markdown(*part) for part in parts]
    return NOTICE + "\n".join(texts)


def alone(rows: Callable[[], Table]) -> str:
    """The text of a file of one table."""
    return fragment(rows())


def paper_models() -> Table:
    """CARMA's models, and where its authors began to pool."""
    columns: dict[str, Cell] = {
        "in the paper": "{label}",
        "hub name": "`{hub_name}`",
        "class": "`{architecture}`",
        "layers": "{n_layers}",
        "the authors' start layers": lambda row: (
            " ".join(map(str, row["start_layers"])) or "none released"
        ),
    }
    return table(pd.DataFrame(map(asdict, PAPER_MODELS)), columns)


def carma_settings() -> Table:
    """What appendix B.3 sets for CARMA's models and tasks, and the layers that are the default."""
    rows = []
    for model in PAPER_MODELS:
        row = {
            "in the paper": model.label,
            "hub name": f"`{model.hub_name}`",
            "layers": str(model.n_layers),
            "default here": _span(default_layers(model.n_layers)),
        }
        tasks: dict[str, PaperTask] = {"IDM": "idm", "SC": "sst"}
        for name, task in tasks.items():
            carma = CarmaConfig.from_paper(model.label, task)
            train = TrainConfig.from_paper(model.label, task)
            row[f"{name}: λ"] = str(carma.weight)
            row[f"{name}: acts on"] = _acts_on(carma, model.n_layers)
            row[f"{name}: batch × epochs"] = f"{train.batch_size} × {train.epochs}"
        rows.append(row)
    return listed(rows)


def _acts_on(carma: CarmaConfig, n_layers: int) -> str:
    stated = carma.resolved(n_layers)
    mi, stability = _span(stated.layers), _span(stated.stability_layers)
    return mi if mi == stability else f"MI {mi}, stability {stability}"


def _span(ends: tuple[int, int]) -> str:
    return "{}–{}".format(*ends)


def prompts() -> Table:
    """The prompt of every model family and kind of task."""
    kinds = {
        kind: ", ".join(f"`{name}`" for name in names_of("prompts") if name.endswith(kind))
        for kind in next(iter(TEMPLATES.values()))
    }
    return ["class", *kinds.values()], [
        [f"`{family}`", *(f"`{templates[kind]}`" for kind in kinds)]
        for family, templates in TEMPLATES.items()
    ]


def shipped_tasks() -> str:
    """How many examples the shipped tasks have, before any tokenizer is asked."""
    examples = {"`mini-idm`": mini_idm.splits(), "`mini-sst`": mini_sst.sentences()}
    counts = [
        {"task": task, **{split: len(splits[split]) for split in SPLITS}}
        for task, splits in examples.items()
    ]
    definitions = mini_idm.definitions()
    parts = ("family", "text", "answer", "skeleton")
    rows = pd.DataFrame({part: [getattr(each, part) for each in definitions] for part in parts})
    families = rows.groupby("family", sort=False).first()
    families["n"] = rows["family"].value_counts()
    columns = {"family": "{family}", "definitions": "{n}", "for example": "*{text}* → **{answer}**"}
    return fragment(
        listed(counts),
        f"`mini-idm` has {rows['skeleton'].nunique()} skeletons and "
        f"{rows['answer'].nunique()} answers, in {len(families)} families:\n",
        table(families.reset_index(), columns),
    )


SPLITS = ("train", "validation", "test")


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


def per_task(rows: Callable[[str], Table]) -> str:
    """A table for each of the shipped tasks."""
    parts = [(f"`{task}`\n", rows(task)) for task in carma_results.TASKS]
    return fragment(*(part for both in parts for part in both))


def carma_search() -> str:
    """The search for a better setting, whole."""
    task = carma_results.TASKS[0]
    chosen = f"{carma_results.search_choice(task)}\n\nOn the held-out seeds:\n"
    return fragment(carma_results.search(task), chosen, carma_results.held_out(task))


def compared_with_authors(part: str, rows: Callable[[], Table]) -> str:
    """The released code compared with the library, and how that was measured."""
    return fragment(rows(), f"{authors_results.conditions(part)}\n")


def paper_runs() -> Table:
    """What the settings of complexity control's paper would take, by estimate."""
    rows = []
    for command in PAPER_COMMANDS:
        run, axes = paper_setting(command)
        n_runs = math.prod(map(len, axes.values()))
        depths = axes.get("depths", ())
        if not depths:
            rows.append(_paper_run(command, n_runs, run))
        for depth in map(int, depths):
            of_depth = replace(run, n_layers=depth)
            rows.append(_paper_run(f"{command} --depths {depth}", n_runs // len(depths), of_depth))
    return listed(rows)


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


def _paper_run(command: str, n_runs: int, run: PhaseRun) -> dict[str, str]:
    hours = n_runs * run.flops / TFLOPS_25 / 3600
    return {
        "`interp-compose`": f"`{command}`",
        "runs": str(n_runs),
        "training sequences": f"{run.samples:,}",
        "steps": f"{run.steps:,}",
        "FLOP a run": f"{run.flops:.1e}".replace("e+", "e"),
        "FLOP in all": f"{n_runs * run.flops:.1e}".replace("e+", "e"),
        "hours at 25 TFLOP/s": f"{hours:.0f}" if hours >= 10 else f"{hours:.1f}",
    }


def generalised(name: str) -> str:
    """What encoder–decoders got right, and over training where the file says it."""
    accuracy, curves = generalise_results.accuracy(name), generalise_results.curves(name)
    if curves is None:
        return fragment(accuracy)
    n_seeds = frame(name, "curve")["seed"].nunique()
    seeds = "one seed" if n_seeds == 1 else f"means over {n_seeds} seeds"
    return fragment(accuracy, f"Over training, of a sample, {seeds}:\n", curves)


def fusion_cuts() -> str:
    """What is left without an earlier layer in fuse-attention, and what its heads read, of the
    tasks whose file says it."""
    parts: list[str | Table] = [generalise_results.cuts()]
    for name in ("fusion_length", "fusion_cogs_exposed"):
        contents = measured.read(name)
        text = f"{contents['config']['grammar'].upper()}: what heads read"
        if "reads" in contents:
            parts += [f"{text}:\n", generalise_results.heads(name)]
        else:
            parts.append(f"{text} and the entropy of it were not kept.\n")
    return fragment(*parts)


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
        f"{path.stem}_{part}.md": partial(alone, partial(rows, path.stem))
        for path in sorted(RESULTS.glob("codes_*.json"))
        for part, rows in CODES.items()
    }


LAYERS_OF_30: Final = (0, 3, 6, 9, 12, 14, 16, 18, 20, 22, 24, 25, 26, 27, 29)
"""Of SmolLM2, of whose curves every layer that was measured is drawn."""

LAYERS_OF_PHRASES: Final = (0, 5, 10, 15, 20, 22, 23, 24, 25)
"""Of tables of several tasks."""

TABLES: dict[str, Callable[[], Table]] = {
    "paper_models": paper_models,
    "carma_settings": carma_settings,
    "prompts": prompts,
    "paper_runs": paper_runs,
    "audits_without_row": audits.without_row,
    "cap_agreement": partial(intervention_results.cap, "cap_agreement", LAYERS_OF_30),
    "cap_materials": partial(intervention_results.cap, "cap_materials", LAYERS_OF_30),
    "cap_continents": partial(intervention_results.cap, "cap_continents", LAYERS_OF_30),
    "translators_en_pt": partial(intervention_results.translators, "translators_en_pt"),
    "translators_pt_en": partial(intervention_results.translators, "translators_pt_en"),
    "translators_by_kind": partial(
        intervention_results.translators_by_kind,
        {
            "rare": "rare stems ({n_words} words)",
            "affix": "stems with affixes ({n_words})",
            "compound": "compounds ({n_words})",
            "reference": "all words, our translation",
        },
    ),
    **{
        f"translators_{study}_{name}": partial(of_study, f"translators_{study}_{name}")
        for study, of_study in (
            ("words", intervention_results.translators_words),
            ("read", intervention_results.translators_read),
        )
        for name in ("en_pt", "pt_en")
    },
    "ablation_agreement": partial(
        intervention_results.knocked_out, "ablation_agreement", LAYERS_OF_30
    ),
    "weights_smollm2": partial(intervention_results.weights, "weights_smollm2"),
    "heads_agreement": partial(intervention_results.heads, "heads_agreement", 0.03),
    "transplants_agreement": partial(
        intervention_results.transplants_by_type, "transplants_agreement", LAYERS_OF_30
    ),
    "foils": intervention_results.foils,
    **{
        f"cap_{task}": partial(intervention_results.cap, f"cap_{task}", LAYERS_OF_30)
        for task in intervention_results.FOIL_TASKS
    },
    "audits_real": partial(
        intervention_results.real_audits,
        {"smollm2": "SmolLM2-135M-Instruct (Q4_1)", "en_pt": "en-pt", "pt_en": "pt-en"},
    ),
    "bird_smollm2": partial(
        intervention_results.bird, (0, 1, 3, 6, 9, 12, 15, 18, 21, 24, 27, 29, 30)
    ),
    "compounds_by_answer": partial(
        intervention_results.compounds_by_answer,
        ("mean", "last", "first", "shuffled"),
        (0, 6, 12, 18, 24, 29),
    ),
    "leaks": intervention_results.leaks,
    "phrases_knocked_out": partial(natural_results.knocked_out, LAYERS_OF_PHRASES),
    "phrases_transplanted": partial(natural_results.transplanted, LAYERS_OF_PHRASES),
    **{
        name: partial(intervention_results.cap, name, LAYERS_OF_30)
        for name in ("cap_sst", "cap_sst_word", "cap_sst_constituent")
    },
    "cap_words": partial(intervention_results.cap, "cap_words"),
    "cap_words_by_task": partial(
        intervention_results.words_by_task, ("mean", "last", "straddling"), (0, 3, 6, 12, 24), 20
    ),
    "phrases_heads": partial(natural_results.heads, 3),
    "leaks_agreement": partial(intervention_results.leaks_by_text, "leaks_agreement"),
    "shuffled_draws": intervention_results.shuffled_draws,
    "transplants_mini_idm": partial(intervention_results.transplants, "mini_idm"),
    "transplants_anchors": intervention_results.transplants_anchors,
    "transplants_scan": intervention_results.transplants_scan,
    "phases_pre": partial(phase_results.phases, "pre"),
    "phases_pre_unclipped": partial(phase_results.phases, "pre_unclipped"),
    "phases_post": partial(phase_results.phases, "post"),
    "phases_fine": partial(phase_results.phases, "fine"),
    "phase_cells_pre": partial(phase_results.every_cell, "pre"),
    "phase_cells_post": partial(phase_results.every_cell, "post"),
    "phase_circuits_pre": partial(phase_results.circuits, "pre", 0.01),
    "phase_circuits_pre_decayed": partial(phase_results.circuits, "pre", 1.0),
    "phase_circuits_post": partial(phase_results.circuits, "post", 0.01),
    "phase_circuits_post_decayed": partial(phase_results.circuits, "post", 1.0),
    "phase_seeds": partial(phase_results.seeds, "phase_seeds"),
    "phase_seeds_post": partial(phase_results.seeds, "phase_seeds_post"),
    "phase_orders": partial(phase_results.orders, "phase_seeds"),
    "phase_orders_post": partial(phase_results.orders, "phase_seeds_post"),
    "phase_onsets": phase_results.onsets,
    "phase_answers_pre": partial(phase_results.answers, "pre"),
    "phase_answers_post": partial(phase_results.answers, "post"),
    "post_ln": phase_results.post_ln,
    "phase_samples_post": phase_results.samples_post,
    "unseen_sum": phase_results.unseen_sum,
    "speed": partial(speed_results.epochs, "fitting_speed"),
    "speed_post": partial(speed_results.epochs, "fitting_speed_post"),
    "speed_delays": partial(speed_results.delays, "fitting_speed"),
    "speed_delays_post": partial(speed_results.delays, "fitting_speed_post"),
    "speed_pairs": partial(speed_results.pairs, "fitting_speed", 2),
    "speed_pairs_post": partial(speed_results.pairs, "fitting_speed_post", 2),
    "turn_left": partial(task_results.by_size, "task_phases_scan_turn_left"),
    "turn_left_inside": partial(task_results.inside, "task_phases_scan_turn_left"),
    "turn_left_opened": partial(task_results.opened, "inside_scan_turn_left", "test"),
    "cogs_decoders": partial(task_results.by_size, "task_phases_cogs"),
    "cogs_decoders_kinds": partial(task_results.by_kind, "task_phases_cogs", "gen"),
    "cogs_decoders_inside": partial(task_results.inside, "task_phases_cogs"),
    "proofs": partial(task_results.by_size, "task_phases_prontoqa_1"),
    "proofs_inside": partial(task_results.inside, "task_phases_prontoqa_1"),
    "addition": partial(task_results.by_setting, "task_phases_addition_99", "inside"),
    "addition_inside": partial(task_results.inside, "task_phases_addition_99"),
    "addition_opened": partial(task_results.opened, "inside_addition_99", "inside"),
    "fine_tuned": partial(task_results.by_setting, "task_phases_addition_99_mini_base", "inside"),
    "text_perplexity": partial(task_results.perplexities, "text_phases_text"),
    "concepts_failure": partial(task_results.failures, "concept_graphs"),
    "concepts_drawn": partial(task_results.drawn, "concept_graphs"),
    "generalise_cost": generalise_results.cost,
    "generalise_decoding": generalise_results.decoding,
    "generalise_length_pairs": partial(generalise_results.pairs, "generalise_scan_length_26"),
    "generalise_turn_left_pairs": partial(generalise_results.pairs, "generalise_scan_turn_left"),
    "generalise_jump_pairs": partial(generalise_results.pairs, "generalise_scan_jump"),
    "generalise_cogs_exposures": partial(generalise_results.exposures, "generalise_cogs_exposures"),
    "generalise_cogs_types": partial(generalise_results.by_type, "generalise_cogs", "gen"),
    "fusion_length": partial(generalise_results.inside, "fusion_length"),
    "fusion_length_cap": partial(generalise_results.pooled, "fusion_length"),
    "fusion_length_layers": partial(generalise_results.layers, "fusion_length"),
    "fusion_cogs": partial(generalise_results.kinds_of_tokens, "fusion_cogs"),
    "fusion_cogs_cap": partial(generalise_results.pooled, "fusion_cogs_exposed"),
    "fusion_cogs_layers": partial(generalise_results.layers, "fusion_cogs_exposed"),
    "fusion_cogs_entangled": partial(generalise_results.entangled, "fusion_cogs_exposed"),
    "encoders_minilm": partial(encoder_results.scores, "encoders_minilm"),
    "encoders_minilm_tuned": partial(encoder_results.tuned, "encoders_minilm_tuned"),
    "encoders_minilm_paws": partial(encoder_results.classified, "encoders_minilm"),
    "encoders_small": partial(encoder_results.scores, "encoders_small"),
    "encoders_small_shares": partial(encoder_results.by_share, "encoders_small", "sst"),
    "encoders_every": partial(encoder_results.scores, "encoders_every"),
    **{
        f"{name}_{task}": partial(encoder_results.classified, name, task)
        for name in ("encoders_small", "encoders_every")
        for task in ("paws-qqp", "sst")
    },
    **{
        f"{name}_learned": partial(encoder_results.learned, name)
        for name in ("encoders_minilm", "encoders_small", "encoders_every")
    },
    "encoder_steps": encoder_results.steps,
    "encoder_memory": encoder_results.memory,
    "every_block": encoder_results.every_block,
    "toy_codes": encoder_results.toy_codes,
    "toy_text": encoder_results.toy_text,
    "cat_pooled": partial(encoder_results.words_pooled, "cat_pooled", "mean"),
    "cat_complexity": partial(encoder_results.complexity, "cat_pooled"),
    "cat_printed": cat_paper.printed,
    "cat_beside": partial(cat_paper.beside, "encoders_minilm", "bert", "cat-last"),
    "cat_beside_small": partial(cat_paper.beside, "encoders_small", "bert", "cat-last"),
    "cat_beside_tuned": partial(cat_paper.beside, "encoders_minilm_tuned", "bert", "cat-last"),
    "cat_watched": partial(watch_results.ends, "cat_watched"),
    "lrf_watched": partial(watch_results.ends, "lrf_watched"),
    "anchors_watched": watch_results.anchors,
    "watch_cost": watch_results.cost,
    "carma_mini_idm": partial(carma_results.outcomes, "mini-idm"),
    "carma_mini_sst": partial(carma_results.outcomes, "mini-sst"),
    "carma_smollm2": partial(carma_results.outcomes, "idm"),
    "carma_smollm2_controls": partial(carma_results.words_apart, "smollm2-idm"),
    "carma_smollm2_sst": partial(carma_results.outcomes, "sst"),
    "carma_dose": carma_results.dose,
    "carma_gains": carma_results.gains,
    "carma_labels": carma_results.labels,
    "carma_controls": partial(carma_results.controls, "mini-idm"),
    "carma_words_apart": partial(carma_results.words_apart, "mini-idm"),
    "carma_watched": partial(carma_results.watched, "mini-idm"),
}
"""Files of one table, without their ending."""
NEAR_CLEAN: Final = (NEAR, ABOVE)
SPANS: Final = {
    (): "any",
    **{(state,): state for state in (BELOW, NEAR, ABOVE)},
    (NEAR, ABOVE): "not below",
    (BELOW, NEAR): "not above",
}
"""How spans do against ``mean``, by the states that a reading allows."""


def cap_readings() -> str:
    """What each pattern of differences means, as the summary of a curve says it."""
    rows = [
        [
            "near" if one.mean == NEAR_CLEAN else "below",
            _alone(one),
            SPANS[one.spans],
            one.meaning.replace("{unit}", "word").replace("{which}", "that token"),
        ]
        for one in READINGS
    ]
    heads = ["`mean` against clean", "one token alone against clean", "spans against `mean`"]
    return markdown([*heads, "what it means"], rows)


def _alone(one: Reading) -> str:
    """How the better of the first and the last token does."""
    near = "near, both" if one.which else "near, of either"
    kept = {
        (): "",
        (ABOVE,): ", and below `mean`",
        (BELOW,): ", but above `mean`" if one.alone == (BELOW,) else ", and above `mean`",
        (NEAR, BELOW): ", and not below `mean`",
        (NEAR, ABOVE): ", and not above `mean`",
    }
    text = {(): "any", (BELOW,): "below, both"}.get(one.alone, near)
    return text + kept.get(one.kept, ", not apart from `mean`")


FILES: dict[str, Callable[[], str]] = {
    "cap_readings.md": cap_readings,
    **{f"{name}.md": partial(alone, rows) for name, rows in TABLES.items()},
    **{f"{name}_help.txt": partial(help_of, name) for name in (*COMMANDS, *NOT_MEASURING)},
    **of_codes(),
    "shipped_tasks.md": shipped_tasks,
    "authors_cap.md": partial(compared_with_authors, "cap", authors_results.cap),
    "authors_losses.md": partial(compared_with_authors, "losses", authors_results.losses),
    "authors_anchors.md": partial(compared_with_authors, "steps", authors_results.anchors),
    "generalise_length.md": partial(generalised, "generalise_scan_length_26"),
    "generalise_turn_left.md": partial(generalised, "generalise_scan_turn_left"),
    "generalise_jump.md": partial(generalised, "generalise_scan_jump"),
    "generalise_cogs.md": partial(generalised, "generalise_cogs"),
    "generalise_cogs_20_exposures.md": partial(generalised, "generalise_cogs_20_exposures"),
    "fusion_cuts.md": fusion_cuts,
    "carma_stability.md": partial(per_task, carma_results.stability),
    "carma_protocols.md": partial(per_task, carma_results.poolings),
    "carma_representations.md": partial(per_task, carma_results.representations),
    "carma_search.md": carma_search,
}


def verdicts() -> str:
    """Every testable claim of the papers, with a verdict."""
    return NOTICE + verdict_page.page(markdown)


def panels() -> str:
    """Each panel of complexity control's Figs 6 and 7 beside ours."""
    return NOTICE + panel_page.page()


def findings() -> str:
    """What was found here that no paper says."""
    return NOTICE + finding_page.page()


def speed() -> str:
    """How fast the library is, compared with what one would else use."""
    return NOTICE + speed_page.page()


PAGES: dict[str, Callable[[], str]] = {
    "verdicts.md": verdicts,
    "panels.md": panels,
    "findings.md": findings,
    "../benchmarks/speed.md": speed,
}
"""Whole pages, outside ``_generated/``."""


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(exist_ok=True)
    for folder, files in ((FOLDER, FILES), (FOLDER.parent, PAGES)):
        for name, text in files.items():
            temporary = (folder / name).with_suffix(".tmp")
            temporary.write_text(text(), encoding="utf-8")
            os.replace(temporary, folder / name)


if __name__ == "__main__":
    main()
