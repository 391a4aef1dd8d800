"""The study of source retrieval: first stages before and after reranking."""
