"""A module per format; :mod:`gluonops.data.formats` lists them."""
