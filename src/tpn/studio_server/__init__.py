"""The studio: a local server and its page, for labelling a folder in the browser."""
