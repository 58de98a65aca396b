"""The protocols of existing clients: each module has the routes, the shape of the errors, and the bodies it reads."""
