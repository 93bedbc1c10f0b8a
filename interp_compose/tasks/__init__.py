"""Tasks: prompts with the one token that should follow. Start at :func:`.load.load_task`."""
