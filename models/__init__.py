"""The neural part: SR-SWA decoding and the models that decode through it. No Prefect, no environment."""
