"""The parts that dense families are assembled from; tokens are rows, (tokens, width), never padded."""
