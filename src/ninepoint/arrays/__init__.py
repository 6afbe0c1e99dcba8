"""Arrays: recognise them, cut them with their neighbours, join the results."""
