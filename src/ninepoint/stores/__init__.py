"""Arrays in files and stores: `open` reads them lazily, region by region."""
