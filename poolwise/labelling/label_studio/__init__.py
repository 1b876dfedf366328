"""Label Studio: batches as its tasks, its annotations as labels, through its interface or as files.

`forms.py` knows its labelling configurations, `tasks.py` makes tasks, `answers.py` reads annotations, `connection.py`
alone talks to a server, `syncing.py` does one round of it all, `webhook.py` waits for news.
"""
