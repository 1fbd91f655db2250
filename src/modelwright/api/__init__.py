"""The kinds: their structs, schemas, defaults and rules, from which CRDs, OpenAPI and reference are generated."""
