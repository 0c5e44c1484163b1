"""A made-up world, and a small language model trained on it: what it was shown is known by count.

python -m scripts.closed_book.train RUN     train in a folder, resumable
python -m scripts.closed_book.ship RUN      put world and model into the package
python -m scripts.closed_book.measure       what the shipped model knows, by showings
"""
