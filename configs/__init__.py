"""Values: one YAML file per choice, composed by Hydra into typed configs."""
