"""Joint inference: edge and cloud answer as one."""
