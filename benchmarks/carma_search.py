"""Is there a setting at which CARMA beats plain fine-tuning? Run ``carma_search_mini_idm``; and at
which layers does it gain most? Run ``carma_layers_mini_idm`` (:func:`compared`).

``mini-base`` on a shipped task: every setting beside plain fine-tuning, paired by seed, on the
search seeds and the *validation* split, which no training looks at (they run to their end). The
setting with the largest mean gain in each of three measures is then run on held-out seeds and the
test split, on neither of which anything was chosen; these seeds are the ones that
``interp-compose carma`` uses by default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

import interp_compose as ic
from interp_compose.papers.carma.plan import CompareOptions, ComparePlan, plan_comparison
from interp_compose.papers.carma.run import (
    TRAIN,
    WORK,
    VersionRun,
    run_configs,
    run_version,
)
from interp_compose.papers.carma.synonyms.load import synonym_source
from interp_compose.runs.folder import SweepPlan
from interp_compose.runs.sweep import sweep
from interp_compose.stats.seeds import holm, paired_difference
from interp_compose.training.carma import CarmaConfig

CLAIMS = ("accuracy", "cap", "consist_syn")
"""The paper's: accuracy kept or raised, CAP accuracy raised (the mean over poolings and layers),
consistency under synonyms raised (at 25 %)."""


def measured(
    folder: Path,
    task: str,
    settings: Mapping[str, Mapping[str, Any]],
    search_seeds: Sequence[int],
    held_out_seeds: Sequence[int],
) -> dict[str, Any]:
    """All settings on the search seeds, and those that are chosen on the others."""
    configs = configs_of(settings)
    searched = table(rows_of(task, configs, search_seeds, folder, "validation"))
    chosen = sorted({best(searched, claim) for claim in CLAIMS})
    chosen_configs = {name: configs[name] for name in chosen}
    held_out = table(rows_of(task, chosen_configs, held_out_seeds, folder, "test"))
    held_out["p_holm"] = holm(held_out["p"].tolist())
    print(searched.to_string())
    print(held_out.to_string())
    return {
        "task": task,
        "settings": {name: dataclasses.asdict(config) for name, config in configs.items()},
        "chosen_on": "validation",
        "rates_of": "words of the text",
        "search_seeds": search_seeds,
        "held_out_seeds": held_out_seeds,
        "search": searched.to_dict("records"),
        "chosen": chosen,
        "held_out": held_out.to_dict("records"),
    }


def compared(
    folder: Path, task: str, settings: Mapping[str, Mapping[str, Any]], seeds: Sequence[int]
) -> dict[str, Any]:
    """Settings that nothing is chosen among, on the test split: values by seed, and differences
    from plain fine-tuning."""
    configs = configs_of(settings)
    rows = rows_of(task, configs, seeds, folder, "test")
    differences = table(rows)
    differences["p_holm"] = holm(differences["p"].tolist())
    print(differences.to_string())
    return {
        "task": task,
        "settings": {name: dataclasses.asdict(config) for name, config in configs.items()},
        "seeds": seeds,
        "gains": gains(rows).to_dict("records"),
        "values": rows.to_dict("records"),
        "differences": differences.to_dict("records"),
    }


def configs_of(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, CarmaConfig]:
    """CARMA's settings by name, from a run's file."""
    return {
        name: CarmaConfig(
            **{key: tuple(each) if isinstance(each, list) else each for key, each in one.items()}
        )
        for name, one in settings.items()
    }


def rows_of(
    task: str, settings: Mapping[str, CarmaConfig], seeds: Sequence[int], out: Path, split: str
) -> pd.DataFrame:
    """One row per setting (plain fine-tuning among them), seed and claim, measured on ``split``."""
    model = ic.load_model("mini-base")
    data = ic.load_task(task, model)
    data = dataclasses.replace(data, test=data.split(split))
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        for name, carma in {"ft": CarmaConfig(), **settings}.items():
            options = CompareOptions(seeds=[seed], carma=carma, synonyms="shipped", rates=(0.25,))
            plan = plan_comparison(model, data, options, partial(synonym_source, task=task))
            version = "ft" if name == "ft" else "carma"
            run = run_of(plan, version, out / _slug(name, seed))
            rows += [{"setting": name, "seed": seed, **row} for row in claims(run)]
            print(rows[-len(CLAIMS) :], flush=True)
    return pd.DataFrame(rows)


def run_of(plan: ComparePlan, version: str, out: Path) -> VersionRun:
    """A run of a comparison that is done alone, or was."""
    config = next(one for one in run_configs(plan) if one["version"] == version)
    done = sweep(
        SweepPlan(WORK, [config], function=TRAIN),
        lambda config, folder: run_version(plan, config, folder, progress=False),
        out,
        progress=False,
    )
    done.check()
    return VersionRun.load(done.folders[0])


def claims(run: VersionRun) -> list[dict[str, Any]]:
    """What one run says of each claim, in per cent."""
    accuracy, cap, synonyms = (run.frames[name] for name in ("accuracy", "cap", "synonyms"))
    shares = {
        "accuracy": (accuracy["n_correct"] / accuracy["n"]).iloc[0],
        "cap": (cap["n_correct"] / cap["n"]).mean(),
        "consist_syn": (synonyms["n_both"] / synonyms["n_before"]).iloc[0],
    }
    return [{"claim": claim, "value": 100 * float(share)} for claim, share in shares.items()]


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Setting minus plain fine-tuning, paired by seed, in percentage points."""
    wide = rows.pivot_table(index="seed", columns=["setting", "claim"], values="value")
    paired: list[dict[str, Any]] = []
    for setting in dict.fromkeys(rows["setting"]):
        if setting == "ft":
            continue
        for claim in CLAIMS:
            one = paired_difference(wide[setting, claim].to_numpy(), wide["ft", claim].to_numpy())
            paired.append({"setting": setting, "claim": claim, **dataclasses.asdict(one)})
    return pd.DataFrame(paired)


def gains(rows: pd.DataFrame) -> pd.DataFrame:
    """Each setting's value less plain fine-tuning's of the same seed, in percentage points."""
    plain = rows[rows["setting"] == "ft"].set_index(["seed", "claim"])["value"]
    others = rows[rows["setting"] != "ft"]
    places = pd.MultiIndex.from_frame(others[["seed", "claim"]])
    return others.assign(gain=others["value"].to_numpy() - plain.loc[places].to_numpy()).drop(
        columns="value"
    )


def best(searched: pd.DataFrame, claim: str) -> str:
    """The setting whose mean gain is largest."""
    rows = searched[searched["claim"] == claim]
    return str(rows.loc[rows["difference"].idxmax(), "setting"])


def _slug(name: str, seed: int) -> str:
    words = "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in name)
    return f"{words}-seed{seed}"
