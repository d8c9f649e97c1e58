"""Steps without a device: threads and processes of the host's that compute with numpy and OpenBLAS."""
