"""The parts that dense transformer families are assembled from; tokens are rows, (tokens, width), never padded."""
