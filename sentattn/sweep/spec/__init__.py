"""What is searched: the sweep file and the command line, read and checked into a plan."""
