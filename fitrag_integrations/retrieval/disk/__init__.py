"""Indexes on disk: one that grows, and several searched as one."""
