"""Google Vertex AI: batch prediction jobs, and the places where their data lie."""
