"""The first stage of source retrieval: ranks in, ranks out."""
