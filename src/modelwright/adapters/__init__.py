"""What the ports become: one folder for each place to run."""
