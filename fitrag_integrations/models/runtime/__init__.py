"""Where models run: the worker thread, the folder, batches."""
