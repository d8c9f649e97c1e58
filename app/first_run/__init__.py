"""What a fresh install does beside the first chat: finding out which kernels run fastest on this machine."""
