"""Methods by name, methods over methods, and the results of `fitrag fit`."""
