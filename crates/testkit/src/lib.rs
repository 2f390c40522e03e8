//! Fakes and fixtures for tests: a scripted engine behind the real worker conversation.
