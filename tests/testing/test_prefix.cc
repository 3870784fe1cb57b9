// Has nothing in it: its target holds the precompiled headers of all tests.
