"""Security settings of clients and REST listeners: `security.protocol`, `ssl.*`, `sasl.*`."""
