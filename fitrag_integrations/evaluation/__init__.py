"""Measures for answers, rankings, calibration and cost."""
