"""How good is an answer? One family of metrics, one file. Nothing here knows a model or a task."""
