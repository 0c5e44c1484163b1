"""Runtime of the models: worker thread, model folder, batches."""
