"""Finding, checking and reading a model: files in, configuration, raw weights, tokenizer and template out. Torch-free."""
