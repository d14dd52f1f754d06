"""The scale model: what was measured in the rig, put into a simulated network of up to a thousand workers."""
