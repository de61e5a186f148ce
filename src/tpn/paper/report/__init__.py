"""The report of an experiment: our numbers beside the published ones, as HTML, Markdown and CSV.

A report only reads results: everything in it was measured by the workers.
"""
