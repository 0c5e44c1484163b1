"""Why a compression kept what it kept."""
