"""What runs inside a build or download task: build, fetch, unpack."""
