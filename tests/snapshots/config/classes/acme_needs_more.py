"""A module that imports a module that is not installed."""

import acme_licence  # type: ignore[import-not-found]

Filter = acme_licence.Filter
