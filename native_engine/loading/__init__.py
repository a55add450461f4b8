"""Finding, checking and reading a model: configuration, raw weights, tokenizer and template. Torch-free."""
