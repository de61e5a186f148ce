"""One file per few-shot method; machinery that methods share is in the files with an underscore."""
