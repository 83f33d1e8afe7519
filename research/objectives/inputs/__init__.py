"""The formats in which objectives lay out their inputs."""
