"""The methods: each a solver under one ADMM driver, and a thin estimator."""
