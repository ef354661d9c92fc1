"""A module that needs another, which is not installed."""

import acme_licence  # type: ignore[import-not-found]

Filter = acme_licence.Filter
