"""What every verb runs on: JSON Lines in and out, resumed, with a bar."""
