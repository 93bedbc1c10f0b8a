"""One script per speed claim; results/ holds what was measured."""
