"""The control loop: cache, keyed queue, backoff, resync; gather, reconcile, apply."""
