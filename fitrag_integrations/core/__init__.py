"""Small tools that know nothing of retrieval: checks, records, secrets, drawing."""
