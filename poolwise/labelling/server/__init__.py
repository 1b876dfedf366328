"""The page that people label on: a small web server, and the background process that trains meanwhile."""
