"""What the papers compare with, each a method on the same flow engine."""
