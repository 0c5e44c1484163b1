"""Features of a head besides the encoding: clues about the title, words, late interaction."""
