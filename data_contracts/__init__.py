"""What everyone agrees on: records, errors, configuration and formats. No torch, no Prefect."""
