"""Data from files to batches: lines, tables, pairs, tokenizers, sources, the prepared corpus."""
