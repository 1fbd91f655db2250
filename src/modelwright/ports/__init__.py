"""What each part of the program is to the others, as small Protocols in our own words."""
