"""Interventions: edits of a run, on the :class:`~interp_compose.types.HookedModel` protocol."""
