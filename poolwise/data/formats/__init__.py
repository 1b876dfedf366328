"""Readers of the official file formats, one a file: from paths to arrays, or an error that names the file."""
