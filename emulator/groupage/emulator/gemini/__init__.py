"""The Gemini API: files, batches, generateContent and embedContent, all under /v1beta."""
