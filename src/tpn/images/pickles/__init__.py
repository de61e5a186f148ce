"""Pickles as data: a reader that builds numbers, strings, lists, tuples, dicts and arrays, and never runs code."""
