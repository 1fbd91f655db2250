"""HTTP/1.1 as our processes speak it: listening sockets, servers, their life, and a client."""
