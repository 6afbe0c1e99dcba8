"""What a cluster pays: graphs, bytes moved and held, stores and simulations on Dask arrays."""
