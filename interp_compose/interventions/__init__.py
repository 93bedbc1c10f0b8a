"""Interventions: edits of a run of a :class:`~interp_compose.models.lens_model.LensModel`."""
