"""The Prefect server, its worker and deployments, and runs that outlive a crash."""
