"""Where jobs run: this machine, Ray, Slurm, GKE and SkyPilot, and what they share."""
