"""Programs on arrays of any kind: names, chunks and devices are peeled off, the rest bound."""
