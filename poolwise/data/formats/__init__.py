"""Readers of file formats, one module per format: from paths to arrays, or an error that names the file."""
