"""What the measuring rig carries: calibrated links, processor time."""
