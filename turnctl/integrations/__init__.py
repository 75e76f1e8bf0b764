"""What makes clients of others stoppable: one file for each, loaded only where it is asked for."""
