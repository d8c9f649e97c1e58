"""From Hugging Face weights to MLX form: planned from headers, streamed row by row, published whole."""
