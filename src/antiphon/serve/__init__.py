"""`antiphon serve`: models behind an HTTP port, in the languages that existing clients speak.

The parent process talks HTTP and never imports torch; each model has a worker process of its own.
"""
