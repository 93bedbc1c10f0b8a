"""What phase diagrams, speeds of fitting and opened models say in sentences, of small tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from interp_compose.papers.complexity.studies.anchors.phase import cells_of
from interp_compose.papers.complexity.studies.fitting_speed import reading as of_speed
from interp_compose.papers.complexity.studies.mechanism import reading as of_mechanism
from interp_compose.papers.complexity.studies.phases import reading as of_phases
from interp_compose.papers.complexity.studies.phases.result import PhaseDiagram
from interp_compose.stats.seeds import holm, paired_difference
from interp_compose.studies.core.report import report_page
from tests.papers.complexity.studies.test_complexity_phase import runs as of_phase

NAN = float("nan")

# ---- phase diagrams ---


def cells(*accuracies: list[float]) -> pd.DataFrame:
    """A cell for each list, of a run for each accuracy on unseen pairs; NaN: diverged."""
    flat = [
        (0.1 * (i + 1), seed, x) for i, row in enumerate(accuracies) for seed, x in enumerate(row)
    ]
    rates, seeds, ood = (list(column) for column in zip(*flat, strict=True))
    sound = [not np.isnan(x) for x in ood]
    known = [x if is_sound else 0.0 for x, is_sound in zip(ood, sound, strict=True)]
    return cells_of(of_phase(init_rate=rates, seed=seeds, ood=known, finite=sound))


START = "Decoders answer unseen pairs (phase 3: an accuracy above 0.5) in "
NO_TEST = " No test is made: a phase is that of the mean over seeds."
PHASES = {
    "all, and every seed": (
        [[0.9, 0.8], [0.6, 0.7]],
        f"{START}2 of 2 cells, 2 of them in every seed by itself; the best accuracy is 0.850 "
        f"(0.800 to 0.900 over 2 seeds), at γ 0.1 and weight decay 0.1.{NO_TEST}",
    ),
    "the mean, and not every seed": (
        [[0.9, 0.4], [0.1, 0.2], [NAN, NAN]],
        f"{START}1 of 2 cells (1 more have diverged), none of them in every seed by itself; the "
        f"best accuracy is 0.650 (0.400 to 0.900 over 2 seeds), at γ 0.1 and weight decay 0.1."
        f"{NO_TEST}",
    ),
    "at the threshold": (
        [[0.5, 0.5]],
        f"{START}none of 1 cell; the best accuracy is 0.500 (0.500 to 0.500 over 2 seeds), at γ "
        f"0.1 and weight decay 0.1.{NO_TEST}",
    ),
    "one seed": (
        [[0.9], [0.2]],
        f"{START}1 of 2 cells; the best accuracy is 0.900 (one seed), at γ 0.1 and weight decay "
        "0.1. One seed: by how much another would differ is not known.",
    ),
    "all diverged": (
        [[NAN, NAN]],
        "Whether decoders answer unseen pairs (phase 3: an accuracy above 0.5) is not known: every "
        "run has diverged.",
    ),
}


@pytest.mark.parametrize("case", PHASES)
def test_phases_in_a_sentence(case: str) -> None:
    accuracies, sentence = PHASES[case]
    assert of_phases.answers(cells(*accuracies)) == [sentence]


def test_a_diagram_begins_with_it() -> None:
    diagram = PhaseDiagram(config={}, frames={"runs": of_phase(ood=[0.9, 0.8])}, versions={})
    (sentence,) = of_phases.answers(diagram.cells)
    assert diagram.sentences()[0] == sentence == diagram.summary().splitlines()[0]


def test_a_diagram_of_one_cell_is_a_table_on_its_page() -> None:
    diagram = PhaseDiagram(config={}, frames={"runs": of_phase(ood=[0.9, 0.8])}, versions={})
    ((decay, rate),) = diagram.cells[["weight_decay", "init_rate"]].to_numpy().tolist()
    shown = f"<tr><th></th><th>{rate:g}</th></tr></thead><tbody><tr><td>{decay:g}</td><td>3</td>"
    assert shown in report_page(diagram, {}, {})
    assert shown in diagram._repr_html_()


# ---- how fast data that break the rule are fitted ---

ACT = "Breaking the rule"


def speed(*cells: tuple[int, list[float], float]) -> pd.DataFrame:
    """Of numbers of violating groups, epochs by seed, and the area (its spread is .02)."""
    rows: list[dict[str, Any]] = [
        {
            **{"init_rate": 0.8, "n_layers": 2, "violations": groups, "seed": seed},
            **{"accuracy_epochs": epoch, "auc": area + 0.02 * (seed % 2) if groups else NAN},
        }
        for groups, epochs, area in cells
        for seed, epoch in enumerate(epochs)
    ]
    return pd.DataFrame(rows)


def around(middle: float, spread: float, n: int = 6) -> list[float]:
    return [float(middle + spread * (-1) ** i) for i in range(n)]


WITHOUT = (0, [10.0] * 6, NAN)
SPEED = {
    "longer": (
        [WITHOUT, (1, around(20, 1), 0.69)],
        f"{ACT} raises {of_speed.FITTED} at γ 0.8, 2 layers, 1 violating group, by 10.0 epochs "
        "[8.85, 11.1] (95 %).",
        f"The {of_speed.AREA[4:]} is above chance at γ 0.8, 2 layers, 1 violating group, by 0.20 "
        "[0.19, 0.21] (95 %).",
    ),
    "within an epoch, and below chance": (
        [WITHOUT, (3, around(10, 0.5), 0.29)],
        f"{ACT} changes {of_speed.FITTED} nowhere by more than 1 epoch: most at γ 0.8, 2 "
        "layers, 3 violating groups, where it is between 0.57 epochs less and 0.57 more than "
        "without (95 %).",
        f"The {of_speed.AREA[4:]} is below chance at γ 0.8, 2 layers, 3 violating groups, by 0.20 "
        "[0.19, 0.21] (95 %).",
    ),
    "open, and within the margin": (
        [WITHOUT, (1, around(11, 4), 0.49)],
        f"Whether breaking the rule changes {of_speed.FITTED} is open at γ 0.8, 2 layers, 1 "
        "violating group: between 3.60 epochs less and 5.60 more than without (95 %); about 127 "
        "seeds would decide it, were it as measured.",
        f"The {of_speed.AREA[4:]} is nowhere further than 0.05 from chance: most at γ 0.8, 2 "
        "layers, 1 violating group, where it is between 0.01 less and 0.01 more than chance "
        "(95 %).",
    ),
    "never fitted": (
        [WITHOUT, (1, [20.0, NAN, 21.0, 20.0, 22.0, 23.0], 0.69)],
        f"Whether breaking the rule changes {of_speed.FITTED} is not known: there is no interval "
        "of 6 seeds; not tested in 1 cell, where a run never fitted its data or diverged, or all "
        "seeds differ by the same.",
        None,
    ),
    "all seeds alike": (
        [WITHOUT, (1, [13.0] * 6, 0.69)],
        f"Whether breaking the rule changes {of_speed.FITTED} is not known: there is no interval "
        "of 6 seeds; not tested in 1 cell, where a run never fitted its data or diverged, or all "
        "seeds differ by the same.",
        None,
    ),
    "one seed": (
        [(0, [10.0], NAN), (1, [13.0], 0.7)],
        f"Whether breaking the rule changes {of_speed.FITTED} is not known: there is no interval "
        "of 1 seed.",
        f"Whether the {of_speed.AREA[4:]} differs from chance is not known: there is no interval "
        "of 1 seed.",
    ),
    "nothing without": (
        [(1, around(10, 1), 0.69)],
        f"Whether breaking the rule changes {of_speed.FITTED} is not known: no run is without it.",
        None,
    ),
}


@pytest.mark.parametrize("case", SPEED)
def test_speeds_in_sentences(case: str) -> None:
    places, epochs, area = SPEED[case]
    found = of_speed.answers(speed(*places))
    assert found[0] == epochs
    assert area is None or found[1] == area


def test_speeds_are_corrected_over_cells_and_paired_by_seed() -> None:
    without, with_one, with_two = around(10, 3), around(12, 3.5), around(25, 1)
    runs = speed((0, without, NAN), (1, with_one, 0.69), (2, with_two, 0.69))
    each = [paired_difference(epochs, without) for epochs in (with_one, with_two)]
    corrected = holm([one.p for one in each])
    rows = [row for _, *row in of_speed.slower(runs)]
    assert [(one - other).mean() for one, other in rows] == pytest.approx([2, 15])
    assert max(corrected) < 0.05
    assert of_speed.answers(runs)[0] == (
        f"{ACT} raises {of_speed.FITTED} in 2 of 2 cells, most at γ 0.8, 2 layers, 2 violating "
        f"groups, by 15.0 epochs [{each[1].ci_low:.1f}, {each[1].ci_high:.1f}] (95 %)."
    )
    assert of_speed.answers(speed(WITHOUT)) == []


# ---- the order of numbers ---


def orders(*rows: tuple[float, int, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["init_rate", "step", "distance", "distance_p"])


MODELS = pd.DataFrame({"init_rate": [0.4, 0.8], "phase": ["1", "3"]})
MECHANISM = {
    "one of two": (
        [(0.4, 1, 1.0, 0.5), (0.4, 3, 0.99, 0.2), (0.8, 1, 0.7, 0.001), (0.8, 3, 0.62, 0.001)],
        "Embeddings of numbers a step apart are nearer than in random orders at γ 0.8 (phase 3) "
        "for 2 of 2 steps, nearest 3 apart (0.62 of the distance in random orders, p 0.0040); it "
        "is not established at γ 0.4 (phase 1); p by Holm over 4 tests.",
    ),
    "none after Holm's correction": (
        [(0.4, 1, 0.98, 0.03), (0.8, 1, 0.97, 0.04)],
        "That embeddings of numbers a step apart are nearer than in random orders is not "
        "established at γ 0.4 (phase 1), γ 0.8 (phase 3): the smallest p is that of 1 apart (0.98 "
        "of the distance in random orders, p 0.060); p by Holm over 2 tests.",
    ),
    "both": (
        [(0.4, 1, 0.9, 0.001), (0.8, 1, 0.8, 0.002)],
        "Embeddings of numbers a step apart are nearer than in random orders at γ 0.4 (phase 1) "
        "for 1 of 1 step, nearest 1 apart (0.90 of the distance in random orders, p 0.0020); at γ "
        "0.8 (phase 3) for 1 of 1 step, nearest 1 apart (0.80 of the distance in random orders, p "
        "0.0020); p by Holm over 2 tests.",
    ),
}


@pytest.mark.parametrize("case", MECHANISM)
def test_orders_in_a_sentence(case: str) -> None:
    rows, sentence = MECHANISM[case]
    assert of_mechanism.answers(MODELS, orders(*rows)) == [sentence]


def test_without_orders_nothing_is_said() -> None:
    assert of_mechanism.answers(MODELS, orders()) == []
