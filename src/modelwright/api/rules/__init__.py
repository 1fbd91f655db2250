"""The rules of the kinds that a schema alone cannot say, in CEL: their messages tell what to do."""
