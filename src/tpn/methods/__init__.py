"""One file per few-shot method; code that methods share is in the files with an underscore."""
