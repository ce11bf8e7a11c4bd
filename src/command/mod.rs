//! What the command line offers, one file a command.
