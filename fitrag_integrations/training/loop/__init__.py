"""The training loop, its batches, checkpoints and plots."""
