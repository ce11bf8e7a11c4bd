//! Signals: from engines' `/metrics` bodies to an observation of a role.
