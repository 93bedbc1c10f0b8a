"""What the runs of each study are called by on disk, and the function that does one.

A name stays when its function moves: a sweep that was made before is found by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PACKAGE: Final = "interp_compose.papers"
COMPLEXITY: Final = f"{PACKAGE}.complexity.studies"
WORKS: Final[Mapping[str, str]] = {
    "carma": f"{PACKAGE}.carma.run:run_in_worker",
    "anchors": f"{COMPLEXITY}.anchors.run:train",
    "fitting_speed": f"{COMPLEXITY}.fitting_speed.measure:train",
    "task_phases": f"{COMPLEXITY}.task_phases.measure",  # one by one, or several at a time
    "text_phases": f"{COMPLEXITY}.text_phases.measure",
    "concept_graphs": f"{COMPLEXITY}.concept_graphs.measure:train",
    "generalise": f"{PACKAGE}.lrf.studies.generalise.measure:train",
    "pretrain": f"{PACKAGE}.cat.studies.pretrain.measure:train",
    "encoders": f"{PACKAGE}.cat.studies.encoders.measure:judge",
}
