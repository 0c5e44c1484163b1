"""The values that methods, models and adapters hand each other."""
