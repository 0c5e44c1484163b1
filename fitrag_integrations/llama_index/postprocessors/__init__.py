"""Node postprocessors."""
