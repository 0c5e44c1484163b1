"""``fitrag calibrate``: a threshold, stored with the model it was fitted for."""
