"""What a head is told besides the encoding: clues, words, late interaction."""
