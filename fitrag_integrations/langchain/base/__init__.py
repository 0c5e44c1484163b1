"""What every drop-in for LangChain stands on."""
