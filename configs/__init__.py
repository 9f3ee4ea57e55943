"""Settings: typed classes, and one YAML file per choice, composed by Hydra."""
