"""The agent in serving Pods: it brings models, keeps them at the edge, and tells the server beside it."""
