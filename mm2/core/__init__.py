"""The domain, pure: values in, values out. Standard library only; no asyncio, clock, random, logging or I/O."""
