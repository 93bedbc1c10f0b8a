"""Interventions: edits of a run, on the :class:`~interp_compose._types.HookedModel` protocol."""
