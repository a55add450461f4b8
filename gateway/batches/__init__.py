"""Work without haste: files of requests that people leave here, and the batches that run them. Knows no route."""
